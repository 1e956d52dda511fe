"""Every line `time<TAB>key` of a file is one message, in order; other lines are counted, the first is named.

What may be changed here: the formats that are read. Nothing is dropped silently.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from keyspread.errors import InputError
from keyspread.hashing import hash_keys

_BLOCK = 1 << 22
"""Bytes of text parsed at once: memory is a few blocks, 16 bytes a message, and the distinct keys."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_MESSAGE = re.compile(_NUMBER[:-1].encode() + rb"\t[^\t]*$")
_SHOWN = 80


@dataclass(frozen=True)
class Malformed:
    """Lines that are not `time<TAB>key`: how many, and the first of them (numbered from 1)."""

    count: int = 0
    first_line_number: int | None = None
    first_text: str | None = None

    def __str__(self) -> str:
        """One line for people, to put behind the file's name."""
        if not self.count:
            return "no malformed lines"
        if self.count == 1:
            return f"1 malformed line, line {self.first_line_number}: {self.first_text!r}"
        return f"{self.count} malformed lines, the first is line {self.first_line_number}: {self.first_text!r}"


class KeyTexts:
    """The text of every key of a stream, by its hash: `texts[hash]`; `len(texts)` is the number of keys."""

    def __init__(self) -> None:
        """Start without keys."""
        self._hashes: npt.NDArray[np.int64] = np.empty(0, np.int64)  # ascending, distinct
        self._texts: Any = pa.array([], pa.large_binary())  # in the order of _hashes
        self._waiting: list[tuple[npt.NDArray[np.int64], Any]] = []
        self._waiting_keys = 0

    def add(self, hashes: npt.NDArray[np.int64], texts: Any) -> None:
        """Remember keys; those known already cost nothing in the end."""
        self._waiting.append((hashes, texts.cast(pa.large_binary())))
        self._waiting_keys += len(hashes)
        # Sorted in when as many wait as are known: O(log) a key, and at most twice the memory needed.
        if self._waiting_keys > max(1 << 18, len(self._hashes)):
            self._settle()

    def _settle(self) -> None:
        if self._waiting:
            hashes = np.concatenate([self._hashes, *(some for some, _ in self._waiting)])
            texts = pa.concat_arrays([self._texts, *(some for _, some in self._waiting)])
            self._hashes, places = np.unique(hashes, return_index=True)
            self._texts = texts.take(pa.array(places))
            self._waiting, self._waiting_keys = [], 0

    def __len__(self) -> int:
        """Count the distinct keys."""
        self._settle()
        return len(self._hashes)

    def __getitem__(self, key_hash: int) -> str:
        """Text of the key with this hash; KeyError if the stream has no such key."""
        self._settle()
        place = int(np.searchsorted(self._hashes, key_hash))
        if place == len(self._hashes) or self._hashes[place] != key_hash:
            raise KeyError(key_hash)
        return cast(bytes, self._texts[place].as_py()).decode("utf-8", "replace")


@dataclass(frozen=True)
class Stream:
    """A stream read from a file: message i is key `keys[hashes[i]]` at `times[i]`."""

    times: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    hashes: npt.NDArray[np.int64]
    keys: KeyTexts
    malformed: Malformed


def read_stream(
    path: str | os.PathLike[str], *, strict: bool = False, progress: Callable[[int], None] | None = None
) -> Stream:
    """Every line `time<TAB>key` is one message, in file order; others are counted, or refused if `strict`.

    The file is plain text or gzip, told apart by its first bytes. `time` is a number; the key is what follows
    the tab, quotes included, without a further tab; it may be empty. Empty lines are ignored. `progress` is
    called with the bytes of the file read so far. A file without a single message is an InputError.
    """
    reading = _Reading(os.fspath(path), strict)
    try:
        with open(path, "rb") as file:
            packed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            text = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
            for block in _blocks(text):
                reading.take(block)
                if progress is not None:
                    progress(file.tell() if file.seekable() else 0)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: broken gzip after line {reading.lines} ({error}): fetch or compress the file again"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file: check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory: name one file of time<TAB>key lines") from error
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}): check the file and its rights"
        ) from error
    return reading.finish()


def _blocks(text: BinaryIO) -> Iterator[bytes]:
    """Cut a file into blocks of whole lines."""
    parts: list[bytes] = []
    first = True
    while piece := text.read(_BLOCK):
        if first:
            piece, first = piece.removeprefix(_BYTE_ORDER_MARK), False
        end = piece.rfind(b"\n") + 1
        if end:
            yield b"".join([*parts, piece[:end]])
            parts = [piece[end:]]
        else:
            parts.append(piece)
    rest = b"".join(parts)
    if rest:
        yield rest


@dataclass
class _Reading:
    """What has been read of a file so far."""

    path: str
    strict: bool
    lines: int = 0
    times: list[npt.NDArray[Any]] = field(default_factory=list)
    hashes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    keys: KeyTexts = field(default_factory=KeyTexts)
    malformed: Malformed = field(default_factory=Malformed)

    def take(self, block: bytes) -> None:
        """Add the messages of a block of whole lines."""
        table, bad = _parse(block)
        times, valid = _numbers(table["time"].combine_chunks())
        column = table["key"]
        if valid is not None:
            bad += len(valid) - pc.sum(valid).as_py()
            # Encoded anew, or the keys of the lines left out would count as keys of the stream.
            column = column.filter(valid).cast(pa.binary()).dictionary_encode()
        for chunk in column.chunks:
            hashes = hash_keys(chunk.dictionary)
            self.keys.add(hashes, chunk.dictionary)
            self.hashes.append(hashes[chunk.indices.to_numpy(zero_copy_only=False)])
        self.times.append(times)
        if bad:
            self._note_malformed(block, bad)
        # '\r\n' ends one line, not two.
        self.lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")

    def _note_malformed(self, block: bytes, count: int) -> None:
        number, text = self.malformed.first_line_number, self.malformed.first_text
        if number is None:
            number, line = next(
                (self.lines + place, line)
                for place, line in enumerate(block.splitlines(), start=1)
                if line and not _MESSAGE.match(line)
            )
            text = line[: 4 * _SHOWN].decode("utf-8", "replace")
            text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        self.malformed = Malformed(self.malformed.count + count, number, text)
        if self.strict:
            raise InputError(
                f"{self.path}, line {number}: expected time<TAB>key, got {text!r}: "
                "mend the line, or read without strict to skip and count such lines"
            )

    def finish(self) -> Stream:
        """Put the blocks together."""
        hashes = np.concatenate([np.empty(0, np.int64), *self.hashes])
        if not len(hashes):
            found = str(self.malformed) if self.malformed.count else "the file is empty"
            raise InputError(f"{self.path}: no messages ({found}): each line must be time<TAB>key")
        return Stream(np.concatenate(self.times), hashes, self.keys, self.malformed)


def _parse(block: bytes) -> tuple[Any, int]:
    """Columns `time` (text) and `key` (dictionary of bytes); how many lines did not have exactly one tab."""
    try:
        return _split_at_tabs(block), 0
    except pa.ArrowInvalid:
        # Not Arrow's own handler of invalid rows: it fails on rows that are not UTF-8.
        lines = [line for line in block.splitlines() if line]
        kept = [line for line in lines if line.count(b"\t") == 1]
        return _split_at_tabs(b"\n".join([*kept, b""])), len(lines) - len(kept)


def _split_at_tabs(block: bytes) -> Any:
    if not block.strip(b"\r\n"):
        return pa.table({"time": pa.array([], pa.string()), "key": pa.array([], pa.binary()).dictionary_encode()})
    return pa_csv.read_csv(
        pa.BufferReader(block),
        read_options=pa_csv.ReadOptions(column_names=["time", "key"], use_threads=False, block_size=len(block)),
        parse_options=pa_csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=True),
        convert_options=pa_csv.ConvertOptions(
            # Bytes as they are: a key that is not UTF-8 is still a key, and hashes as those bytes in Spark.
            check_utf8=False,
            strings_can_be_null=False,
            column_types={"time": pa.string(), "key": pa.dictionary(pa.int32(), pa.binary())},
        ),
    )


def _numbers(texts: Any) -> tuple[npt.NDArray[Any], Any]:
    """Numbers in these texts, int64 if all are whole, else float64; which texts are numbers, None for all."""
    valid = None
    if not pc.all(pc.ascii_is_decimal(texts), min_count=0).as_py():
        valid = pc.match_substring_regex(texts.cast(pa.binary()), _NUMBER)
        texts = texts.filter(valid)
        if pc.all(valid, min_count=0).as_py():
            valid = None
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind).to_numpy(zero_copy_only=False), valid
        except pa.ArrowInvalid:
            continue
    # Arrow reads no leading plus sign; Python reads all that _NUMBER lets through.
    return np.array([float(text) for text in texts.to_pylist()], np.float64), valid
