"""CSV compared with the csv module of Python, as a whole and in small blocks."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, read_stream
from keyspread.streams.readers import csv_records

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""


def keys_of(stream):
    return [stream.keys[key] for key in stream.hashes]


def naive_csv(data, key, time=None):
    """Messages (time, key) and malformed lines, by Python's csv module."""
    lines = data.decode("latin-1").splitlines(keepends=True)
    reader = csv.reader(io.StringIO("".join(lines), newline=""))
    header = next(row for row in reader if row)
    messages, malformed, line = [], [], reader.line_num
    for row in reader:
        number, line = line + 1, reader.line_num
        if not row:
            continue
        when = None
        if len(row) == len(header) and time is not None:
            try:
                when = float(row[header.index(time)])
            except ValueError:
                row = []
        if len(row) == len(header):
            messages.append((when, row[header.index(key)].encode("latin-1")))
        else:
            text = "".join(lines[number - 1 : line]).rstrip("\r\n").encode("latin-1")
            malformed.append((number, text.decode("utf-8", "replace")))
    return messages, malformed


def check(stream, messages, malformed, timed):
    """Compare a stream with messages in the order of the file."""
    if timed:
        messages = sorted(messages, key=lambda message: message[0])
        assert stream.times.tolist() == [time for time, _ in messages]
    else:
        assert stream.times.tolist() == list(range(len(messages)))
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()
    assert len(stream.keys) == len({key for _, key in messages})
    assert stream.malformed == (Malformed(len(malformed), *malformed[0]) if malformed else Malformed())


RECORDS = st.lists(
    st.sampled_from(
        [
            *(b"1,007,x", b"2,a b,", b'3,"q, r",y', b'4,"two\nlines",z', b'5,"say ""hi""",w', b"6,,v", b'7,5" disk,u'),
            *(b"8,\xff,t", b'9,"x"y,s', b"-1,NULL,r", b"2,a b,\r", b'"3","k","e\r\n\r\nf"'),
            *(
                b"",
                b"bad",
                b"1,2",
                b"1,2,3,4",
                b"\xff,\xff",
                b"soon,k,q",
                b"\xff,k,q",
                b"1.5,k,q",
                b",k,q",
                b'x,"\n",,,',
                b" ",
            ),
        ]
    )
)


@given(RECORDS, st.integers(1, 60), st.booleans())
def test_any_csv_in_blocks_of_any_size(tmp_path_factory, records, block, timed):
    data = b"\n".join([b'time,"key",rest', *records])
    path = tmp_path_factory.mktemp("csv") / "stream.csv"
    path.write_bytes(data)
    time = "time" if timed else None
    messages, malformed = naive_csv(data, "key", time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        if messages:
            check(read_stream(path, key="key", time=time), messages, malformed, timed)
        else:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, key="key", time=time)


@given(RECORDS)
def test_csv_line_by_line_is_csv_in_columns(records):
    block = b"\n".join(records)
    table = csv_records.Csv("stream.csv", "key", None)
    table.begin(b"time,key,rest\n")
    found, each = table.parse(block, 1), table._parse_each(block)
    assert found.keys.cast(pa.binary()).to_pylist() == each.keys.to_pylist()
    assert (found.malformed, found.first_malformed) == (each.malformed, each.first_malformed)
    assert b"".join(table.split(block)) == block


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_csv_keys_are_texts_as_written(write, pack):
    data = b"\xef\xbb\xbf\r\nuser,n\r\n007,1\r\n7,2\r\n\r\n 7,3\r\n"
    stream = read_stream(write(pack(data), "stream.csv.gz"), key="user", strict=True)
    assert stream.hashes.tolist() == hash_keys(["007", "7", " 7"]).tolist()
    assert keys_of(read_stream(write(data, "stream.csv"), key="user", limit=2)) == ["007", "7"]


def test_a_quote_that_is_never_closed_is_a_plain_character(write, monkeypatch):
    data = b'k,v\na,1\n"b,2\nc,3\n' + b"d,4\n" * 100
    assert keys_of(read_stream(write(data, "stream.csv"), key="k"))[:3] == ["a", '"b', "c"]
    monkeypatch.setattr(BLOCK, 8)
    monkeypatch.setattr(csv_records, "_LONGEST_RECORD", 50)
    stream = read_stream(write(data, "stream.csv"), key="k")
    assert keys_of(stream) == ["a", '"b', "c"] + ["d"] * 100
    assert stream.malformed == Malformed()


def test_times_of_csv(write):
    data = b"k,t\na,2020-01-02\nb,2020-01-01 00:00:00.5\n"
    stream = read_stream(write(data, "stream.csv"), key="k", time="t")
    assert keys_of(stream) == ["b", "a"]
    assert stream.times.tolist() == [1577836800.5, 1577923200]
    stream = read_stream(write(data + b"c,5\nd,2020-01-01T00:00:00Z\ne,\n", "stream.csv"), key="k", time="t")
    assert keys_of(stream) == ["c", "d", "b", "a"]
    assert stream.malformed == Malformed(1, 6, "e,")
    stream = read_stream(
        write(b"k,t\na,2020-01-01T00:00:00Z\nb,2020-01-01T00:00:00+01:00\n", "z.csv"), key="k", time="t"
    )
    assert stream.times.tolist() == [1577833200, 1577836800]
    stream = read_stream(write(b"k,t\na,1\nb,0\nc,1\nd,0\n", "stable.csv"), key="k", time="t")
    assert keys_of(stream) == ["b", "d", "a", "c"]
    assert stream.times.dtype == np.int64
    assert keys_of(read_stream(write(b"t\n3\n1\n", "same.csv"), key="t", time="t")) == ["1", "3"]


def test_headers_that_will_not_do(write):
    with pytest.raises(InputError, match="2 columns are called 'a': rename all but one of them"):
        read_stream(write(b"a,b,a\n1,2,3\n", "stream.csv"), key="a")
    assert keys_of(read_stream(write(b"a,b,a\n1,2,3\n", "stream.csv"), key="b")) == ["2"]
    names = ",".join(f"c{number}" for number in range(100)).encode()
    with pytest.raises(InputError, match=r"the columns are 'c0', .*, 'c19' and 80 more$"):
        read_stream(write(names, "stream.csv"), key="a")
    with pytest.raises(
        InputError, match=r"stream\.csv: no messages \(only a header\): name another path, or pass format="
    ):
        read_stream(write(b"a,b\n", "stream.csv"), key="a")
