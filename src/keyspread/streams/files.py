"""Which files or streams a path means: a file, all files of a folder, or all matches of a pattern, sorted by name."""

import csv
import glob
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keyspread import checks
from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams.encoded import Encoded
from keyspread.streams.formats import FORMATS, REMEDY, TABLES, Batch, by_ending, parquet_batches, shown, text_format

_HIDDEN = (".", "_")
"""Names that start like this are not data, for Spark as well: .crc, _SUCCESS, _temporary."""


def find_files(path: str | os.PathLike[str]) -> list[str]:
    """List the files that a path means, at least one.

    Files and folders whose names start with . or _ are skipped. A pattern (`*`, `?`, `[a-c]`, `**` for folders of any
    depth) finds them only if it names the . or _ itself, such as `_*`.
    """
    name = os.fspath(path)
    if os.path.exists(name):
        found = _in_folder(name) if os.path.isdir(name) else [name]
        if not found:
            raise InputError(f"{name}: no file in this folder: check the path")
        return found
    if not glob.has_magic(name):
        raise InputError(f"{name}: no such file or folder: check the path")
    matches: set[str] = set()
    for match in glob.iglob(name, recursive=True):
        if not _is_hidden(match, name):
            matches.update(_in_folder(match) if os.path.isdir(match) else [match])
    if not matches:
        raise InputError(f"{name}: no file matches this pattern: check the path")
    return sorted(matches)


def _is_hidden(match: str, pattern: str) -> bool:
    """Return whether a file or folder on the way to the match is hidden and the pattern does not name it."""
    wanted, found = pattern.split(os.sep), match.split(os.sep)
    fixed = next(place for place, part in enumerate(wanted) if glob.has_magic(part))
    return not any(part.startswith(_HIDDEN) for part in wanted[fixed:]) and any(
        part.startswith(_HIDDEN) for part in found[fixed:]
    )


def _in_folder(root: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        found += [os.path.join(folder, name) for name in names if not name.startswith(_HIDDEN)]
    return sorted(found)


def total_bytes(path: str | os.PathLike[str]) -> int:
    """Return the total size of the files that `read_stream` reads; its `progress` ends at this number."""
    try:
        return sum(os.path.getsize(name) for name in find_files(path))
    except OSError as error:
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}): check the file and its permissions"
        ) from error


def find_streams(path: str | os.PathLike[str]) -> list[str]:
    """List the streams that a path means: each entry of a folder is one stream, any other path is one itself."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        return [name]
    entries = sorted(entry for entry in os.listdir(name) if not entry.startswith(_HIDDEN))
    if not entries:
        raise InputError(f"{name}: nothing in this folder: name a folder that holds one or more streams")
    return [os.path.join(name, entry) for entry in entries]


# `read_stream`: read every file of a path in order of name, block by block, and collect the messages.


GZIP_MAGIC = b"\x1f\x8b"
_COMPRESSIONS = {GZIP_MAGIC: "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
"""Compressions of text files by the first bytes of the file, as Arrow calls them."""
_BLOCK = 1 << 22
"""Bytes of text that are parsed at once. Memory use is a few blocks and 16 bytes per message."""
_LONGEST_LINE = 1 << 26

# Everything up to a quote that is opened and not closed; a quote inside an unquoted value is a plain character.
_CLOSED = re.compile(rb'(?:[^"]*+(?:(?:\A|(?<=[,\r\n]))"[^"]*+(?:""[^"]*+)*+"|(?!\A)(?<![,\r\n])"))*+[^"]*+')


@dataclass(frozen=True)
class Malformed:
    """Lines that do not fit the format: how many there are, and where the first one is and what it says."""

    count: int = 0
    first: str | None = None

    def __str__(self) -> str:
        """Return one line for people, to follow the name of the path."""
        if self.count < 2:
            return f"1 malformed line, {self.first}" if self.count else "no malformed lines"
        return f"{self.count:,} malformed lines, the first is {self.first}"


@dataclass(frozen=True)
class FileStream:
    """The recipe of a stream in files: the messages of a file, folder or pattern; with `limit`, only the first so many.

    A simulation reads them where it runs. `read_stream` says what the parameters mean.
    """

    path: str
    format: str | None = None
    key: str | None = None
    time: str | None = None
    limit: int | None = None

    @property
    def title(self) -> str:
        """Short name for reports and plots."""
        return os.path.basename(self.path.rstrip("/")) or self.path

    def parameters(self) -> dict[str, Any]:
        """Return everything that determines the stream; sizes and modification times stand for the content of files."""
        files = [os.stat(name) for name in find_files(self.path)]
        content = {"bytes": sum(file.st_size for file in files), "modified": max(file.st_mtime_ns for file in files)}
        return {"stream": self.title, **asdict(self), "path": os.path.abspath(self.path), **content}

    def encoded(self) -> Encoded:
        """Read the stream into memory."""
        stream = read_stream(self.path, format=self.format, key=self.key, time=self.time, limit=self.limit)
        return Encoded.of(stream.hashes)


@dataclass(frozen=True)
class Stream:
    """A stream read from files: message i has the hash `hashes[i]` and the time `times[i]`."""

    times: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    hashes: npt.NDArray[np.int64]
    malformed: Malformed
    source: FileStream
    """Where the messages were read."""

    def key_texts(self, hashes: Iterable[int]) -> dict[int, str]:
        """Return the text of the keys with these hashes, 'null' for null.

        A stream keeps only hashes in memory: the files are read again, until every text is known.
        """
        missing = np.array(sorted(set(hashes)), np.int64)
        texts: dict[int, str] = {}
        for part in _read(self.source):
            keys = pc.unique(part.batch.keys)
            keys = keys.cast(keys.type.value_type) if pa.types.is_dictionary(keys.type) else keys
            key_hashes = hash_keys(keys)
            for place in np.flatnonzero(np.isin(key_hashes, missing)).tolist():
                texts[int(key_hashes[place])] = _text(keys[place])
            missing = np.setdiff1d(missing, key_hashes)
            if not missing.size:
                break
        return texts


def _text(key: Any) -> str:
    """Return an Arrow scalar as text."""
    value = key.as_py()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "null" if value is None else str(key.cast(pa.string()).as_py())


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
    with . or _ are skipped. A text file may be plain, gzip, zstd, bz2 or lz4; its first bytes decide. The formats:

    - `tsv`: lines of `time<TAB>key`. The time is a number or ISO 8601. The key is the rest of the line, including
      quotes; it may be empty and must not contain a tab.
    - `wikibench`: lines of `counter time url flag`, separated by single spaces. The key is the url.
    - `words`, `cashtags`: tweets, one per line, as text or JSON. Each word or cashtag is one message.
    - `csv`, `json` (JSON lines), `parquet`: the key is in the column `key`. If a column `time` is given, messages are
      sorted by it, and messages with equal times stay in order. Strings hash as their bytes, numbers as numbers, null
      as 42. In CSV all keys are strings, an empty one is not null, and a quote inside quotes is doubled.

    Without a time, the time of a message is its position. Without `format`, the ending of the file name decides (.tsv
    .tab .txt .csv .json .jsonl .ndjson .parquet .pq, perhaps followed by .gz, .zst, .bz2 or .lz4). Empty lines are
    ignored. `limit` stops after so many messages, before they are sorted. `progress` is called with the number of bytes
    read so far, out of `total_bytes(path)`. A stream without messages raises an InputError.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}: {REMEDY}")
    if limit is not None:
        limit = checks.whole_number("limit", limit, maximum=2**62)
    source = FileStream(os.fspath(path), format, key, time, limit)
    times: list[Any] = []
    hashes: list[npt.NDArray[np.int64]] = []
    malformed, messages, part = Malformed(), 0, None
    key_types: dict[str, str] = {}
    for part in _read(source, progress):
        malformed = _count(malformed, part, source, strict)
        keys = part.batch.keys[: None if limit is None else limit - messages]
        _check_key_type(key_types, keys.type, part.path)
        if len(keys):
            part_times = part.batch.times
            times.append(np.arange(messages, messages + len(keys)) if part_times is None else part_times[: len(keys)])
            hashes.append(hash_keys(keys))
            messages += len(keys)
        if messages == limit:
            break
    if not messages:
        reason = str(malformed) if malformed.count else "there is no row" if part else "the file is empty"
        remedy = f"each line must be {part.expected}, or {REMEDY}" if part else "name another path"
        raise InputError(f"{source.path}: no messages ({reason}): {remedy}")
    all_times, all_hashes = np.concatenate(times), np.concatenate(hashes)
    if time is not None:
        order = np.argsort(all_times, kind="stable")
        all_times, all_hashes = all_times[order], all_hashes[order]
    return Stream(all_times, all_hashes, malformed, source)


@dataclass(frozen=True)
class _Part:
    """A part of one file: its messages, the number of its first line, and what a valid line is."""

    path: str
    batch: Batch
    first_line: int
    expected: str


def _count(malformed: Malformed, part: _Part, source: FileStream, strict: bool) -> Malformed:
    """Add the malformed lines of a part; if `strict`, raise an InputError for the first one."""
    if not part.batch.malformed:
        return malformed
    place, text = part.batch.malformed[0]
    line = f"line {part.first_line + place}"
    if strict:
        raise InputError(
            f"{part.path}, {line}: expected {part.expected}, got {shown(text)!r}: "
            "fix the line, or read without strict to skip and count such lines"
        )
    where = line if part.path == source.path else f"{line} of {part.path}"
    return Malformed(malformed.count + len(part.batch.malformed), malformed.first or f"{where}: {shown(text)!r}")


def _check_key_type(seen: dict[str, str], kind: Any, path: str) -> None:
    """Raise an InputError for a type that cannot be hashed, or if one file has the key 7 and another one '7'."""
    name = str(kind.value_type if pa.types.is_dictionary(kind) else kind)
    name = "text" if "string" in name or "binary" in name else name
    if name in ("null", *seen):
        return
    try:
        hash_keys(pa.array([], kind))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for other, other_path in seen.items():
        raise InputError(
            f"{path}: keys are {name} here and {other} in {other_path}, so equal keys would hash differently: "
            "write all files with one key type"
        )
    seen[name] = path


def _read(source: FileStream, progress: Callable[[int], None] | None = None) -> Iterator[_Part]:
    """Read the files of a stream part by part; report the bytes of the files that have been read."""
    bytes_before = 0
    for path in find_files(source.path):
        line, compression = 0, None
        try:
            with open(path, "rb") as file:
                start = file.peek(4)
                compression = next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)
                content: Any = file
                if compression is not None:
                    content = pa.CompressedInputStream(pa.PythonFile(file, "r"), compression)
                for part in _parts(path, source, content):
                    yield part
                    line = part.first_line
                    if progress is not None and file.seekable():
                        progress(bytes_before + file.tell())
            bytes_before += os.path.getsize(path)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
            problem = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
            what = "cannot be read" if compression is None else f"broken {compression}"
            after = f" after line {line}" if line else ""
            raise InputError(f"{path}: {what}{after} ({problem}): check the file, or write it again") from error


def _parts(path: str, source: FileStream, content: Any) -> Iterator[_Part]:
    """Parse one file. An empty file fits any format."""
    first = content.read(_BLOCK).removeprefix(b"\xef\xbb\xbf")
    if not first:
        return
    format = source.format or by_ending(path)
    for name, value in (("key", source.key), ("time", source.time)):
        if value is not None and format not in TABLES:
            tables = ", ".join(TABLES)
            raise InputError(f"{path}: {name}= is for {tables} only, got {value!r} with {format}: leave it out")
    if format == "parquet":
        # Its index is at its end, so what cannot be read backwards is read whole.
        table = content if content.seekable() else io.BytesIO(first + content.read())
        for batch, row in parquet_batches(path, table, source.key, source.time):
            yield _Part(path, batch, row, f"a time in {source.time!r}")
        return
    lines = text_format(path, format, source.key, source.time)
    line = 1
    for block in _blocks(path, first, content, lines.quoted):
        yield _Part(path, lines.parse(block), line, lines.expected)
        line += block.count(b"\n")


def _blocks(path: str, first: bytes, content: BinaryIO, quoted: bool) -> Iterator[bytes]:
    """Cut a file into blocks of whole lines; a line break inside quotes does not end a line if `quoted`."""
    line, rest, piece = 1, b"", first
    while piece:
        view = rest + piece
        end = view.rfind(b"\n") + 1
        if quoted and b'"' in view:
            while end and (closed := _closed(view, end)) < end:
                end = view.rfind(b"\n", 0, closed) + 1
        if end:
            yield view[:end]
            line += view.count(b"\n", 0, end)
        rest = view[end:]
        if len(rest) > _LONGEST_LINE:
            raise InputError(f"{path}, line {line}: longer than {_LONGEST_LINE:,} bytes: cut it, or close the quote")
        piece = content.read(_BLOCK)
    if quoted and (closed := _closed(rest, len(rest))) < len(rest):
        line += rest.count(b"\n", 0, closed)
        raise InputError(f"{path}, line {line}: a quote is not closed, {shown(rest[closed:])!r}: close it or double it")
    if rest:
        yield rest


def _closed(view: bytes, end: int) -> int:
    """Return the position of the quote that is still open at `end`, or `end` if none is."""
    match = _CLOSED.match(view, 0, end)
    return match.end() if match else 0
