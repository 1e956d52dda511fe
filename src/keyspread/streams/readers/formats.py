"""Which format a file has: what the caller says, else its ending, else its first lines. Never a silent guess.

What may be changed here: further formats, endings and signs. `words` and `cashtags` are never guessed: any text would
do for them.
"""

import os
import re

from keyspread.errors import InputError
from keyspread.streams.readers.columns import Csv, JsonLines
from keyspread.streams.readers.lines import TSV, WIKIBENCH, Lines
from keyspread.streams.readers.malformed import shown
from keyspread.streams.readers.parquet import MAGIC
from keyspread.streams.readers.tweets import Tweets, cashtags, words

FORMATS = ("tsv", "wikibench", "words", "cashtags", "csv", "json", "parquet")
TABLES = ("csv", "json", "parquet")
"""Formats whose columns have names, so that the key's must be given."""

_ENDINGS = {
    **{"tsv": "tsv", "tab": "tsv", "txt": "tsv", "csv": "csv"},
    **{"json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet", "pq": "parquet"},
}
_FOREIGN = {
    MAGIC: "a Parquet file",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ\x00": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with Zstandard",
    b"PK\x03\x04": "a zip archive",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
}
_TSV_LINE = re.compile(rb"^" + TSV.message.pattern + rb"\r?$", re.MULTILINE)
_HOW = f"pass format=, one of {', '.join(FORMATS)}"


def check_format(name: str | None) -> str | None:
    """Return the name of a known format, or None."""
    if name is not None and name not in FORMATS:
        raise InputError(f"unknown format {name!r}: {_HOW}")
    return name


def by_ending(path: str) -> str | None:
    """Give the format that the name tells: 'a.csv.gz' → 'csv', 'wiki.1200000.gz' → None."""
    parts = os.path.basename(path).lower().split(".")[1:]
    if parts and parts[-1] == "gz":
        parts.pop()
    return _ENDINGS.get(parts[-1]) if parts else None


def guess(path: str, start: bytes) -> str:
    """Tell the format by the ending, else by whole lines from the file's start."""
    format = by_ending(path)
    first = start.lstrip(b"\r\n").split(b"\n", 1)[0].rstrip(b"\r")
    if format not in (None, "tsv"):
        return format
    if format is None and start.startswith(MAGIC):
        return "parquet"
    wikibench = WIKIBENCH.message.fullmatch(first) is not None
    if wikibench and (format is None or not _TSV_LINE.search(start)):
        return "wikibench"
    if format is None and not _TSV_LINE.search(start):
        raise InputError(f"{path}: neither the ending nor the first line, {shown(first)!r}, tells the format: {_HOW}")
    return "tsv"


def refuse_foreign(path: str, format: str, start: bytes) -> None:
    """Refuse a file that by its first bytes is something else."""
    what = next((what for magic, what in _FOREIGN.items() if start.startswith(magic)), None)
    if format == "parquet":
        if not start.startswith(MAGIC):
            kind = what or f"no Parquet file, it begins with {shown(start.splitlines()[0])!r}"
            raise InputError(f"{path}: is {kind}: {_HOW}")
    elif what is not None and b"\x00" in start:  # a tweet, or a CSV header, may begin with letters such as ORC
        remedy = "pass format='parquet'" if start.startswith(MAGIC) else "unpack or convert it first"
        raise InputError(f"{path}: is {what}, not {format}: {remedy}")


def text_format(path: str, format: str, key: str | None, time: str | None, lines_before: int) -> Lines:
    """Begin reading a file of a format that is text; `lines_before` it in the stream."""
    if format in ("words", "cashtags"):
        as_json = by_ending(path) == "json"
        return Tweets(words if format == "words" else cashtags, as_json=as_json, lines_before=lines_before)
    if format == "csv":
        return Csv(path, key, time)
    if format == "json":
        return JsonLines(path, key, time)
    return TSV if format == "tsv" else WIKIBENCH


def remedy(path: str, format: str | None, malformed: bool, expected: str | None) -> str:
    """Say what to do about a stream without messages; `expected` of its lines, None if it has none."""
    if expected is not None:
        return f"each line must be {expected}, or {_HOW}" if malformed else f"name another path, or {_HOW}"
    known = format or by_ending(path)
    if known is None or known == "parquet":
        return "write messages into it, or name another path"
    return f"each line must be {text_format(path, known, None, None, 0).expected}"
