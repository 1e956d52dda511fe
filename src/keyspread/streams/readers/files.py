"""`read_stream`: open every file of a path in order of name, find its format and collect its messages."""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.readers import formats
from keyspread.streams.readers.key_texts import KeyTexts
from keyspread.streams.readers.lines import cut_blocks, read_pieces
from keyspread.streams.readers.messages import Collector, Malformed
from keyspread.streams.readers.parquet import parquet_rows
from keyspread.streams.readers.paths import find_files

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Stream:
    """A stream read from files: message i has the key `keys[hashes[i]]` and the time `times[i]`."""

    times: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    hashes: npt.NDArray[np.int64]
    keys: KeyTexts
    malformed: Malformed
    format: str
    """The format given or found; for several files, the format of the first."""


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
    """Return every message of a file, folder or pattern, in order. Malformed lines are counted; `strict` rejects them.

    The files of a folder (including its subfolders) or pattern are one stream, in order of name; names that start
    with . or _ are skipped. A file may be plain or gzip; its first bytes decide, not its name. The formats:

    - `tsv`: lines of `time<TAB>key`. The time is a number. The key is the rest of the line, including quotes; it may
      be empty and must not contain a tab.
    - `wikibench`: lines of `counter time url flag`, separated by single spaces. The key is the url.
    - `words`, `cashtags`: tweets, one per line, as text or JSON (`full_text` or `text`). Each word or cashtag is one
      message; its time is the tweet's `created_at`, or else its line number.
    - `csv`, `json` (JSON lines), `parquet`: the key is in the column `key`. If a column `time` is given, messages are
      sorted by it, and messages with equal times stay in order; otherwise the time of a message is its position.
      Strings hash as their bytes, numbers as numbers, null as 42. In CSV all keys are strings.

    Without `format`, the ending of the file name decides (.tsv .tab .txt .csv .json .jsonl .ndjson .parquet .pq, also
    followed by .gz), or else the first lines (tsv, wikibench, parquet); `words` and `cashtags` must be named. Empty
    lines are ignored. `limit` stops after so many messages, before they are sorted. `progress` is called with the
    number of bytes read so far, out of `total_bytes(path)`. A stream without messages raises an InputError.
    """
    formats.check_format(format)
    if limit is not None:
        limit = checks.whole_number("limit", limit, maximum=2**62)
    names = find_files(path)
    collector = Collector(name_files=names != [os.fspath(path)], strict=strict, limit=limit)
    reader = _Reader(collector, format, key, time, progress)
    for name in names:
        if not collector.full:
            reader.read(name)
    if not collector.messages:
        malformed = collector.malformed.count > 0
        empty = "the file is empty" if len(names) == 1 else f"all {len(names)} files are empty"
        reason = str(collector.malformed) if malformed else reader.nothing or empty
        remedy = formats.remedy(names[0], format, malformed, reader.expected)
        raise InputError(f"{os.fspath(path)}: no messages ({reason}): {remedy}")
    times, hashes = np.concatenate(collector.times), np.concatenate(collector.hashes)
    if time is not None:
        order = np.argsort(times, kind="stable")
        times, hashes = times[order], hashes[order]
    return Stream(times, hashes, collector.keys, collector.malformed, reader.first_format or "")


@dataclass
class _Reader:
    """Reads one file after the other into the collector, and keeps count of bytes and lines."""

    collector: Collector
    format: str | None
    key: str | None
    time: str | None
    progress: Callable[[int], None] | None
    bytes_before: int = 0
    lines_before: int = 0
    lines: int = 0
    """Lines read so far of the current file."""
    nothing: str | None = None
    """Why a file that is not empty has neither a message nor a malformed line."""
    expected: str | None = None
    first_format: str | None = None
    """The format of the first file that is not empty."""

    def read(self, path: str) -> None:
        """Read one file."""
        self.lines = 0
        try:
            with open(path, "rb") as file:
                packed = file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
                content = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
                self._read_open(path, file, content)
                self.bytes_before += file.seek(0, os.SEEK_END) if file.seekable() else 0
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(
                f"{path}: broken gzip after line {self.lines} ({error}): download or compress the file again"
            ) from error
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}): check the file and its permissions"
            ) from error
        self.lines_before += self.lines

    def _read_open(self, path: str, file: BinaryIO, content: BinaryIO) -> None:
        """Read an open file; `content` is the file itself, or unpacks it."""
        pieces = read_pieces(content)
        first, second = next(pieces, b""), next(pieces, b"")
        if not first.strip(b"\r\n") and not second:
            return  # an empty file fits any format
        # Only whole lines show the format, unless this is all there is.
        start = first[: first.rfind(b"\n") + 1] if second else first
        format = self.format or formats.guess(path, start or first)
        self.first_format = self.first_format or format
        formats.refuse_foreign(path, format, first)
        if format not in formats.TABLES:
            for name, value in (("key", self.key), ("time", self.time)):
                if value is not None:
                    tables = ", ".join(formats.TABLES)
                    raise InputError(f"{path}: {name}= is for {tables} only, got {value!r} with {format}: leave it out")
        if format == "parquet":
            self._read_parquet(path, file, content)
            return
        lines = formats.text_format(path, format, self.key, self.time, self.lines_before)
        for block in cut_blocks(chain([first, second], pieces), lines):
            self.collector.take(path, block)
            self.lines = block.last_line
            self.expected = lines.expected
            self._report(file.tell() if file.seekable() else 0)
            if self.collector.full:
                break
        lines.end()
        self.nothing = lines.nothing

    def _read_parquet(self, path: str, file: BinaryIO, content: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        if content is file:
            self._take_rows(path, file, size)
            return
        # The metadata of a Parquet file is at its end, and gzip cannot seek there.
        with tempfile.TemporaryFile() as unpacked:
            content.seek(0)
            shutil.copyfileobj(content, unpacked)
            self._take_rows(path, cast(BinaryIO, unpacked), size)

    def _take_rows(self, path: str, file: BinaryIO, size: int) -> None:
        for rows in parquet_rows(path, file, self.key, self.time):
            self.collector.take(path, rows)
            self.expected = rows.expected
            self._report(int(size * rows.share))
            if self.collector.full:
                break
        self.nothing = "no rows"

    def _report(self, bytes_read: int) -> None:
        if self.progress is not None:
            self.progress(self.bytes_before + bytes_read)
