"""`read_stream` compared with a plain reader of the same lines; broken files and real ones."""

import gzip
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, read_stream
from keyspread.streams.readers import files

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""


def naive(data):
    """Messages and malformed lines, one line at a time."""
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        parts = line.split(b"\t")
        if not line:
            continue
        if len(parts) == 2 and re.fullmatch(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", parts[0]):
            messages.append((float(parts[0]), parts[1]))
        else:
            malformed.append((number, line.decode("utf-8", "replace")))
    return messages, malformed


def check(stream, data):
    messages, malformed = naive(data)
    assert stream.times.tolist() == [time for time, _ in messages]
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()
    assert [stream.keys[key] for key in stream.hashes] == [key.decode("utf-8", "replace") for _, key in messages]
    assert len(stream.keys) == len({key for _, key in messages})
    assert stream.malformed == (Malformed(len(malformed), *malformed[0]) if malformed else Malformed())


def test_messages_in_order(write):
    stream = read_stream(write(b"10\tb\n11\ta\n12\tb\n"))
    assert stream.times.tolist() == [10, 11, 12]
    assert stream.times.dtype == np.int64
    assert stream.hashes.tolist() == hash_keys(["b", "a", "b"]).tolist()
    assert stream.keys[stream.hashes[0]] == "b"
    assert len(stream.keys) == 2
    assert stream.malformed == Malformed()
    with pytest.raises(KeyError):
        stream.keys[0]


@pytest.mark.parametrize(
    "data",
    [
        b"1\ta",
        b"1\ta\r\n2\tb\r\n\r\nx\r\n",
        b'1\t"a\n2\tb"c\n3\t"d"\n4\t\'e\n5\ta,b;c\n6\ta\\tb\n',
        b"1\t\n2\t\n3\tNULL\n4\tnan\n5\t \n",
        b"\n\n1\ta\n\n\nbad\n2\tb\n",
        b"bad\n1\ta\nworse\n",
        b"1\ta\n2\tb\tc\n3\td\n",
        b"1\ta\nnan\tb\ninf\tc\n0x1f\td\n\te\n 1\tf\n1 \tg\n1_0\th\n",
        b"1.5\ta\n-2\tb\n+3\tc\n1e3\td\n.5\te\n6.\tf\n99999999999999999999\tg\n",
        b"1\t\xff\xfe\n2\tb\n\xff\n\xff\tc\n",
        b"1\ta\x00b\n2\t\xe2\x80\xa8\x0b\x0c\x85\n",
        b"1\ta\rx\r2\tb\n",
        b"  \n1\ta\n",
        "\u0663\ta\n1\tü€😀\n".encode(),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_of_all_kinds(write, data, pack):
    check(read_stream(write(pack(data))), data)


LINES = st.lists(
    st.sampled_from([b"1\ta", b"2\tb", b"3\t", b"2.5\tc", b"", b"x", b"x\ty", b"1\ta\tb", b"\xff", b"4\t\xff\r"])
)


@given(LINES, st.integers(1, 40))
def test_any_lines_in_blocks_of_any_size(tmp_path_factory, lines, block):
    data = b"\n".join(lines)
    path = tmp_path_factory.mktemp("lines") / "stream.tsv"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        if naive(data)[0]:
            check(read_stream(path), data)
        else:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path)


def test_byte_order_mark(write):
    data = b"1\ta\n2\tb\n"
    check(read_stream(write(b"\xef\xbb\xbf" + data)), data)


def test_gzip_is_known_by_its_bytes_not_its_name(write):
    data = b"1\ta\n2\tb\n"
    check(read_stream(write(gzip.compress(data), "stream.tsv")), data)
    check(read_stream(write(data, "stream.tsv.gz")), data)


def test_gzip_of_several_members(write):
    check(read_stream(write(gzip.compress(b"1\ta\n2\t") + gzip.compress(b"b\n"))), b"1\ta\n2\tb\n")


def test_many_keys_are_kept_once(write, monkeypatch):
    monkeypatch.setattr(BLOCK, 1 << 16)
    lines = [f"{number}\tkey {number * 7919 % 300_000}" for number in range(600_000)]
    stream = read_stream(write("\n".join(lines).encode()))
    assert len(stream.keys) == 300_000
    for place in (0, 299_999, 300_000, 599_999):
        assert stream.keys[stream.hashes[place]] == lines[place].split("\t")[1]


def test_progress_ends_at_the_size_of_the_file(write, monkeypatch):
    monkeypatch.setattr(BLOCK, 1 << 14)
    path = write(gzip.compress(os.urandom(30_000).hex().encode().replace(b"0", b"\n1\tk")))
    seen = []
    read_stream(path, progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == os.path.getsize(path)


def test_strict_names_the_first_malformed_line(write):
    path = write(b"1\ta\n\n2 b\nworse\n")
    assert read_stream(path).malformed == Malformed(2, 3, "2 b")
    assert str(read_stream(path).malformed) == "2 malformed lines, the first is line 3: '2 b'"
    with pytest.raises(InputError) as raised:
        read_stream(path, strict=True)
    assert str(raised.value) == (
        f"{path}, line 3: expected time<TAB>key, got '2 b': "
        "fix the line, or read without strict to skip and count such lines"
    )


def test_a_long_malformed_line_is_shown_in_part(write):
    stream = read_stream(write(b"1\ta\n" + b"x" * 10_000))
    assert len(stream.malformed.first_text) == 80
    assert stream.malformed.first_text.endswith("x…")


@pytest.mark.parametrize("data", [b"", b"\n\r\n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_an_error(write, data):
    path = write(data)
    with pytest.raises(InputError, match=r"no messages \(the file is empty\): each line must be time<TAB>key$"):
        read_stream(path)


def test_a_file_of_another_format_is_an_error(write):
    with pytest.raises(InputError, match=r"no messages \(2 malformed lines, the first is line 1: 'time,key'\)"):
        read_stream(write(b"time,key\n1,a\n"))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.tsv: no such file or folder: check the path$"):
        read_stream(tmp_path / "nowhere.tsv")


def test_limit_stops_in_the_middle_and_reads_no_line_behind(write):
    path = write(b"bad\n1\ta\n2\tb\nworse\n3\ta\n4\tc\n")
    stream = read_stream(path, limit=2)
    assert stream.times.tolist() == [1, 2]
    assert len(stream.keys) == 2
    assert stream.malformed == Malformed(1, 1, "bad")
    assert read_stream(path, limit=3).malformed == Malformed(2, 1, "bad")
    assert read_stream(path, limit=100).times.tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        read_stream(path, limit=0)


@given(LINES, st.integers(1, 10), st.integers(1, 40))
def test_any_limit_is_the_stream_up_to_that_message(tmp_path_factory, lines, limit, block):
    messages, read = 0, []
    for line in lines:
        if messages == limit:
            break
        read.append(line)
        messages += len(naive(line)[0])
    path = tmp_path_factory.mktemp("lines") / "stream.tsv"
    path.write_bytes(b"\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        if messages:
            check(read_stream(path, limit=limit), b"\n".join(read))
        else:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, limit=limit)


def test_a_file_that_may_not_be_read(write, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", path)

    # Not by chmod: root can read every file.
    monkeypatch.setattr(files, "open", refuse, raising=False)
    path = write(b"1\ta\n")
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        read_stream(path)


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
    path = write(data)
    with pytest.raises(InputError, match=r"stream\.tsv: broken gzip after line \d+ .*: download or compress") as raised:
        read_stream(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "messages", "keys", "share", "hottest"),
    [
        ("words", 6_188_116, 135_479, 4.51, "the"),
        ("cashtags", 253_491, 7_557, 8.33, "$AAPL"),
        ("flights3m_origin", 3_000_000, 229, 5.54, "ORD"),
    ],
)
def test_real_streams(shared_data, name, messages, keys, share, hottest):
    stream = read_stream(shared_data / f"{name}.tsv.gz", strict=True)
    assert len(stream.hashes) == len(stream.times) == messages
    assert len(stream.keys) == keys
    found, counts = np.unique(stream.hashes, return_counts=True)
    assert len(found) == keys
    assert round(100 * counts.max() / messages, 2) == share
    assert stream.keys[found[counts.argmax()]] == hottest
    assert (np.diff(stream.times) >= 0).all()
