"""CSV, JSON lines and Parquet against the readers of Python's standard library, whole and in small blocks."""

import csv
import datetime
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import NULL_HASH, hash_keys
from keyspread.streams import Malformed, read_stream
from keyspread.streams.readers import columns, files, parquet


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
        patch.setattr(files, "_BLOCK", block)
        if messages:
            check(read_stream(path, key="key", time=time), messages, malformed, timed)
        else:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, key="key", time=time)


@given(RECORDS)
def test_csv_line_by_line_is_csv_in_columns(records):
    block = b"\n".join(records)
    table = columns.Csv("stream.csv", "key", None)
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
    monkeypatch.setattr(files, "_BLOCK", 8)
    monkeypatch.setattr(columns, "_LONGEST_RECORD", 50)
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


def naive_json(data, key, kinds, time=None):
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line.decode())
            value = item.get(key)
            fits = value is None or type(value) in kinds
            when = float(item[time]) if time else None
            if isinstance(value, str):
                value.encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            fits = False
        if fits:
            messages.append((when, float(value) if float in kinds and value is not None else value))
        else:
            malformed.append((number, line.decode("utf-8", "replace")))
    return messages, malformed


OTHERS = [
    b"",
    b"  ",
    b"{",
    b"null",
    b"[1]",
    b'{"k": "\xff", "t": 1}',
    b'{"k": "\\ud800", "t": 1}',
    b'{"k": 1} {"k": 2}',
]
OTHERS += [b'{"k": 12345678901234567890123, "t": 1}', b'{"k": [1], "t": 2}', b'{"t": 3, "x": {"k": 4}}']
OTHERS += [b'{"k": null, "t": 1.5}', b'{"k": null, "t": null}', b'{"k": null}', b'{"t": 2, "k": null}\r']
COLUMNS = {
    (str,): [b'{"k": "007", "t": 1}', b'{"t": 2, "k": "2020-01-01", "u": 0}', b'{"k": "\\u00e9", "t": 3}', b'{"k": 1}'],
    (int,): [b'{"k": 7, "t": 2}', b'{"k": -1, "t": 1.5}', b'{"k": 1.0, "t": 1}', b'{"k": "x", "t": 1}', b'{"k": true}'],
    (float, int): [b'{"k": 0.5, "t": 2}', b'{"k": 3, "t": 1}', b'{"k": 1e3, "t": 0}', b'{"k": NaN, "t": 0}'],
    (bool,): [b'{"k": true, "t": 2}', b'{"k": false, "t": 1}', b'{"k": 1, "t": 1}'],
}


@given(st.data(), st.sampled_from(list(COLUMNS)), st.integers(1, 100), st.booleans())
def test_any_json_in_blocks_of_any_size(tmp_path_factory, data, kinds, block, timed):
    first = COLUMNS[kinds][0]
    lines = [first, *data.draw(st.lists(st.sampled_from([*COLUMNS[kinds], *OTHERS])))]
    text = b"\n".join(lines)
    path = tmp_path_factory.mktemp("json") / "stream.jsonl"
    path.write_bytes(text)
    time = "t" if timed else None
    if kinds == (int,):
        text = text.replace(b"12345678901234567890123", b"[1]")  # as long as it wants, in Python
    messages, malformed = naive_json(text, "k", kinds, time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        stream = read_stream(path, key="k", time=time)
    assert len(stream.hashes) == len(messages)
    assert stream.malformed.count == len(malformed)
    assert stream.malformed.first_line_number == (malformed[0][0] if malformed else None)
    if timed:
        messages.sort(key=lambda message: message[0])
        assert stream.times.tolist() == [time for time, _ in messages]
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()


def test_json_types(write):
    def read(*lines, **options):
        return read_stream(write("\n".join(lines).encode(), "stream.json"), key="k", **options)

    assert read('{"k": 7}').hashes.tolist() == hash_keys([7]).tolist()
    assert keys_of(read('{"k": 7}')) == ["7"]
    assert read('{"x": 1}', '{"k": "é"}', '{"k": null}').hashes.tolist() == [NULL_HASH, hash_keys(["é"])[0], NULL_HASH]
    assert keys_of(read('{"k": null}')) == ["null"]
    assert keys_of(read('{"k": true}', '{"k": false}')) == ["true", "false"]
    stream = read('{"k": 1, "t": "2020-01-02"}', '{"k": 2, "t": "2020-01-01"}', time="t")
    assert keys_of(stream) == ["2", "1"]
    with pytest.raises(InputError, match=r"stream\.json: column 'k' holds \[1\]: name a column of texts or numbers$"):
        read('{"k": [1]}')
    with pytest.raises(InputError, match=r"line 2: expected a JSON object with int64 in 'k', got '\{\"k\": \"x\"\}'"):
        read('{"k": 1}', '{"k": "x"}', strict=True)


TABLE = pa.table(
    {
        "int": pa.array([7, None, 8, 7], pa.int32()),
        "text": pa.array(["a", None, "b", "a"]),
        "category": pa.array(["a", None, "b", "a"]).dictionary_encode().take([0, 1, 0, 0]),
        "bytes": pa.array([b"\xff", b"", b"a", b"a"]),
        "day": pa.array([datetime.date(2020, 1, day) for day in (4, 3, 2, 1)]),
        "time": pa.array([3, 2, 2, 1], pa.timestamp("ms")),
        "zoned": pa.array([3000, 2000, 2000, None], pa.timestamp("us", "Europe/Berlin")),
        "float": pa.array([1.5, float("nan"), 0.5, 1.0]),
        "list": pa.array([[1], [2], [3], [4]]),
        "none": pa.nulls(4),
    }
)


@pytest.fixture
def table(tmp_path):
    pq.write_table(TABLE, tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("key", ["int", "text", "category", "bytes", "day", "time", "none"])
def test_parquet_keys_hash_as_in_their_column(table, monkeypatch, key, batch):
    monkeypatch.setattr(parquet, "_BATCH", batch)
    stream = read_stream(table, key=key)
    assert stream.hashes.tolist() == hash_keys(TABLE[key]).tolist()
    assert stream.times.tolist() == [0, 1, 2, 3]
    assert len(stream.keys) == len(set(TABLE[key].to_pylist()))
    assert read_stream(table, key=key, limit=2).hashes.tolist() == hash_keys(TABLE[key])[:2].tolist()


def test_parquet_times(table):
    assert keys_of(read_stream(table, key="text", time="time")) == ["a", "null", "b", "a"]
    assert read_stream(table, key="text", time="time").times.tolist() == [0.001, 0.002, 0.002, 0.003]
    assert read_stream(table, key="int", time="day").times.tolist() == [1577836800 + 86400 * day for day in range(4)]
    stream = read_stream(table, key="text", time="zoned")
    assert stream.times.tolist() == [0.002, 0.002, 0.003]
    assert str(stream.malformed) == "1 malformed line, line 4: 'zoned = null'"
    assert read_stream(table, key="text", time="float").malformed == Malformed(1, 2, "float = nan")
    assert read_stream(table, key="int", time="int").malformed == Malformed(1, 2, "int = null")
    assert read_stream(table, key="text", time="int", limit=1).malformed == Malformed()
    with pytest.raises(InputError, match="line 4: expected a time in 'zoned', got 'zoned = null'"):
        read_stream(table, key="text", time="zoned", strict=True)


def test_parquet_packed_and_without_an_ending(write, table):
    packed = write(gzip.compress(table.read_bytes()), "table.pq.gz")
    assert keys_of(read_stream(packed, key="text")) == ["a", "null", "b", "a"]
    assert keys_of(read_stream(write(table.read_bytes(), "table"), key="text")) == ["a", "null", "b", "a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no key column given: pass key=, the columns are 'int', 'text', "),
        ({"key": "x"}, "no column 'x' for key=: the columns are 'int', 'text', "),
        ({"key": "int", "time": "x"}, "no column 'x' for time=: the columns are 'int', 'text', "),
        ({"key": "int", "time": "list"}, "column 'list' holds list<element: int64>: name a column of numbers, times"),
        ({"key": "list"}, "keys must be str, bytes, int, .*, got list<element: int64>: convert the keys to string"),
    ],
)
def test_columns_that_will_not_do(table, options, message):
    with pytest.raises(InputError, match=f"table.parquet: {message}") as raised:
        read_stream(table, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "data"), [("stream.csv", b"a,b\n1,2\n"), ("stream.json", b'{"a": 1, "b": 2}\n'), ("s.csv", b"a,b\n")]
)
def test_missing_columns_of_text_files(write, name, data):
    path = write(data, name)
    with pytest.raises(InputError) as raised:
        read_stream(path, key="user")
    assert str(raised.value) == f"{path}: no column 'user' for key=: the columns are 'a', 'b'"
    with pytest.raises(InputError) as raised:
        read_stream(path)
    assert str(raised.value) == f"{path}: no key column given: pass key=, the columns are 'a', 'b'"
    with pytest.raises(InputError, match="no column 'when' for time=: the columns are 'a', 'b'"):
        read_stream(path, key="a", time="when")


def test_headers_that_will_not_do(write):
    with pytest.raises(InputError, match="2 columns are called 'a': give each a name of its own"):
        read_stream(write(b"a,b,a\n1,2,3\n", "stream.csv"), key="a")
    assert keys_of(read_stream(write(b"a,b,a\n1,2,3\n", "stream.csv"), key="b")) == ["2"]
    names = ",".join(f"c{number}" for number in range(100)).encode()
    with pytest.raises(InputError, match=r"the columns are 'c0', .*, 'c19' and 80 more$"):
        read_stream(write(names, "stream.csv"), key="a")
    with pytest.raises(
        InputError, match=r"stream\.csv: no messages \(only a header\): name another path, or pass format="
    ):
        read_stream(write(b"a,b\n", "stream.csv"), key="a")


def test_keys_of_two_types_in_one_stream(write):
    first = write(b'{"k": 7}\n', "folder/1.json")
    second = write(b'{"k": "7"}\n', "folder/2.json")
    with pytest.raises(InputError) as raised:
        read_stream(first.parent, key="k")
    assert str(raised.value) == (
        f"{second}: keys are text here and int64 in {first}, and would hash apart: write all files with one type"
    )
    write(b'{"k": null}\n', "folder/2.json")
    write(b'{"k": 8}\n', "folder/3.json")
    assert keys_of(read_stream(first.parent, key="k")) == ["7", "null", "8"]


def test_broken_parquet(write, table):
    data = table.read_bytes()
    for broken in (data[:-20], data[:-9] + b"\xff" + data[-8:], data[:4] + b"\x00" * 100 + data[104:]):
        path = write(broken, "broken.parquet")
        with pytest.raises(InputError, match=r"broken\.parquet: broken Parquet file \(.*\): fetch or write") as raised:
            read_stream(path, key="text")
        assert "\n" not in str(raised.value)


def test_parquet_without_rows(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"none\.parquet: no messages \(no rows\): "):
        read_stream(tmp_path / "none.parquet", key="text")


def test_parquet_progress_ends_at_the_size_of_the_file(table, monkeypatch):
    monkeypatch.setattr(parquet, "_BATCH", 2)
    seen = []
    read_stream(table, key="text", progress=seen.append)
    assert seen == [table.stat().st_size // 2, table.stat().st_size]
