"""Parquet: keys of every type, times, and files that cannot be used."""

import datetime
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, read_stream
from keyspread.streams.readers import parquet


def keys_of(stream):
    return [stream.keys[key] for key in stream.hashes]


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


def test_broken_parquet(write, table):
    data = table.read_bytes()
    whole = [data[:-20], data[:-9] + b"\xff" + data[-8:]]
    if int(pa.__version__.partition(".")[0]) >= 16:  # older versions read zeros
        whole.append(data[:4] + b"\x00" * 100 + data[104:])
    for broken in whole:
        path = write(broken, "broken.parquet")
        with pytest.raises(
            InputError, match=r"broken\.parquet: broken Parquet file \(.*\): download or write"
        ) as raised:
            read_stream(path, key="text")
        assert "\n" not in str(raised.value)


def test_a_column_name_that_is_not_utf_8(write, tmp_path):
    pq.write_table(pa.table({"é": ["a"]}), tmp_path / "good.parquet", store_schema=False)
    broken = (tmp_path / "good.parquet").read_bytes().replace("é".encode(), b"\xf4\x28")
    with pytest.raises(InputError, match=r"broken\.parquet: broken Parquet file \('utf-8' codec can't decode"):
        read_stream(write(broken, "broken.parquet"), key="text")


def test_parquet_without_rows(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"none\.parquet: no messages \(no rows\): "):
        read_stream(tmp_path / "none.parquet", key="text")


def test_parquet_progress_ends_at_the_size_of_the_file(table, monkeypatch):
    monkeypatch.setattr(parquet, "_BATCH", 2)
    seen = []
    read_stream(table, key="text", progress=seen.append)
    assert seen == [table.stat().st_size // 2, table.stat().st_size]
