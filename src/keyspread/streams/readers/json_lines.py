"""JSON lines: one object per line, one field of which is the key and perhaps another one the time.

Arrow parses a block by column. If Arrow rejects a block, it is parsed line by line, so that every malformed line is
found and no valid one is lost. Tests compare both ways with a plain reader.
"""

import json
import re
from typing import Any

import pyarrow as pa

from keyspread.errors import InputError
from keyspread.streams.readers.columns import check_column
from keyspread.streams.readers.lines import Lines
from keyspread.streams.readers.messages import Messages, shown
from keyspread.streams.readers.times import as_array, column_times, moment, plain_number

_NO_OBJECT = re.compile(rb"^[ \t]*+[^{\s]", re.MULTILINE)
_OBJECT = re.compile(rb"^[ \t]*+\{", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines(Lines):
    """One JSON object per line. The first key decides the type of all keys; a key of another type is malformed.

    A key that is null or missing is null.
    """

    nothing = "no JSON object in it"

    def __init__(self, path: str, key: str | None, time: str | None) -> None:
        """Start a new file."""
        self.expected = "a JSON object"
        self._path, self._key, self._time = path, key, time
        self._type: Any = pa.null()
        self._time_types: tuple[Any, ...] = ()
        self._columns: dict[str, None] = {}
        """Names of all fields seen so far, in order."""

    def begin(self, block: bytes) -> int:
        """Look for the key and time columns until their types are known."""
        if self._type == pa.null() or (self._time is not None and not self._time_types):
            for line in block.splitlines():
                item = _object(line)
                if item is not None and self._note_types(item):
                    break
        return 0

    def _note_types(self, item: dict[str, Any]) -> bool:
        """Note the columns and types of an object; return whether both types are known."""
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
            "name a column of strings or numbers"
        )

    def end(self) -> None:
        """Raise an InputError for a column that no object has."""
        for role, name in (("key", self._key), ("time", self._time)):
            if self._columns and name is not None:
                check_column(self._path, role, name, list(self._columns))

    def parse(self, block: bytes, line: int) -> Messages:
        """Return a message for every object whose key has the right type, and which has a time if `time` is given."""
        try:
            block.decode()  # Arrow does not check this
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
        """Let Arrow parse a block; return None if it fails or does not find one object per line."""
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
            return True  # including NaN and Infinity, which Python writes to JSON and Arrow reads
        number = plain_number(value)
        return isinstance(number, int) or (self._type == pa.float64() and number is not None)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time(value: Any) -> float | None:
    return moment(value) if isinstance(value, str) else plain_number(value)
