"""Folders, patterns and compressed files read as one stream; files and paths that are rejected."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pytest

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, files, find_streams, read_stream, total_bytes

HOW = "pass format=, one of tsv, wikibench, words, cashtags, csv, json, parquet"


def keys_of(stream):
    texts = stream.key_texts(stream.hashes.tolist())
    return [texts[key] for key in stream.hashes.tolist()]


@pytest.fixture
def folder(write, tmp_path):
    write(b"3\tc\n", "all/b.tsv")
    write(gzip.compress(b"1\ta\n2\tb\nbad\n"), "all/a.tsv.gz")
    write(b"", "all/empty.csv")
    write(b"4.5\td\n", "all/deep/d.tab")
    write(b"worse\n5\te\n", "all/z.txt")
    for hidden in ("all/_SUCCESS", "all/.a.tsv.crc", "all/_temporary/x.tsv", "all/.git/x.tsv"):
        write(b"9\thidden\n", hidden)
    return tmp_path / "all"


def test_a_folder_is_read_in_order_of_name(folder):
    stream = read_stream(folder)
    assert keys_of(stream) == ["a", "b", "c", "d", "e"]
    assert stream.times.tolist() == [1, 2, 3, 4.5, 5]
    assert stream.malformed == Malformed(2, f"line 3 of {folder / 'a.tsv.gz'}: 'bad'")
    assert str(stream.malformed) == f"2 malformed lines, the first is line 3 of {folder / 'a.tsv.gz'}: 'bad'"
    with pytest.raises(InputError, match=r"all/a\.tsv\.gz, line 3: expected time<TAB>key, got 'bad': fix the line"):
        read_stream(folder, strict=True)
    assert read_stream(folder, limit=3).times.tolist() == [1, 2, 3]
    assert [os.path.basename(path) for path in find_streams(folder)] == [
        "a.tsv.gz",
        "b.tsv",
        "deep",
        "empty.csv",
        "z.txt",
    ]
    assert find_streams(folder / "b.tsv") == [str(folder / "b.tsv")]


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [("*", "abcde"), ("**", "abcde"), ("*.t*", "abce"), ("[ab].*", "abc"), ("**/d*", "d"), ("_SUC*", ["hidden"])],
)
def test_patterns(folder, pattern, keys):
    assert keys_of(read_stream(folder / pattern, format="tsv")) == list(keys)


def test_progress_is_the_sum_over_all_files(folder, monkeypatch):
    monkeypatch.setattr(files, "_BLOCK", 1 << 16)
    packed = gzip.compress(os.urandom(300_000).hex().encode().replace(b"0", b"\n1\tk"))
    (folder / "c.tsv.gz").write_bytes(packed)
    seen = []
    read_stream(folder, progress=seen.append)
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    assert seen[-1] == total_bytes(folder) == sum(path.stat().st_size for path in folder.glob("**/[abcdez]*.*"))


@pytest.mark.parametrize("compression", ["gzip", "zstd", "bz2", "lz4"])
def test_a_compression_is_known_by_its_bytes_not_its_name(tmp_path, compression):
    with pa.CompressedOutputStream(str(tmp_path / "a.tsv"), compression) as file:
        file.write(b"\xef\xbb\xbf1\ta\n2\tb")
    assert keys_of(read_stream(tmp_path / "a.tsv")) == ["a", "b"]


PACKED = gzip.compress(b"".join(b"%d\tkey %d\n" % (number, number) for number in range(1000)), mtime=0)


@pytest.mark.parametrize(
    "data",
    [
        PACKED[: len(PACKED) // 2],
        PACKED[:-4] + b"\x00\x00\x00\x00",
        PACKED[:40] + b"\x00\x00\x00\x00" + PACKED[44:],
        PACKED + b"garbage",
        b"\x1f\x8b",
    ],
    ids=["truncated", "wrong length", "damaged", "garbage behind", "only the magic"],
)
def test_broken_gzip(write, data):
    with pytest.raises(InputError, match=r"stream\.tsv: broken gzip.*: check the file, or write it again$") as raised:
        read_stream(write(data))
    assert "\n" not in str(raised.value)


def test_memory_is_a_few_blocks_not_the_file(write, monkeypatch):
    monkeypatch.setattr(files, "_BLOCK", 1 << 16)
    blocks, parse = [], files.text_format
    monkeypatch.setattr(
        files, "_blocks", lambda *given, cut=files._blocks: (blocks.append(len(b)) or b for b in cut(*given))
    )
    lines = b"".join(b"%d\tkey %d\n" % (number, number * 7919 % 30_000) for number in range(200_000))
    stream = read_stream(write(gzip.compress(lines)))
    assert (len(stream.hashes), len(np.unique(stream.hashes))) == (200_000, 30_000)
    assert len(blocks) > 20
    assert max(blocks) < 1 << 17
    assert parse is files.text_format
    monkeypatch.setattr(files, "_LONGEST_LINE", 1 << 17)
    with pytest.raises(InputError, match=r"line 2: longer than 131,072 bytes: cut it, or close the quote"):
        read_stream(write(b"1\ta\n" + b"x" * (1 << 19)))


def test_keys_of_two_types_in_one_stream(write):
    first = write(b'{"k": 7}\n', "folder/1.json")
    second = write(b'{"k": "7"}\n', "folder/2.json")
    with pytest.raises(InputError) as raised:
        read_stream(first.parent, key="k")
    assert str(raised.value) == (
        f"{second}: keys are text here and int64 in {first}, so equal keys would hash differently: "
        "write all files with one key type"
    )
    write(b'{"k": null}\n', "folder/2.json")
    write(b'{"k": 8}\n', "folder/3.json")
    assert keys_of(read_stream(first.parent, key="k")) == ["7", "null", "8"]


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("a.tsv", b"", {}, r"no messages \(the file is empty\): name another path$"),
        (
            "a.tsv",
            b"time,key\n1,a\n",
            {},
            r"no messages \(2 malformed lines, .*\): each line must be time<TAB>key, or pass",
        ),
        ("a.dat", b"1\ta\n", {}, f"the ending does not tell the format: {HOW}$"),
        ("a.tsv", b"1\ta\n", {"format": "xml"}, f"unknown format 'xml': {HOW}$"),
        ("a.tsv", b"1\ta\n", {"key": "u"}, "key= is for csv, json, parquet only, got 'u' with tsv: leave it out$"),
    ],
)
def test_streams_that_will_not_do(write, name, data, options, message):
    with pytest.raises(InputError, match=message) as raised:
        read_stream(write(data, name), **options)
    assert "\n" not in str(raised.value)


def test_no_files(tmp_path):
    for read in (read_stream, total_bytes):
        with pytest.raises(InputError, match=r": no file in this folder: check the path$"):
            read(tmp_path)
        with pytest.raises(InputError, match=r"nowhere: no such file or folder: check the path$"):
            read(tmp_path / "nowhere")
        with pytest.raises(InputError, match=r"no\*: no file matches this pattern: check the path$"):
            read(tmp_path / "no*")
    (tmp_path / "a.tsv").symlink_to(tmp_path / "nowhere")
    for read in (read_stream, total_bytes):
        with pytest.raises(InputError, match=r"a\.tsv: cannot be read \(No such file or directory\): check the file"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("name", "messages", "keys", "share", "hottest"),
    [
        ("words", 6_188_116, 135_479, 4.51, "the"),
        ("cashtags", 253_491, 7_557, 8.33, "$AAPL"),
        ("flights3m_origin", 3_000_000, 229, 5.54, "ORD"),
    ],
)
@pytest.mark.slow
def test_real_streams(shared_data, name, messages, keys, share, hottest):
    stream = read_stream(shared_data / f"{name}.tsv.gz", strict=True)
    assert len(stream.hashes) == len(stream.times) == messages
    found, counts = np.unique(stream.hashes, return_counts=True)
    assert len(found) == keys
    assert round(100 * counts.max() / messages, 2) == share
    assert stream.key_texts([found[counts.argmax()]]) == {hash_keys([hottest])[0]: hottest}
    assert (np.diff(stream.times) >= 0).all()
