"""Parse times. A number is taken as it is; a date or timestamp becomes seconds since 1970."""

import csv
import datetime
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from keyspread.errors import InputError

NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_NUMBER = re.compile(NUMBER, re.ASCII)
_MICROSECONDS = 1e6

Times: TypeAlias = npt.NDArray[Any]
"""int64 if all times are whole numbers, else float64."""


def column_times(column: Any) -> tuple[Times, Any]:
    """Return the times in an Arrow array, and a mask of the rows that have one (None if all do).

    The array holds numbers, strings, timestamps or dates; any other type raises a TypeError.
    """
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return _text_times(column)
    if types.is_timestamp(kind) or types.is_date(kind):
        # Not safe: a safe cast refuses nanoseconds, which a float64 of seconds cannot hold anyway.
        microseconds = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        seconds, valid = _finite(microseconds.cast(pa.int64()))
        return seconds / _MICROSECONDS, valid
    if types.is_integer(kind):
        return _finite(column.cast(pa.int64()))
    if types.is_floating(kind):
        return _finite(column.cast(pa.float64()))
    raise TypeError(str(kind))


def _finite(column: Any) -> tuple[Times, Any]:
    """Drop nulls and everything that is not a finite number."""
    valid = None
    finite = pc.fill_null(pc.is_finite(column), False)
    if not pc.all(finite, min_count=0).as_py():
        valid, column = finite, column.filter(finite)
    return column.to_numpy(zero_copy_only=False), valid


def _text_times(texts: Any) -> tuple[Times, Any]:
    try:
        numbers = texts.cast(pa.float64())
        try:
            return _finite(texts.cast(pa.int64()))  # alone it would accept 0x1f
        except pa.ArrowInvalid:
            return _finite(numbers)
    except pa.ArrowInvalid:
        pass
    for zone in (None, "UTC"):
        try:
            return column_times(texts.cast(pa.timestamp("us", zone)))
        except pa.ArrowInvalid:
            continue
    # The texts mix several notations, or some are no times.
    moments = [moment((text or b"").decode("utf-8", "replace")) for text in texts.cast(pa.large_binary()).to_pylist()]
    return np.array([time for time in moments if time is not None]), pa.array([time is not None for time in moments])


def moment(value: Any) -> float | None:
    """Return one time from a finite number or a text (a number or ISO 8601, UTC if there is no zone), else None.

    >>> moment("1219842525"), moment("2008-08-27T13:08:45Z"), moment("2008-08-27"), moment("soon")
    (1219842525, 1219842525.0, 1219795200.0, None)
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value) if value.lstrip("+-").isdigit() else float(value)
        if isinstance(value, str):
            time = datetime.datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else float(value)
    except (ValueError, OverflowError):
        return None


# The formats of files: how a block of lines, or the rows of a Parquet file, become keys and times.
#
# Arrow parses a block by column. If Arrow rejects it, or a time in it is none, the block is parsed line by line, so
# that every malformed line is found and no valid one is lost. Tests compare both ways with a plain reader.


FORMATS = ("tsv", "wikibench", "words", "cashtags", "csv", "json", "parquet")
TABLES = ("csv", "json", "parquet")
"""Formats whose columns have names: the caller must name the key column."""

FORMAT_BY_ENDING = {
    **{"tsv": "tsv", "tab": "tsv", "txt": "tsv", "csv": "csv"},
    **{"json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet", "pq": "parquet"},
}
_COMPRESSED_ENDINGS = ("gz", "zst", "bz2", "lz4")
REMEDY = f"pass format=, one of {', '.join(FORMATS)}"

_SHOWN = 80
"""Characters of a line that a message to people shows."""
_ROWS = 1 << 18
"""Rows of a Parquet file in memory at once."""
_OBJECT = re.compile(rb"^[ \t]*+\{", re.MULTILINE)
_NO_OBJECT = re.compile(rb"^[ \t]*+[^{\s]", re.MULTILINE)
# A URL must start where no word is under way: in 'xhttp://' the first word is 'xhttp'.
_URL_OR_WORD = re.compile(r"(?i:https?://|www\.)\S+|([^\W_]+(?:['’][^\W_]+)*)")
# 'see $BRK.B, $AAPL.Nice' has BRK.B and AAPL: 'Nice' is too long to be a share class.
_CASHTAG = re.compile(r"\$([A-Za-z]{1,6}(?:[._][A-Za-z])?)(?![^\W_])")


def by_ending(path: str) -> str:
    """Return the format by the ending of the file name, before that of a compression: 'a.csv.gz' → 'csv'."""
    *_, before, last = ["", "", *os.path.basename(path).lower().split(".")]
    format = FORMAT_BY_ENDING.get(before if last in _COMPRESSED_ENDINGS else last)
    if format is None:
        raise InputError(f"{path}: the ending does not tell the format: {REMEDY}")
    return format


def shown(line: bytes) -> str:
    """Return a line as text for people, shortened if it is long."""
    text = line[: 4 * _SHOWN].decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _place(path: str, role: str, name: str | None, columns: Sequence[str]) -> int:
    """Return the place of the column for a role (key or time); refuse one that is missing or ambiguous."""
    if name is None:
        raise InputError(f"{path}: no {role} column given: pass {role}=, the columns are {_listed(columns)}")
    if name not in columns:
        raise InputError(f"{path}: no column {name!r} for {role}=: the columns are {_listed(columns)}")
    if columns.count(name) > 1:
        raise InputError(f"{path}: {columns.count(name)} columns are called {name!r}: rename all but one of them")
    return columns.index(name)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns)) or "none"


@dataclass
class Batch:
    """The messages of some lines, in order, and the malformed lines among them, as (place from 0, text)."""

    keys: Any
    """Arrow array, possibly a dictionary array."""
    times: Times | None = None
    """None if the messages have no time; then their position in the stream, from 0, is their time."""
    malformed: list[tuple[int, bytes]] = field(default_factory=list)


def _collect(messages: Iterable[tuple[int, bytes, Any]], key_type: Any, timed: bool) -> Batch:
    """Collect messages that were parsed one by one: (place, text, (key, time)), or None for a malformed line."""
    batch, keys, times = Batch(None), [], []
    for place, text, message in messages:
        if message is None or (timed and message[1] is None):
            batch.malformed.append((place, text))
        else:
            keys.append(message[0])
            times.append(message[1])
    batch.keys, batch.times = pa.array(keys, key_type), np.array(times) if timed else None
    return batch


class Columns:
    """Values between separators: `tsv` and `wikibench` have fixed columns, `csv` has a header and quotes.

    Keys are the bytes as written, which need not be UTF-8: Spark hashes the same bytes.
    """

    def __init__(self, path: str, separator: str, key: str | None, time: str | None, names: str = "") -> None:
        """Start a new file. Without `names`, joined by the separator, its first record has them."""
        self._path, self._separator, self._key, self._time = path, separator, key, time
        self.quoted, self.expected = not names, names.replace("\t", "<TAB>") or "comma-separated values"
        self._columns = 0
        if names:
            self._find_columns(names.split(separator))

    def _find_columns(self, names: list[str]) -> None:
        self._columns = len(names)
        self._key_place = _place(self._path, "key", self._key, names)
        self._time_place = self._key_place if self._time is None else _place(self._path, "time", self._time, names)

    def parse(self, block: bytes) -> Batch:
        """Return a message for every record with as many values as columns, and with a time if `time` is given."""
        if not self._columns:
            block = self._without_header(block)
        if not block.strip(b"\r\n"):
            return Batch(pa.array([], pa.binary()))
        try:
            table = self._table(block)
            times = valid = None
            if self._time is not None:
                times, valid = column_times(table[str(self._time_place)].combine_chunks().cast(pa.string()))
            if valid is None:
                return Batch(table[str(self._key_place)], times)
        except pa.ArrowInvalid:
            pass
        return _collect(self._messages(block), pa.binary(), self._time is not None)

    def _without_header(self, block: bytes) -> bytes:
        """Read the names from the first record that is not empty; leave empty lines in its place."""
        text = io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")
        reader = csv.reader(text)
        if names := next(filter(None, reader), None):
            self._find_columns(names)
            self.expected = f"{len(names)} column{'s' if len(names) > 1 else ''}"
            self.expected += "" if self._time is None else f" and a time in {self._time!r}"
        return b"\n" * reader.line_num + text.read().encode("utf-8", "surrogateescape")

    def _table(self, block: bytes) -> Any:
        types = {str(self._time_place): pa.string(), str(self._key_place): pa.dictionary(pa.int32(), pa.binary())}
        places = [str(place) for place in range(self._columns)]  # a header may have a name twice
        return pa_csv.read_csv(
            pa.BufferReader(block),
            pa_csv.ReadOptions(column_names=places, use_threads=False, block_size=len(block)),
            pa_csv.ParseOptions(
                delimiter=self._separator, quote_char='"' if self.quoted else False, newlines_in_values=self.quoted
            ),
            pa_csv.ConvertOptions(
                check_utf8=False, strings_can_be_null=False, column_types=types, include_columns=list(types)
            ),
        )

    def _messages(self, block: bytes) -> Iterator[tuple[int, bytes, Any]]:
        lines = list(io.StringIO(block.decode("utf-8", "surrogateescape"), newline=""))
        reader = csv.reader(
            lines, delimiter=self._separator, quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        )
        start = 0
        for record in reader:
            message = None
            if len(record) == self._columns:
                message = record[self._key_place].encode("utf-8", "surrogateescape"), moment(record[self._time_place])
            if record:
                yield start, "".join(lines[start : reader.line_num]).encode("utf-8", "surrogateescape"), message
            start = reader.line_num


class JsonLines:
    """One JSON object per line. The first key decides the type of all keys; a key of another type is malformed.

    A key that is null or missing is null.
    """

    quoted = False

    def __init__(self, path: str, key: str | None, time: str | None) -> None:
        """Start a new file."""
        self.expected = "a JSON object"
        self._path, self._key, self._time = path, key, time
        self._key_type = self._time_type = pa.null()

    def parse(self, block: bytes) -> Batch:
        """Return a message for every object whose key has the right type, and which has a time if `time` is given."""
        if self._key_type == pa.null():
            self._find_types(block)
        return self._by_column(block) or _collect(self._messages(block), self._key_type, self._time is not None)

    def _find_types(self, block: bytes) -> None:
        """Find the types of the key and of the time in the first object with a key."""
        names: dict[str, None] = {}
        for item in map(_json_object, block.splitlines()):
            names |= dict.fromkeys(item)
            if (key := item.get(str(self._key))) is not None:
                self._key_type, self._time_type = _json_type(key), _json_type(item.get(str(self._time)))
                break
        if names:
            _place(self._path, "key", self._key, list(names))
            self.expected = f"a JSON object with {self._key_type} in {self._key!r}"
        if names and self._time is not None:
            _place(self._path, "time", self._time, list(names))
            self.expected += f" and a time in {self._time!r}"

    def _by_column(self, block: bytes) -> Batch | None:
        """Let Arrow parse a block; return None if it fails or does not find one valid object per line."""
        lines = len(_OBJECT.findall(block))
        if not lines or _NO_OBJECT.search(block) or self._key == self._time:
            return None
        columns = [(self._key, self._key_type), *([] if self._time is None else [(self._time, self._time_type)])]
        try:
            block.decode()  # Arrow does not check this
            table = pa_json.read_json(
                pa.BufferReader(block),
                pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                pa_json.ParseOptions(explicit_schema=pa.schema(columns), unexpected_field_behavior="ignore"),
            )
            times, valid = (None, None) if self._time is None else column_times(table[self._time].combine_chunks())
        except (UnicodeDecodeError, pa.ArrowInvalid, TypeError):  # TypeError: the type of the time is not known
            return None
        return Batch(table[self._key], times) if valid is None and table.num_rows == lines else None

    def _messages(self, block: bytes) -> Iterator[tuple[int, bytes, Any]]:
        for place, line in enumerate(block.splitlines()):
            item = _json_object(line)
            key = item.get(str(self._key))
            if type(key) is int and self._key_type == pa.float64() and abs(key) < 2**1023:
                key = float(key)
            fits = key is None or (_json_type(key) == self._key_type != pa.null())
            if line.strip():
                yield place, line, (key, moment(item.get(str(self._time)))) if item and fits else None


def _json_object(line: bytes) -> dict[str, Any]:
    """Return a line's JSON object, an empty one if it has none."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return item if isinstance(item, dict) else {}


def _json_type(value: Any) -> Any:
    """Return the Arrow type of a value; null for an integer of more than 64 bits and for half of a surrogate pair."""
    try:
        return pa.scalar(value).type
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.null()


class Tweets:
    """Tweets, one per line, as text or as JSON with `full_text` or `text`. Each word (or cashtag) is one message."""

    quoted = False
    expected = "a tweet, or a JSON object with the tweet in text or full_text"

    def __init__(self, keys_of: Callable[[str], list[str]]) -> None:
        """Start a new file."""
        self._keys_of = keys_of

    def parse(self, block: bytes) -> Batch:
        """Return the keys of every tweet; a tweet without any is not malformed."""
        batch, keys = Batch(None), []
        for place, line in enumerate(block.splitlines()):
            text: Any = line.decode("utf-8", "replace")
            if line.startswith(b'{"'):
                tweet = _json_object(line)
                text = tweet.get("full_text") or tweet.get("text")
            if isinstance(text, str):
                keys += self._keys_of(text)
            else:
                batch.malformed.append((place, line))
        batch.keys = pa.array(keys, pa.string())
        return batch


def words(text: str) -> list[str]:
    """Return the runs of letters and digits, including apostrophes inside them, case-folded and without URLs.

    >>> words("RT @Bob: don’t miss #Berlin2024 https://t.co/x 'IT's OK'")
    ['rt', 'bob', "don't", 'miss', 'berlin2024', "it's", 'ok']
    """
    # Fold after the split: a folded İ contains a combining dot, which is not a letter.
    return [word.casefold().replace("’", "'") for word in _URL_OR_WORD.findall(text) if word]


def cashtags(text: str) -> list[str]:
    """Return the symbols after a dollar sign, in capitals: 1 to 6 letters and an optional share class.

    >>> cashtags("$aapl up, $BRK.B and $RDS_A down, I paid $100 for $GOOGLES")
    ['AAPL', 'BRK.B', 'RDS_A']
    """
    return [symbol.upper() for symbol in _CASHTAG.findall(text)]


def text_format(path: str, format: str, key: str | None, time: str | None) -> Columns | JsonLines | Tweets:
    """Return the parser for a file in a text format."""
    if format == "csv":
        return Columns(path, ",", key, time)
    if format == "json":
        return JsonLines(path, key, time)
    if format == "tsv":
        return Columns(path, "\t", "key", "time", "time\tkey")
    if format == "wikibench":
        return Columns(path, " ", "url", "time", "counter time url flag")
    return Tweets(words if format == "words" else cashtags)


def parquet_batches(path: str, file: BinaryIO, key: str | None, time: str | None) -> Iterator[tuple[Batch, int]]:
    """Yield the batches of rows, and the number of their first row from 1. A row without a time is malformed."""
    table = pq.ParquetFile(file)
    names = table.schema_arrow.names
    chosen = [names[_place(path, role, name, names)] for role, name in (("key", key), ("time", time or key))]
    first = 1
    for columns in table.iter_batches(_ROWS, columns=list(set(chosen))):
        batch = Batch(columns.column(chosen[0]))
        if time is not None:
            try:
                batch.times, valid = column_times(columns.column(time))
            except TypeError as error:
                raise InputError(
                    f"{path}: column {time!r} holds {error}: name one of numbers, times or dates"
                ) from None
            if valid is not None:
                batch.keys = batch.keys.filter(valid)
                places = np.flatnonzero(~valid.to_numpy(zero_copy_only=False)).tolist()
                value = columns.column(time)[places[0]].as_py()
                batch.malformed = [(place, f"{time} = {value}".encode()) for place in places]
        yield batch, first
        first += columns.num_rows
