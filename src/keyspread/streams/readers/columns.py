"""Tables as text: CSV and JSON lines, of which one column is the key and perhaps one the time.

Blocks are parsed in columns, by Arrow; a block that Arrow refuses, line by line, so that each bad line is found and
no good one lost. What may be changed here: how values are read. That both ways give the same is tested.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from keyspread.errors import InputError
from keyspread.streams.readers.lines import Lines, count_lines
from keyspread.streams.readers.malformed import shown
from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import as_array, column_times, moment, plain_number

_LONGEST_RECORD = 1 << 26
"""Bytes after which a quote that is still open counts as a plain character."""

_SHOWN_COLUMNS = 20

_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_FIELD = rb"(?:" + _QUOTED + rb")?[^,\r\n]*+"
_RECORD = re.compile(rb"(?:" + _FIELD + rb",)*+" + _FIELD + rb"(?:\r\n|\r|\n|\Z)")
_FIELDS = re.compile(rb"(?:\A|,)(" + _QUOTED + rb")?([^,\r\n]*+)")
# All up to a quote that is opened and not closed; a quote within a field is a plain character.
_CLOSED = re.compile(rb'(?:[^"]*+(?:(?:\A|(?<=[,\r\n]))' + _QUOTED + rb'|(?!\A)(?<![,\r\n])"))*+[^"]*+')


def check_column(path: str, role: str, name: str | None, columns: Sequence[str]) -> None:
    """Refuse a column that is not given, not there, or there twice."""
    there = ", ".join(map(repr, columns[:_SHOWN_COLUMNS])) or "none"
    if len(columns) > _SHOWN_COLUMNS:
        there += f" and {len(columns) - _SHOWN_COLUMNS} more"
    if name is None:
        raise InputError(f"{path}: no {role} column given: pass {role}=, the columns are {there}")
    if name not in columns:
        raise InputError(f"{path}: no column {name!r} for {role}=: the columns are {there}")
    if columns.count(name) > 1:
        raise InputError(f"{path}: {columns.count(name)} columns are called {name!r}: give each a name of its own")


class Csv(Lines):
    """Comma-separated values under a header; keys are the text as written. A quoted value may have line ends."""

    nothing = "only a header"

    def __init__(self, path: str, key: str | None, time: str | None) -> None:
        """Begin a file."""
        self.expected = "comma-separated values"
        self._path, self._key, self._time = path, key, time
        self._columns = 0
        self._key_place = self._time_place = 0

    def cut(self, view: bytes) -> int:
        """Find the last line end that is not within quotes."""
        end = view.rfind(b"\n") + 1
        if b'"' not in view or len(view) > _LONGEST_RECORD:
            return end
        while end and (closed := _closed(view, end)) < end:
            end = view.rfind(b"\n", 0, closed) + 1
        return end

    def begin(self, block: bytes) -> int:
        """Take the names of the columns off the first line that is not empty."""
        if self._columns:
            return 0
        start = len(block) - len(block.lstrip(b"\r\n"))
        header = _record(block, start)
        if not header:
            return start
        names = [value.decode("utf-8", "replace") for value in _values(header)]
        check_column(self._path, "key", self._key, names)
        self._key_place = names.index(str(self._key))
        self.expected = f"{len(names)} column{'s' if len(names) > 1 else ''}"
        if self._time is not None:
            check_column(self._path, "time", self._time, names)
            self._time_place = names.index(self._time)
            self.expected += f" and a time in {self._time!r}"
        self._columns = len(names)
        return start + len(header)

    def split(self, block: bytes) -> list[bytes]:
        """Give the records with their ends; one may have several lines."""
        return list(_records(block))

    def parse(self, block: bytes, line: int) -> Messages:
        """Every record with as many values as the header, and a time if one is asked for, is a message."""
        if b'"' in block and _closed(block, len(block)) < len(block):
            return self._parse_each(block)
        try:
            table = self._parse_columns(block)
        except pa.ArrowInvalid:
            return self._parse_each(block)
        times = None
        if self._time is not None:
            times, valid = column_times(table[str(self._time_place)].combine_chunks())
            if valid is not None:
                return self._parse_each(block)
        return Messages(times, table[str(self._key_place)])

    def _parse_columns(self, block: bytes) -> Any:
        types = {str(self._time_place): pa.string(), str(self._key_place): pa.dictionary(pa.int32(), pa.binary())}
        if not block.strip(b"\r\n"):
            return pa.schema(types).empty_table()
        return pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(
                column_names=[str(place) for place in range(self._columns)],
                use_threads=False,
                block_size=len(block),
            ),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=True),
            convert_options=pa_csv.ConvertOptions(
                # Bytes as they are: a key that is not UTF-8 is still a key, and hashes as those bytes in Spark.
                check_utf8=False,
                strings_can_be_null=False,
                column_types=types,
                include_columns=list(types),
            ),
        )

    def _parse_each(self, block: bytes) -> Messages:
        keys: list[bytes] = []
        times: list[float] = []
        malformed: list[tuple[int, bytes]] = []
        place = 0
        for record in _records(block):
            if record.strip(b"\r\n"):
                values = _values(record)
                time: float | None = None
                fits = len(values) == self._columns
                if fits and self._time is not None:
                    time = moment(values[self._time_place].decode("utf-8", "replace"))
                    fits = time is not None
                if fits:
                    keys.append(values[self._key_place])
                    if time is not None:
                        times.append(time)
                else:
                    malformed.append((place, record))
            place += count_lines(record)
        return Messages(
            None if self._time is None else as_array(times),
            pa.array(keys, pa.binary()),
            len(malformed),
            malformed[0] if malformed else None,
        )


def _closed(view: bytes, end: int) -> int:
    """Give the place of the quote that is open at `end`; `end` if none is."""
    found = _CLOSED.match(view, 0, end)
    return found.end() if found else 0


def _record(block: bytes, start: int) -> bytes:
    found = _RECORD.match(block, start)
    assert found is not None  # a quote that is not closed is a plain character, so any bytes are records
    return found[0]


def _records(block: bytes) -> Iterator[bytes]:
    if b'"' not in block:
        yield from block.splitlines(keepends=True)
        return
    start = 0
    while start < len(block):
        record = _record(block, start)
        yield record
        start += len(record)


def _values(record: bytes) -> list[bytes]:
    """Give the values; quotes around one are left out, doubled ones within it single."""
    if b'"' not in record:
        return record.rstrip(b"\r\n").split(b",")
    return [quoted[1:-1].replace(b'""', b'"') + rest for quoted, rest in _FIELDS.findall(record.rstrip(b"\r\n"))]


class JsonLines(Lines):
    """A JSON object a line. The type of the key is that of its first value; a value that does not fit is malformed.

    A key that is null or left out is null.
    """

    nothing = "no object in it"

    def __init__(self, path: str, key: str | None, time: str | None) -> None:
        """Begin a file."""
        self.expected = "a JSON object"
        self._path, self._key, self._time = path, key, time
        self._type: Any = pa.null()
        self._time_types: tuple[Any, ...] = ()
        self._columns: dict[str, None] = {}
        """Names that the objects looked at have, in order."""

    def begin(self, block: bytes) -> int:
        """Look for the columns and their types until they are found."""
        if self._type == pa.null() or (self._time is not None and not self._time_types):
            for line in block.splitlines():
                item = _object(line)
                if item is not None and self._look(item):
                    break
        return 0

    def _look(self, item: dict[str, Any]) -> bool:
        """Note an object; whether all is known."""
        self._columns.update(dict.fromkeys(item))
        if self._key is None:
            check_column(self._path, "key", None, list(self._columns))
        value = item.get(str(self._key))
        if self._type == pa.null() and value is not None:
            self._type = self._type_of(value)
            self.expected = f"a JSON object with {self._type} in {self._key!r}"
            if self._time is not None:
                self.expected += f" and a time in {self._time!r}"
        if self._time is not None and not self._time_types and (value := item.get(self._time)) is not None:
            self._time_types = (pa.string(),) if isinstance(value, str) else (pa.int64(), pa.float64())
        return self._type != pa.null() and (self._time is None or bool(self._time_types))

    def _type_of(self, value: Any) -> Any:
        for kind, arrow in ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64()), (str, pa.string())):
            if isinstance(value, kind):
                return arrow
        raise InputError(
            f"{self._path}: column {self._key!r} holds {shown(json.dumps(value).encode())}: "
            "name a column of texts or numbers"
        )

    def end(self) -> None:
        """Refuse a column that no object has."""
        for role, name in (("key", self._key), ("time", self._time)):
            if self._columns and name is not None:
                check_column(self._path, role, name, list(self._columns))

    def parse(self, block: bytes, line: int) -> Messages:
        """Every line that is an object with a key that fits, and a time if one is asked for, is a message."""
        try:
            block.decode()  # Arrow would not notice
        except UnicodeDecodeError:
            return self._parse_each(block)
        for time_type in self._time_types or (pa.null(),):
            table = self._parse_columns(block, time_type)
            if table is None:
                continue
            if self._time is None:
                return Messages(None, table[str(self._key)].combine_chunks())
            times, valid = column_times(table[self._time].combine_chunks())
            if valid is None:
                return Messages(times, table[str(self._key)].combine_chunks())
        return self._parse_each(block)

    def _parse_columns(self, block: bytes, time_type: Any) -> Any | None:
        """Let Arrow parse a block; None if it cannot, or does not see one object a line."""
        import pyarrow.json as pa_json

        if self._key == self._time or _NO_OBJECT.search(block):
            return None
        fields = [(self._key, self._type)] + ([(self._time, time_type)] if self._time is not None else [])
        lines = len(_OBJECT.findall(block))
        if not lines:
            return pa.schema(fields).empty_table()
        try:
            table = pa_json.read_json(
                pa.BufferReader(block),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == lines else None

    def _parse_each(self, block: bytes) -> Messages:
        keys: list[Any] = []
        times: list[float] = []
        malformed: list[tuple[int, bytes]] = []
        for place, line in enumerate(block.splitlines()):
            if not line or line.isspace():
                continue
            item = _object(line)
            time = None if item is None or self._time is None else _time(item.get(self._time))
            if item is None or not self._fits(item.get(str(self._key))) or (self._time is not None and time is None):
                malformed.append((place, line))
                continue
            key = item.get(str(self._key))
            keys.append(float(key) if self._type == pa.float64() and key is not None else key)
            if time is not None:
                times.append(time)
        return Messages(
            None if self._time is None else as_array(times),
            pa.array(keys, self._type),
            len(malformed),
            malformed[0] if malformed else None,
        )

    def _fits(self, value: Any) -> bool:
        if value is None:
            return True
        if self._type == pa.string():
            return isinstance(value, str) and not _SURROGATE.search(value)
        if self._type == pa.bool_():
            return isinstance(value, bool)
        if self._type == pa.float64() and isinstance(value, float):
            return True  # NaN and Infinity too, which Python writes into JSON, and Arrow reads
        number = plain_number(value)
        return isinstance(number, int) or (self._type == pa.float64() and number is not None)


_NO_OBJECT = re.compile(rb"^[ \t]*+[^{\s]", re.MULTILINE)
_OBJECT = re.compile(rb"^[ \t]*+\{", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time(value: Any) -> float | None:
    return moment(value) if isinstance(value, str) else plain_number(value)
