"""Find the format of a file: the format that the caller names, else by the file's ending, else by its first lines.

A file whose format cannot be determined is an error. `words` and `cashtags` must be named, because any text fits them.
"""

import os
import re

from keyspread.errors import InputError
from keyspread.streams.readers.csv_records import Csv
from keyspread.streams.readers.fixed_columns import TSV, WIKIBENCH
from keyspread.streams.readers.json_lines import JsonLines
from keyspread.streams.readers.lines import Lines
from keyspread.streams.readers.messages import shown
from keyspread.streams.readers.parquet import MAGIC
from keyspread.streams.readers.tweets import Tweets, cashtags, words

FORMATS = ("tsv", "wikibench", "words", "cashtags", "csv", "json", "parquet")
TABLES = ("csv", "json", "parquet")
"""Formats whose columns have names: the caller must name the key column."""

FORMAT_BY_ENDING = {
    **{"tsv": "tsv", "tab": "tsv", "txt": "tsv", "csv": "csv"},
    **{"json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet", "pq": "parquet"},
}
_FOREIGN = {
    MAGIC: "a Parquet file",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
    b"PK\x03\x04": "a zip archive",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
}
_TSV_LINE = re.compile(rb"^" + TSV.message.pattern + rb"\r?$", re.MULTILINE)
_REMEDY = f"pass format=, one of {', '.join(FORMATS)}"


def check_format(name: str | None) -> str | None:
    """Return the name of a format unchanged; raise an InputError if it is unknown. None means no format is given."""
    if name is not None and name not in FORMATS:
        raise InputError(f"unknown format {name!r}: {_REMEDY}")
    return name


def by_ending(path: str) -> str | None:
    """Return the format by the ending of the file name: 'a.csv.gz' → 'csv', 'wiki.1200000.gz' → None."""
    parts = os.path.basename(path).lower().split(".")[1:]
    if parts and parts[-1] == "gz":
        parts.pop()
    return FORMAT_BY_ENDING.get(parts[-1]) if parts else None


def guess(path: str, start: bytes) -> str:
    """Return the format by the ending of the file name, else by the whole lines at its start."""
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
        raise InputError(
            f"{path}: neither the ending nor the first line, {shown(first)!r}, tells the format: {_REMEDY}"
        )
    return "tsv"


def refuse_foreign(path: str, format: str, start: bytes) -> None:
    """Raise an InputError if the first bytes show that the file is something else."""
    what = next((what for magic, what in _FOREIGN.items() if start.startswith(magic)), None)
    if format == "parquet":
        if not start.startswith(MAGIC):
            kind = what or f"not a Parquet file, it starts with {shown(start.splitlines()[0])!r}"
            raise InputError(f"{path}: is {kind}: {_REMEDY}")
    elif what is not None and b"\x00" in start:  # text without a zero byte may start with these letters
        remedy = "pass format='parquet'" if start.startswith(MAGIC) else "decompress or convert it first"
        raise InputError(f"{path}: is {what}, not {format}: {remedy}")


def text_format(path: str, format: str, key: str | None, time: str | None, lines_before: int) -> Lines:
    """Return the parser for a file in a text format; `lines_before` is the number of lines in the files before it."""
    if format in ("words", "cashtags"):
        as_json = by_ending(path) == "json"
        return Tweets(words if format == "words" else cashtags, as_json=as_json, lines_before=lines_before)
    if format == "csv":
        return Csv(path, key, time)
    if format == "json":
        return JsonLines(path, key, time)
    return TSV if format == "tsv" else WIKIBENCH


def remedy(path: str, format: str | None, malformed: bool, expected: str | None) -> str:
    """Return what to do about a stream without messages; `expected` describes a valid line, None if no file has one."""
    if expected is not None:
        return f"each line must be {expected}, or {_REMEDY}" if malformed else f"name another path, or {_REMEDY}"
    known = format or by_ending(path)
    if known is None or known == "parquet":
        return "write messages into it, or name another path"
    return f"each line must be {text_format(path, known, None, None, 0).expected}"
