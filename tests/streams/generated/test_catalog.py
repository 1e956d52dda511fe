"""Generated streams by name: their defaults, the parameters each one takes, and the files they are written to."""

import gzip
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import DriftingZipfStream, ZipfStream, look_alike, read_stream
from keyspread.streams import catalog as writer
from keyspread.streams.catalog import DEFAULTS, NAMES, check_writable, named_stream, write_stream


def test_defaults():
    assert named_stream("zipf") == ZipfStream(1.4, 10_000, 1_000_000)
    assert named_stream("drift") == DriftingZipfStream(1.2, 100_000, 1_000_000, every=50_000, hottest=100)
    assert named_stream("ct") == look_alike("ct")
    assert named_stream("WP", scale=0.01, seed=3) == look_alike("wp", 0.01, 3)
    assert NAMES == ("zipf", "drift", "wp", "tw", "ct")


ALL = {"skew": 1.5, "keys": 10, "messages": 10, "seed": 1, "every": 5, "hottest": 2, "redrawn": 0.5, "scale": 0.1}


@pytest.mark.parametrize("name", ["zipf", "drift", "ct"])
@pytest.mark.parametrize("parameter", ALL)
def test_each_takes_its_own_numbers_and_refuses_the_others(name, parameter):
    if parameter in DEFAULTS[name]:
        assert named_stream(name, **{parameter: ALL[parameter]}) != named_stream(name)
    else:
        with pytest.raises(InputError, match=f"{parameter} is for .* only, got {ALL[parameter]} with {name}: leave it"):
            named_stream(name, **{parameter: ALL[parameter]})


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("pareto", {}, "unknown stream 'pareto'; known are zipf, drift, wp, tw, ct"),
        ("zipf", {"keys": 0}, "keys must be at least 1, got 0"),
        ("drift", {"keys": 5, "hottest": 9}, "hottest must be at most the number of keys, 5, got 9"),
        ("ct", {"scale": 2}, "scale is a share"),
        ("ct", {"scale": 0.001}, "scale 0.001 leaves 3 keys of CT: take 0.034 or more"),
    ],
)
def test_what_is_refused(name, numbers, message):
    with pytest.raises(InputError, match=message):
        named_stream(name, **numbers)


STREAM = DriftingZipfStream(1.2, 500, 2500, every=400, hottest=50, seed=3)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", 1000)


def keys_of(stream):
    return stream.law().draw(0, stream.messages).tolist()


@pytest.mark.usefixtures("small_chunks")
def test_parquet_reads_back_as_the_same_stream(tmp_path):
    path = str(tmp_path / "made.parquet")
    seen = []
    write_stream(STREAM, path, progress=seen.append)
    assert seen == [1000, 2000, 2500]
    assert [str(field.type) for field in pq.read_schema(path)] == ["int64", "int64"]
    found = read_stream(path, key="key", time="time")
    assert (found.hashes == STREAM.hashes()).all()
    assert (found.times == np.arange(2500)).all()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz", ".TSV.GZ"])
def test_text_has_a_line_a_message(tmp_path, ending):
    path = tmp_path / f"made{ending}"
    write_stream(STREAM, str(path))
    text = path.read_bytes()
    text = text if ending == ".tsv" else gzip.decompress(text)
    assert text.decode() == "".join(f"{time}\t{key}\n" for time, key in enumerate(keys_of(STREAM)))
    found = read_stream(path)
    # A key is a text there: other hashes, but as many messages of each.
    assert found.hashes.tolist() == hash_keys([str(key) for key in keys_of(STREAM)]).tolist()


@pytest.mark.parametrize("ending", writer.ENDINGS)
def test_the_same_stream_is_the_same_file_and_an_empty_one_is_a_file(tmp_path, ending):
    for name in ("one", "two"):
        write_stream(STREAM, str(tmp_path / f"{name}{ending}"))
    assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()
    empty = tmp_path / f"none{ending}"
    write_stream(ZipfStream(1.0, 10, 0), str(empty))
    if ending == ".parquet":
        assert pq.read_table(empty).num_rows == 0
    else:
        assert (gzip.decompress(empty.read_bytes()) if ending == ".tsv.gz" else empty.read_bytes()) == b""


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("ending", writer.ENDINGS)
def test_whatever_happens_there_is_all_of_it_or_what_was_there(tmp_path, error, ending):
    path = tmp_path / f"made{ending}"
    path.write_bytes(b"before")

    def stop(done):
        raise error

    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError) as caught:
        write_stream(STREAM, str(path), overwrite=True, progress=stop)
    if caught.type is InputError:
        assert f"{path} cannot be written (No space left on device)" in str(caught.value)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"before"
    write_stream(STREAM, str(path), overwrite=True)
    assert path.read_bytes() != b"before"


def test_where_nothing_is_written(tmp_path):
    (tmp_path / "there.tsv").write_bytes(b"before")
    (tmp_path / "folder.tsv").mkdir()
    for name, message in (
        ("there.tsv", "already exists: choose another name or pass --overwrite"),
        ("folder.tsv", "is a folder: name a file"),
        ("made.csv", "the file of a stream must end in .tsv, .tsv.gz or .parquet, got"),
        ("nowhere/made.tsv", "cannot be written: there is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            check_writable(str(tmp_path / name))
    with pytest.raises(InputError, match="is a folder"):
        check_writable(str(tmp_path / "folder.tsv"), overwrite=True)
    check_writable(str(tmp_path / "there.tsv"), overwrite=True)
