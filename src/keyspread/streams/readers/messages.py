"""What every format makes of its lines, and how these become one stream: exact counts, exact limit, one type of key.

A `Part` is a run of lines (or rows) that can be parsed as often as needed; `Gathering` takes parts in order.
"""

import bisect
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams.readers.key_texts import KeyTexts
from keyspread.streams.readers.malformed import Malformed, shown
from keyspread.streams.readers.times import Times


@dataclass(frozen=True)
class Messages:
    """The messages of some lines, in order, and the lines that gave none though they should have."""

    times: Times | None
    """None where the messages have no time: then it is their number in the stream, from 0."""
    keys: Any
    """Arrow array. If it is a dictionary, then without nulls, and with no entry that no message has."""
    malformed: int = 0
    first_malformed: tuple[int, bytes] | None = None
    """The first malformed line: its place among these lines, from 0, and what it says."""

    def head(self, count: int) -> "Messages":
        """Give only the first messages; the malformed lines stay."""
        keys = self.keys[:count]
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        return Messages(None if self.times is None else self.times[:count], keys, self.malformed, self.first_malformed)


class Part(Protocol):
    """A run of lines of one file."""

    @property
    def expected(self) -> str:
        """What each line must be, for people."""

    @property
    def first_line(self) -> int:
        """Number of the first line in its file, from 1."""

    def count(self) -> int:
        """Count the lines, the empty ones included."""

    def parse(self, lines: int | None = None) -> Messages:
        """Give the messages of the first `lines` lines, of all if None; twice the same for the same lines."""


@dataclass
class Gathering:
    """What has been read so far, of one file or several."""

    name_files: bool
    """Whether the path does not say which file a line is in."""
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
        """Add the messages of a part, and its malformed lines; with a limit, none that stand behind it."""
        found = part.parse()
        left = None if self.limit is None else self.limit - self.messages
        if left is not None and len(found.keys) >= left:
            if found.malformed:
                # The fewest lines that give enough: the lines behind them are not read, so not malformed either.
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
        """Refuse 7 in one file and '7' in the next: they would be two keys."""
        kind = _kind(keys.type)
        if self._kind is None and kind != "null":
            try:
                hash_keys(pa.array([], keys.type))
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            self._kind, self._kind_of = kind, path
        elif kind not in ("null", self._kind):
            raise InputError(
                f"{path}: keys are {kind} here and {self._kind} in {self._kind_of}, and would hash apart: "
                "write all files with one type"
            )

    def _note_malformed(self, path: str, part: Part, count: int, place: int, line: bytes) -> None:
        if not self.malformed.count:
            first_file = path if self.name_files else None
            self.malformed = Malformed(0, part.first_line + place, shown(line), first_file)
        known = self.malformed
        self.malformed = Malformed(known.count + count, known.first_line_number, known.first_text, known.first_file)
        if self.strict:
            raise InputError(
                f"{path}, line {known.first_line_number}: expected {part.expected}, got {known.first_text!r}: "
                "mend the line, or read without strict to skip and count such lines"
            )


def _kind(type_of_keys: Any) -> str:
    """Name types apart that hash apart."""
    types = pa.types
    if types.is_dictionary(type_of_keys):
        type_of_keys = type_of_keys.value_type
    name = str(type_of_keys)
    return "text" if "string" in name or "binary" in name else name
