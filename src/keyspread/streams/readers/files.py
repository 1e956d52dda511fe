"""A path becomes a stream: each file is opened, its format told, its messages gathered, all in order of name.

What may be changed here: how files are opened and cut into blocks. The formats are in `formats`; nothing is dropped
silently.
"""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.readers import formats
from keyspread.streams.readers.key_texts import KeyTexts
from keyspread.streams.readers.lines import Lines, count_lines
from keyspread.streams.readers.malformed import Malformed
from keyspread.streams.readers.messages import Gathering, Messages
from keyspread.streams.readers.parquet import parquet_rows
from keyspread.streams.readers.paths import find_files, total_bytes

__all__ = ["KeyTexts", "Malformed", "Stream", "read_stream", "total_bytes"]

_BLOCK = 1 << 22
"""Bytes of text parsed at once: memory is a few blocks, 16 bytes a message, and the distinct keys."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Stream:
    """A stream read from files: message i is key `keys[hashes[i]]` at `times[i]`."""

    times: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    hashes: npt.NDArray[np.int64]
    keys: KeyTexts
    malformed: Malformed
    format: str
    """As it was given or told; of several files that of the first."""


def read_stream(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    key: str | None = None,
    time: str | None = None,
    strict: bool = False,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Stream:
    """Every message of a file, folder or pattern, in order; lines that are none are counted, or refused if `strict`.

    Files of a folder (with its folders; names that begin with . or _ are passed over) or pattern are one stream, in
    order of name. Each is plain or gzip, told apart by its first bytes. The formats:

    - `tsv`: `time<TAB>key` lines. The time is a number; the key is what follows the tab, quotes included, without
      a further tab; it may be empty
    - `wikibench`: `counter time url flag` lines, separated by single blanks; the key is the url
    - `words`, `cashtags`: tweets, one a line, as text or JSON (`full_text` or `text`); each gives a message for
      each of its words or cashtags, at its `created_at`, or else at the number of its line
    - `csv`, `json` (lines), `parquet`: the column `key` has the key. With a column `time` messages are sorted by
      it, and stay in order where it is equal; else the time is the message's number. Texts hash as their bytes,
      numbers as numbers, null as 42; in CSV all keys are texts

    Without `format` it is told by the ending (.tsv .tab .txt .csv .json .jsonl .ndjson .parquet .pq, also with .gz)
    or else the first lines (tsv, wikibench, parquet); tweets must be named. Empty lines are ignored. `limit` stops
    after so many messages, before they are sorted. `progress` is called with the bytes read so far, of
    `total_bytes(path)`. A stream without a single message is an InputError.
    """
    formats.check_format(format)
    if limit is not None:
        limit = checks.whole_number("limit", limit, maximum=2**62)
    names = find_files(path)
    gathering = Gathering(name_files=names != [os.fspath(path)], strict=strict, limit=limit)
    reading = _Reading(gathering, format, key, time, progress)
    for name in names:
        if not gathering.full:
            reading.read(name)
    if not gathering.messages:
        malformed = gathering.malformed.count > 0
        empty = "the file is empty" if len(names) == 1 else f"all {len(names)} files are empty"
        found = str(gathering.malformed) if malformed else reading.nothing or empty
        remedy = formats.remedy(names[0], format, malformed, reading.expected)
        raise InputError(f"{os.fspath(path)}: no messages ({found}): {remedy}")
    times, hashes = np.concatenate(gathering.times), np.concatenate(gathering.hashes)
    if time is not None:
        order = np.argsort(times, kind="stable")
        times, hashes = times[order], hashes[order]
    return Stream(times, hashes, gathering.keys, gathering.malformed, reading.used or "")


@dataclass
class _Reading:
    """What to read, and where in the files that is."""

    gathering: Gathering
    format: str | None
    key: str | None
    time: str | None
    progress: Callable[[int], None] | None
    bytes_before: int = 0
    lines_before: int = 0
    lines: int = 0
    """Lines of the present file that have been read."""
    nothing: str | None = None
    """Why a file that is not empty had no message and no malformed line."""
    expected: str | None = None
    used: str | None = None
    """The format of the first file that was not empty."""

    def read(self, path: str) -> None:
        """Read one file."""
        self.lines = 0
        try:
            with open(path, "rb") as file:
                packed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
                text = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
                self._read_open(path, file, text)
                self.bytes_before += file.seek(0, os.SEEK_END) if file.seekable() else 0
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(
                f"{path}: broken gzip after line {self.lines} ({error}): fetch or compress the file again"
            ) from error
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}): check the file and its rights"
            ) from error
        self.lines_before += self.lines

    def _read_open(self, path: str, file: BinaryIO, text: BinaryIO) -> None:
        pieces = _pieces(text)
        first, second = next(pieces, b""), next(pieces, b"")
        if not first.strip(b"\r\n") and not second:
            return  # empty, so of any format
        # Only whole lines tell something, unless this is all there is.
        start = first[: first.rfind(b"\n") + 1] if second else first
        format = self.format or formats.guess(path, start or first)
        self.used = self.used or format
        formats.refuse_foreign(path, format, first)
        if format not in formats.TABLES:
            for name, value in (("key", self.key), ("time", self.time)):
                if value is not None:
                    there = ", ".join(formats.TABLES)
                    raise InputError(f"{path}: {name}= is for {there} only, got {value!r} with {format}: leave it out")
        if format == "parquet":
            self._read_parquet(path, file, text)
            return
        lines = formats.text_format(path, format, self.key, self.time, self.lines_before)
        for block in _blocks(chain([first, second], pieces), lines):
            self.gathering.take(path, block)
            self.lines = block.last_line
            self.expected = lines.expected
            self._report(file.tell() if file.seekable() else 0)
            if self.gathering.full:
                break
        lines.end()
        self.nothing = lines.nothing

    def _read_parquet(self, path: str, file: BinaryIO, text: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        if text is file:
            self._take_rows(path, file, size)
            return
        # Its table of contents is at the end, and gzip cannot jump there.
        with tempfile.TemporaryFile() as unpacked:
            text.seek(0)
            shutil.copyfileobj(text, unpacked)
            self._take_rows(path, cast(BinaryIO, unpacked), size)

    def _take_rows(self, path: str, file: BinaryIO, size: int) -> None:
        for rows in parquet_rows(path, file, self.key, self.time):
            self.gathering.take(path, rows)
            self.expected = rows.expected
            self._report(int(size * rows.share))
            if self.gathering.full:
                break
        self.nothing = "no rows"

    def _report(self, bytes_read: int) -> None:
        if self.progress is not None:
            self.progress(self.bytes_before + bytes_read)


@dataclass(frozen=True)
class _Block:
    """Whole lines of a text format."""

    format: Lines
    text: bytes
    first_line: int
    last_line: int

    @property
    def expected(self) -> str:
        return self.format.expected

    def count(self) -> int:
        return len(self.format.split(self.text))

    def parse(self, lines: int | None = None) -> Messages:
        text = self.text if lines is None else b"".join(self.format.split(self.text)[:lines])
        return self.format.parse(text, self.first_line)


def _pieces(text: BinaryIO) -> Iterator[bytes]:
    """Read a file without its byte order mark, never an empty piece but at the very beginning."""
    piece = text.read(_BLOCK).removeprefix(_BYTE_ORDER_MARK)
    yield piece
    while piece := text.read(_BLOCK):
        yield piece


def _blocks(pieces: Iterator[bytes], format: Lines) -> Iterator[_Block]:
    """Cut a file into blocks of whole records."""
    parts: list[bytes] = []
    line = 0
    for piece in pieces:
        parts.append(piece)
        if b"\n" in piece:
            view = b"".join(parts)
            end = format.cut(view)
            parts = [view[end:]]
            if end:
                yield (block := _block(format, view[:end], line))
                line = block.last_line
    if rest := b"".join(parts):
        yield _block(format, rest, line)


def _block(format: Lines, text: bytes, lines_before: int) -> _Block:
    """Take the header off; the rest is lines."""
    header = format.begin(text)
    lines = lines_before + count_lines(text[:header])
    text = text[header:]
    unended = bool(text) and not text.endswith((b"\n", b"\r"))  # the last line of a file may be
    return _Block(format, text, lines + 1, lines + count_lines(text) + unended)
