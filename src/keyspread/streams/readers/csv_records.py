"""CSV: records under a header, one column of which is the key and perhaps another one the time.

Arrow parses a block by column. If Arrow rejects a block, it is parsed record by record, so that every malformed record
is found and no valid one is lost. A test checks that both ways return the same messages.
"""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from keyspread.streams.readers.columns import check_column
from keyspread.streams.readers.lines import Lines, count_lines
from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import as_array, column_times, moment

_LONGEST_RECORD = 1 << 26
"""Bytes after which a quote that is still open counts as a plain character."""

_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_FIELD = rb"(?:" + _QUOTED + rb")?[^,\r\n]*+"
_RECORD = re.compile(rb"(?:" + _FIELD + rb",)*+" + _FIELD + rb"(?:\r\n|\r|\n|\Z)")
_FIELDS = re.compile(rb"(?:\A|,)(" + _QUOTED + rb")?([^,\r\n]*+)")
# Everything up to a quote that is opened and not closed; a quote inside an unquoted field is a plain character.
_CLOSED = re.compile(rb'(?:[^"]*+(?:(?:\A|(?<=[,\r\n]))' + _QUOTED + rb'|(?!\A)(?<![,\r\n])"))*+[^"]*+')


class Csv(Lines):
    """Comma-separated values under a header. Keys are the text as written; a quoted value may contain line breaks."""

    nothing = "only a header"

    def __init__(self, path: str, key: str | None, time: str | None) -> None:
        """Start a new file."""
        self.expected = "comma-separated values"
        self._path, self._key, self._time = path, key, time
        self._columns = 0
        self._key_place = self._time_place = 0

    def cut(self, view: bytes) -> int:
        """Return the end of the last line that does not end within quotes."""
        end = view.rfind(b"\n") + 1
        if b'"' not in view or len(view) > _LONGEST_RECORD:
            return end
        while end and (closed := _closed(view, end)) < end:
            end = view.rfind(b"\n", 0, closed) + 1
        return end

    def begin(self, block: bytes) -> int:
        """Read the column names from the first line that is not empty; return the end of that line."""
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
        """Return the records with their line ends; a record may have several lines."""
        return list(_records(block))

    def parse(self, block: bytes, line: int) -> Messages:
        """Return a message for every record with as many values as the header, and with a time if `time` is given."""
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
                # Keys stay bytes: a key that is not valid UTF-8 is still a key, and Spark hashes the same bytes.
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
    """Return the position of the quote that is still open at `end`, or `end` if none is."""
    found = _CLOSED.match(view, 0, end)
    return found.end() if found else 0


def _record(block: bytes, start: int) -> bytes:
    found = _RECORD.match(block, start)
    assert found is not None  # an unclosed quote is a plain character, so any bytes form a record
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
    """Return the values without the quotes around them; doubled quotes inside become single."""
    if b'"' not in record:
        return record.rstrip(b"\r\n").split(b",")
    return [quoted[1:-1].replace(b'""', b'"') + rest for quoted, rest in _FIELDS.findall(record.rstrip(b"\r\n"))]
