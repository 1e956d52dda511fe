"""Messages that a format parsed from its lines, and the collector that joins them into one stream.

Counts are exact, the limit is exact, all keys have one type, and no line is dropped silently. A `Part` is a run of
lines (or rows) that can be parsed as often as needed; the `Collector` takes parts in order.
"""

import bisect
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams.readers.key_texts import KeyTexts
from keyspread.streams.readers.times import Times

_SHOWN = 80
"""Characters of a line that a message to people shows."""


@dataclass(frozen=True)
class Malformed:
    """Lines that do not fit the format: how many there are, and the first of them (numbered from 1).

    `first_file` is set only if the stream was read from a folder or pattern.
    """

    count: int = 0
    first_line_number: int | None = None
    first_text: str | None = None
    first_file: str | None = None

    def __str__(self) -> str:
        """Return one line for people, to follow the name of the file."""
        if not self.count:
            return "no malformed lines"
        where = f"line {self.first_line_number}" + (f" of {self.first_file}" if self.first_file else "")
        if self.count == 1:
            return f"1 malformed line, {where}: {self.first_text!r}"
        return f"{self.count} malformed lines, the first is {where}: {self.first_text!r}"


def shown(line: bytes) -> str:
    """Return a line as text for people, shortened if it is long."""
    text = line[: 4 * _SHOWN].decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@dataclass(frozen=True)
class Messages:
    """The messages of some lines, in order, and the number of malformed lines among them."""

    times: Times | None
    """None if the messages have no time; then their position in the stream, from 0, is their time."""
    keys: Any
    """Arrow array. A dictionary array has no nulls and no unused entries."""
    malformed: int = 0
    first_malformed: tuple[int, bytes] | None = None
    """The first malformed line: its position among these lines, from 0, and its text."""

    def head(self, count: int) -> "Messages":
        """Return the first messages only; the count of malformed lines stays as it is."""
        keys = self.keys[:count]
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        return Messages(None if self.times is None else self.times[:count], keys, self.malformed, self.first_malformed)


class Part(Protocol):
    """A run of lines of one file."""

    @property
    def expected(self) -> str:
        """Description of a valid line, for error messages."""

    @property
    def first_line(self) -> int:
        """Number of the first line in its file, from 1."""

    def count(self) -> int:
        """Count the lines, including empty ones."""

    def parse(self, lines: int | None = None) -> Messages:
        """Return the messages of the first `lines` lines, of all if None; repeated calls return the same."""


@dataclass
class Collector:
    """Everything read so far, from one file or several."""

    name_files: bool
    """Whether to name the file of a malformed line, because the path means more than one file."""
    strict: bool
    limit: int | None
    messages: int = 0
    times: list[Times] = field(default_factory=list)
    hashes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    keys: KeyTexts = field(default_factory=KeyTexts)
    malformed: Malformed = field(default_factory=Malformed)
    _kind: str | None = None
    _kind_of: str | None = None

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.messages >= self.limit

    def take(self, path: str, part: Part) -> None:
        """Add the messages and the malformed lines of a part, up to the limit if there is one."""
        found = part.parse()
        left = None if self.limit is None else self.limit - self.messages
        if left is not None and len(found.keys) >= left:
            if found.malformed:
                # Find the fewest lines with enough messages: a malformed line after these is not counted.
                lines = bisect.bisect_left(range(part.count()), left, key=lambda few: len(part.parse(few).keys))
                found = part.parse(lines)
            found = found.head(left)
        self._check_kind(path, found.keys)
        self._add(found)
        if found.first_malformed is not None:
            self._note_malformed(path, part, found.malformed, *found.first_malformed)

    def _add(self, found: Messages) -> None:
        count = len(found.keys)
        keys = found.keys
        if not pa.types.is_dictionary(keys.type):
            keys = keys.dictionary_encode(null_encoding="encode")
        for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
            hashes = hash_keys(chunk.dictionary)
            self.keys.add(hashes, chunk.dictionary)
            self.hashes.append(hashes[chunk.indices.to_numpy(zero_copy_only=False)])
        times = found.times
        self.times.append(np.arange(self.messages, self.messages + count) if times is None else times)
        self.messages += count

    def _check_kind(self, path: str, keys: Any) -> None:
        """Raise an InputError if one file has the key 7 and another one '7': these would be two keys."""
        kind = _kind(keys.type)
        if self._kind is None and kind != "null":
            try:
                hash_keys(pa.array([], keys.type))
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            self._kind, self._kind_of = kind, path
        elif kind not in ("null", self._kind):
            raise InputError(
                f"{path}: keys are {kind} here and {self._kind} in {self._kind_of}, so equal keys would hash "
                "differently: write all files with one key type"
            )

    def _note_malformed(self, path: str, part: Part, count: int, place: int, line: bytes) -> None:
        if not self.malformed.count:
            first_file = path if self.name_files else None
            self.malformed = Malformed(0, part.first_line + place, shown(line), first_file)
        before = self.malformed
        self.malformed = replace(before, count=before.count + count)
        if self.strict:
            raise InputError(
                f"{path}, line {before.first_line_number}: expected {part.expected}, got {before.first_text!r}: "
                "fix the line, or read without strict to skip and count such lines"
            )


def _kind(type_of_keys: Any) -> str:
    """Return a name for the type; types whose values hash alike share one name."""
    types = pa.types
    if types.is_dictionary(type_of_keys):
        type_of_keys = type_of_keys.value_type
    name = str(type_of_keys)
    return "text" if "string" in name or "binary" in name else name
