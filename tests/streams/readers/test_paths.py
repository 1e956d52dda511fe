"""Folders and patterns read as one stream, formats found by ending or content, and paths that are rejected."""

import gzip
import os

import numpy as np
import pytest

from keyspread.errors import InputError
from keyspread.streams import Malformed, read_stream, total_bytes
from keyspread.streams.readers.formats import by_ending

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""

HOW = "pass format=, one of tsv, wikibench, words, cashtags, csv, json, parquet"


@pytest.fixture
def folder(write, tmp_path):
    write(b"3\tc\n", "all/b.tsv")
    write(gzip.compress(b"1\ta\n2\tb\nbad\n"), "all/a.tsv.gz")
    write(b"", "all/empty.csv")
    write(b"1 4.5 d -\n", "all/deep/trace.1.gz")
    write(b"worse\n5\te\n", "all/z.txt")
    for hidden in ("all/_SUCCESS", "all/.a.tsv.crc", "all/_temporary/x.tsv", "all/.git/x.tsv"):
        write(b"9\thidden\n", hidden)
    return tmp_path / "all"


def test_a_folder_is_read_in_order_of_name(folder):
    stream = read_stream(folder)
    assert [stream.keys[key] for key in stream.hashes] == ["a", "b", "c", "d", "e"]
    assert stream.times.tolist() == [1, 2, 3, 4.5, 5]
    assert stream.malformed == Malformed(2, 3, "bad", str(folder / "a.tsv.gz"))
    assert str(stream.malformed) == f"2 malformed lines, the first is line 3 of {folder / 'a.tsv.gz'}: 'bad'"
    with pytest.raises(InputError, match=r"all/a\.tsv\.gz, line 3: expected time<TAB>key, got 'bad'"):
        read_stream(folder, strict=True)
    assert read_stream(folder, limit=3).times.tolist() == [1, 2, 3]
    assert read_stream(folder, limit=2).malformed == Malformed()


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("*", "abcde"),
        ("**", "abcde"),
        ("*.t*", "abce"),
        ("?.tsv", "c"),
        ("[ab].*", "abc"),
        ("**/trace*", "d"),
        ("_SUC*", ["hidden"]),
    ],
)
def test_patterns(folder, pattern, keys):
    options = {"format": "tsv"} if pattern == "_SUC*" else {}
    stream = read_stream(folder / pattern, **options)
    assert [stream.keys[key] for key in stream.hashes] == list(keys)


def test_a_malformed_line_of_the_only_file_in_a_folder(write):
    path = write(b"1\ta\nbad\n", "folder/a.tsv")
    assert str(read_stream(path.parent).malformed) == f"1 malformed line, line 2 of {path}: 'bad'"
    assert str(read_stream(path).malformed) == "1 malformed line, line 2: 'bad'"


def test_a_name_that_only_looks_like_a_pattern(write):
    write(b"1\ta\n", "a.tsv")
    assert read_stream(write(b"2\tb\n", "[a].tsv")).times.tolist() == [2]


def test_progress_is_the_sum_over_all_files(folder):
    seen = []
    read_stream(folder, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == total_bytes(folder) == sum(path.stat().st_size for path in folder.glob("**/[abetz]*.*"))
    assert total_bytes(folder / "b.tsv") == 4
    assert total_bytes(folder / "[b]*") == 4


@pytest.mark.parametrize(
    ("name", "format"),
    [
        *(("a.tsv", "tsv"), ("a.TAB", "tsv"), ("a.txt.gz", "tsv"), ("a.csv", "csv"), ("a.csv.gz", "csv")),
        *(
            ("a.json", "json"),
            ("a.jsonl.gz", "json"),
            ("a.ndjson", "json"),
            ("a.parquet", "parquet"),
            ("a.pq", "parquet"),
        ),
        *(("wiki.12.gz", None), ("trace", None), ("csv", None), ("a.gz", None), (".csv/a", None)),
    ],
)
def test_endings(name, format):
    assert by_ending(f"folder.tsv/{name}") == format


@pytest.mark.parametrize("name", ["stream", "stream.dat", "stream.gz"])
def test_time_and_key_without_an_ending(write, name):
    assert read_stream(write(b"# a remark\n1\ta\n", name)).malformed.count == 1


def test_tsv_stays_tsv_where_one_line_is_a_message(write):
    assert read_stream(write(b"1 2 u -\n1\ta\n", "stream.tsv")).malformed == Malformed(1, 1, "1 2 u -")


def test_the_format_that_is_named_wins(write):
    path = write(b"1\ta,b\n", "stream.csv")
    assert read_stream(path, format="tsv").times.tolist() == [1]


@pytest.mark.parametrize("data", [b"what is this\n", b'{"a": 1}\n', b"\n\nwhat is this"])
def test_a_guess_that_fails(write, data):
    path = write(data, "stream.dat")
    with pytest.raises(InputError) as raised:
        read_stream(path)
    first = data.decode().strip()
    assert str(raised.value) == f"{path}: neither the ending nor the first line, {first!r}, tells the format: {HOW}"


def test_an_unknown_format(write):
    with pytest.raises(InputError) as raised:
        read_stream(write(b"1\ta\n"), format="xml")
    assert str(raised.value) == f"unknown format 'xml': {HOW}"


def test_columns_where_there_are_none(write):
    path = write(b"1\ta\n")
    for name in ("key", "time"):
        with pytest.raises(InputError) as raised:
            read_stream(path, **{name: "user"})
        assert str(raised.value) == f"{path}: {name}= is for csv, json, parquet only, got 'user' with tsv: leave it out"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"PAR1\x00\x00", "is a Parquet file, not csv: pass format='parquet'"),
        ("a.tsv", b"PAR1\x00\x00", "is a Parquet file, not tsv: pass format='parquet'"),
        ("a.json", b"PK\x03\x04\x00", "is a zip archive, not json: decompress or convert it first"),
        ("a.csv", b"\x28\xb5\x2f\xfd\x00", "is compressed with Zstandard, not csv: decompress or convert it first"),
        ("a.parquet", b"a,b\n1,2\n", f"is not a Parquet file, it starts with 'a,b': {HOW}"),
        ("a.parquet", b"ORC\x00", f"is an ORC file: {HOW}"),
    ],
)
def test_a_file_of_another_format(write, name, data, message):
    path = write(data, name)
    with pytest.raises(InputError) as raised:
        read_stream(path, key=None if name.endswith("tsv") else "a")
    assert str(raised.value) == f"{path}: {message}"


def test_no_line_is_a_message(write):
    path = write(b"time,key\n1,a\n")
    with pytest.raises(InputError) as raised:
        read_stream(path)
    assert str(raised.value) == (
        f"{path}: no messages (2 malformed lines, the first is line 1: 'time,key'): "
        f"each line must be time<TAB>key, or {HOW}"
    )


def test_no_files(tmp_path):
    for read in (read_stream, total_bytes):
        with pytest.raises(InputError, match=r": no file in this folder: check the path$"):
            read(tmp_path)
        with pytest.raises(InputError, match=r"nowhere: no such file or folder: check the path$"):
            read(tmp_path / "nowhere")
        with pytest.raises(InputError, match=r"no\*: no file matches this pattern: check the path$"):
            read(tmp_path / "no*")


def test_only_empty_files(write):
    folder = write(b"", "folder/a.tsv").parent
    with pytest.raises(InputError, match=r"folder: no messages \(the file is empty\): each line must be time<TAB>key$"):
        read_stream(folder)
    write(b"\n", "folder/b")
    with pytest.raises(InputError, match=r"folder: no messages \(all 2 files are empty\): each line"):
        read_stream(folder)
    with pytest.raises(
        InputError, match=r"folder/b: no messages \(the file is empty\): write messages into it, or name"
    ):
        read_stream(folder / "b")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.json.gz", "a.parquet.gz", "wiki.1.gz"])
def test_broken_gzip_of_every_format(write, name):
    packed = gzip.compress(os.urandom(1000).hex().encode())
    with pytest.raises(InputError, match=r"broken gzip after line 0 \(.*\): download or compress the file again$"):
        read_stream(write(packed[:500], name), key="k")


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "a.tsv").symlink_to(tmp_path / "nowhere")
    for read in (read_stream, total_bytes):
        with pytest.raises(InputError, match=r"a\.tsv: cannot be read \(No such file or directory\): check the file"):
            read(tmp_path)


def test_a_pipe(tmp_path, monkeypatch):
    import threading

    os.mkfifo(tmp_path / "pipe.csv")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe.csv").write_bytes(b"k\n" + b"a\n" * 1000))
    writer.start()
    monkeypatch.setattr(BLOCK, 100)
    seen = []
    assert len(read_stream(tmp_path / "pipe.csv", key="k", progress=seen.append).hashes) == 1000
    writer.join()
    assert set(seen) == {0}


def test_a_real_stream_twice(shared_data, tmp_path):
    for name in ("1.tsv.gz", "2.tsv.gz"):
        (tmp_path / name).symlink_to(shared_data / "cashtags.tsv.gz")
    once, twice = read_stream(tmp_path / "1.tsv.gz"), read_stream(tmp_path / "*.tsv.gz", strict=True)
    assert np.array_equal(twice.hashes, np.tile(once.hashes, 2))
    assert np.array_equal(twice.times, np.tile(once.times, 2))
    assert len(twice.keys) == len(once.keys)
    some = read_stream(shared_data / "wor*.tsv.gz", limit=1000)
    assert len(some.hashes) == 1000
    assert some.keys[some.hashes[0]] == "rt"
