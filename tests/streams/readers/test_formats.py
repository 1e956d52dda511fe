"""Every format compared with a plain reader that goes line by line, in blocks of any size."""

import csv
import datetime
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import NULL_HASH, hash_keys
from keyspread.streams import Malformed, files, formats, read_stream
from keyspread.streams.formats import column_times, moment, words

NUMBER = rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def naive_columns(data, separator, key, columns):
    """Messages (time, key) and malformed lines (number, text) of tsv and wikibench."""
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        parts = line.split(separator)
        if line and len(parts) == columns and re.fullmatch(NUMBER, parts[columns // 3]):
            messages.append((float(parts[columns // 3]), parts[key]))
        elif line:
            malformed.append((number, line))
    return messages, malformed


def naive_csv(data, timed):
    """Messages and malformed records of a CSV file with the columns time, key, rest."""
    lines = data.decode("latin-1").splitlines(keepends=True)
    reader = csv.reader(io.StringIO("".join(lines), newline=""))
    messages, malformed, line = [], [], 0
    for row in reader:
        start, line = line, reader.line_num
        if start == 0 or not row:
            continue
        if len(row) == 3 and (not timed or re.fullmatch(NUMBER, row[0].encode("latin-1"))):
            messages.append((float(row[0]) if timed else None, row[1].encode("latin-1")))
        else:
            malformed.append((start + 1, "".join(lines[start:line]).encode("latin-1")))
    return messages, malformed


def naive_json(data, kinds, timed):
    """Messages and malformed lines of JSON lines with the fields k and t."""
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            item = json.loads(line.decode())
            key, time = item.get("k"), float(item["t"]) if timed else None
            assert item
            assert key is None or type(key) in kinds
            assert type(key) is not int or float in kinds or abs(key) < 2**63
            json.dumps(key, ensure_ascii=False).encode()
            messages.append((time, float(key) if float in kinds and key is not None else key))
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            malformed += [(number, line)] if line.strip() else []
    return messages, malformed


def check(folder, name, data, expected, block, **options):
    """Read a file in blocks of this size, and compare it with messages in the order of the file."""
    messages, malformed = expected
    path = folder.mktemp("stream") / name
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        if not messages:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, **options)
            return
        stream = read_stream(path, **options)
    if messages[0][0] is not None:
        if "time" in options:
            messages = sorted(messages, key=lambda message: message[0])
        assert stream.times.tolist() == [time for time, _ in messages]
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()
    first = f"line {malformed[0][0]}: {formats.shown(malformed[0][1])!r}" if malformed else None
    assert stream.malformed == Malformed(len(malformed), first)


TSV = [b"1\ta", b"2\tb", b"3\t", b"2.5\tc", b'4\t"q"', b"", b"x", b"x\ty", b"nan\tz", b"0x1f\tz", b" 1\tz", b"1\ta\tb"]
TSV += [b"\xff", b"4\t\xff", b"5\td\r", b"-2\te", b"+3\tf", b"1e3\tg", b"99999999999999999999\th", b"  "]


@given(st.lists(st.sampled_from(TSV)), st.integers(1, 40))
def test_tsv(tmp_path_factory, lines, block):
    data = b"\n".join(lines)
    check(tmp_path_factory, "a.tsv", data, naive_columns(data, b"\t", 1, 2), block)


WIKIBENCH = [
    b"1 1190146243.3 http://en.wikipedia.org/ -",
    b"2 3 \xff save",
    b"9 1 v -\r",
    b"",
    b"3 4 u",
    b"6 t u -",
    b"7",
]


@given(st.lists(st.sampled_from(WIKIBENCH)), st.integers(1, 90))
def test_wikibench(tmp_path_factory, lines, block):
    data = b"\n".join(lines)
    check(tmp_path_factory, "trace", data, naive_columns(data, b" ", 2, 4), block, format="wikibench")


CSV = [
    b"1,007,x",
    b"2,a b,",
    b'3,"q, r",y',
    b'4,"two\nlines",z',
    b'5,"M\xc3\xbcller, ""A""",w',
    b"6,,v",
    b'7,5" disk,u',
]
CSV += [b"8,\xff,t", b'9,"x"y,s', b"-1,NULL,r", b"2,a b,\r", b'"3","k","e\r\n\r\nf"', b"", b"bad", b"1,2", b"1,2,3,4"]
CSV += [b"\xff,\xff", b"soon,k,q", b"\xff,k,q", b"1.5,k,q", b",k,q", b'x,"\n",,,', b" "]


@given(st.lists(st.sampled_from(CSV)), st.integers(1, 60), st.booleans())
def test_csv(tmp_path_factory, records, block, timed):
    data = b"\n".join([b'time,"key",rest', *records])
    options = {"key": "key", **({"time": "time"} if timed else {})}
    check(tmp_path_factory, "a.csv", data, naive_csv(data, timed), block, **options)


JSON = [b"", b"  ", b"{", b"null", b"[1]", b'{"k": "\xff", "t": 1}', b'{"k": "\\ud800", "t": 1}', b'{"k": 1} {"k": 2}']
JSON += [b'{"k": 12345678901234567890123, "t": 1}', b'{"k": [1], "t": 2}', b'{"t": 3, "x": {"k": 4}}', b'{"k": null}']
JSON += [b'{"k": null, "t": 1.5}', b'{"k": null, "t": null}', b'{"t": 2, "k": null}\r']
KEYS = {
    (str,): [b'{"k": "007", "t": 1}', b'{"t": 2, "k": "2020-01-01", "u": 0}', b'{"k": "\\u00e9", "t": 3}', b'{"k": 1}'],
    (int,): [b'{"k": 9007199254740993, "t": 2}', b'{"k": -1, "t": 1.5}', b'{"k": 1.0, "t": 1}', b'{"k": true, "t": 1}'],
    (float, int): [b'{"k": 0.5, "t": 2}', b'{"k": 3, "t": 1}', b'{"k": 1e3, "t": 0}', b'{"k": "x", "t": 0}'],
    (bool,): [b'{"k": true, "t": 2}', b'{"k": false, "t": 1}', b'{"k": 1, "t": 1}'],
}


@given(st.data(), st.sampled_from(list(KEYS)), st.integers(1, 100), st.booleans())
def test_json(tmp_path_factory, data, kinds, block, timed):
    lines = data.draw(st.lists(st.sampled_from([*KEYS[kinds], *JSON])))
    text = b"\n".join([KEYS[kinds][0], *lines])
    options = {"key": "k", **({"time": "t"} if timed else {})}
    check(tmp_path_factory, "a.jsonl", text, naive_json(text, kinds, timed), block, **options)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("RT @Bob: don’t miss http://x.y/Z #A_b 9İ", ["rt", "bob", "don't", "miss", "a", "b", "9i̇"]),
        ("xhttp://y WWW.a.b ß'", ["xhttp", "y", "ss"]),
    ],
)
def test_words(text, keys):
    assert words(text) == keys


def test_tweets_as_text_or_json(write):
    lines = [
        "the $aapl",
        "",
        '{"text": "a $b"}',
        '{"text": "old", "full_text": "Neu"}',
        '{"text": 5}',
        '{"x"',
        "{:-} c",
    ]
    path = write("\n".join(lines).encode(), "tweets.txt")
    stream = read_stream(path, format="words")
    assert stream.hashes.tolist() == hash_keys(["the", "aapl", "a", "b", "neu", "c"]).tolist()
    stream = read_stream(path, format="cashtags")
    assert stream.hashes.tolist() == hash_keys(["AAPL", "B"]).tolist()
    assert stream.malformed == Malformed(2, "line 5: '{\"text\": 5}'")


def test_times(write):
    data = b"k,t\na,2020-01-02\nb,2020-01-01 00:00:00.5\n"
    stream = read_stream(write(data, "a.csv"), key="k", time="t")
    assert stream.times.tolist() == [1577836800.5, 1577923200]
    stream = read_stream(write(data + b"c,5\nd,2020-01-01T00:00:00.123456789Z\ne,\n", "a.csv"), key="k", time="t")
    assert stream.hashes.tolist() == hash_keys(["c", "d", "b", "a"]).tolist()
    assert stream.malformed == Malformed(1, "line 6: 'e,'")
    stream = read_stream(write(b"k,t\na,1\nb,0\nc,1\nd,0\n", "a.csv"), key="k", time="t")
    assert stream.hashes.tolist() == hash_keys(["b", "d", "a", "c"]).tolist()  # equal times stay in order
    assert stream.times.dtype == "int64"
    assert [moment(text) for text in ("9" * 400, "", "٣", "1970-01-02", True)] == [None, None, None, 86400, None]
    assert column_times(pa.array(["1", None, "inf"]))[0].tolist() == [1]


TABLE = pa.table(
    {
        "int": pa.array([7, None, 8, 7], pa.int32()),
        "long": pa.array([2**62, 0, -1, 2**53 + 1]),
        "text": pa.array(["a", None, "", "a"]),
        "category": pa.array(["a", None, "b", "c"]).dictionary_encode().take([0, 1, 0, 0]),
        "bytes": pa.array([b"\xff", b"", b"a", b"a"]),
        "day": pa.array([datetime.date(2020, 1, day) for day in (4, 3, 2, 1)]),
        "time": pa.array([3_000_000_001, 2_000_000_000, 2_000_000_000, 1_500_000_000], pa.timestamp("ns")),
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


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_parquet(table, monkeypatch, rows):
    monkeypatch.setattr(formats, "_ROWS", rows)
    for key in ("int", "long", "text", "category", "bytes", "day", "none"):
        stream = read_stream(table, key=key)
        assert stream.hashes.tolist() == hash_keys(TABLE[key]).tolist()
        assert stream.times.tolist() == [0, 1, 2, 3]
        texts = stream.key_texts(stream.hashes.tolist())
        assert len(texts) == len(set(TABLE[key].to_pylist()))
        assert (NULL_HASH not in texts) or texts[NULL_HASH] == "null"
    assert read_stream(table, key="int", time="time").times.tolist() == [1.5, 2, 2, 3]
    assert read_stream(table, key="int", time="day").times.tolist() == [1577836800 + 86400 * day for day in range(4)]
    stream = read_stream(table, key="text", time="zoned")
    assert stream.times.tolist() == [0.002, 0.002, 0.003]
    assert str(stream.malformed) == "1 malformed line, line 4: 'zoned = None'"
    assert read_stream(table, key="text", time="float").malformed == Malformed(1, "line 2: 'float = nan'")
    with pytest.raises(InputError, match="line 4: expected a time in 'zoned', got 'zoned = None': fix the line"):
        read_stream(table, key="text", time="zoned", strict=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no key column given: pass key=, the columns are 'int', 'long', "),
        ({"key": "int", "time": "x"}, "no column 'x' for time=: the columns are 'int', 'long', "),
        (
            {"key": "int", "time": "list"},
            "column 'list' holds list<element: int64>: name one of numbers, times or dates",
        ),
        ({"key": "list"}, "keys must be str, bytes, int, .*, got list<element: int64>: convert the keys to string"),
    ],
)
def test_columns_of_parquet_that_will_not_do(table, options, message):
    with pytest.raises(InputError, match=f"table.parquet: {message}") as raised:
        read_stream(table, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"a,b\n1,2\n", "no column 'k' for key=: the columns are 'a', 'b'"),
        ("a.json", b'{"a": 1, "b": 2}\n', "no column 'k' for key=: the columns are 'a', 'b'"),
        ("a.csv", b"k,k\n1,2\n", "2 columns are called 'k': rename all but one of them"),
        ("a.json", b'{"k": [1]}\n', "keys must be .*, got list.*: convert the keys to string"),
        ("a.csv", b'k,v\na,1\n"b,2\nc,3\n', "line 3: a quote is not closed, '\"b,2.*: close it or double it"),
        (
            "a.csv",
            b"k,v\n",
            r"no messages \(there is no row\): each line must be 2 columns, or pass format=, one of tsv",
        ),
        ("a.parquet", b"a,b\n1,2\n", r"cannot be read \(Parquet magic bytes not found in footer.*: check the file"),
    ],
)
def test_files_that_will_not_do(write, name, data, message):
    path = write(data, name)
    with pytest.raises(InputError, match=message) as raised:
        read_stream(path, key="k")
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)
