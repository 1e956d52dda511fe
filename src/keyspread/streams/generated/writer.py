"""Made streams as files, for whoever has no keyspread: all of a stream or nothing, in bounded memory.

What may be changed here: further formats.
"""

import gzip
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from keyspread.errors import InputError
from keyspread.streams.generated.generator import Made

ENDINGS = (".tsv", ".tsv.gz", ".parquet")
"""How the file of a written stream may end."""

_CHUNK = 1 << 20
"""Messages written at once: some 50 MB as text, whatever the length of the stream."""


def check_writable(path: str, overwrite: bool = False) -> None:
    """Refuse, before anything is drawn, a file that has another ending, is there already or cannot be made."""
    if not path.lower().endswith(ENDINGS):
        raise InputError(
            f"a stream is written to a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {path}"
        )
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file")
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} is there already: choose another name, or allow --overwrite")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: there is no folder {parent}, make it first")


def write_stream(
    stream: Made, path: str, *, overwrite: bool = False, progress: Callable[[int], None] | None = None
) -> None:
    """Write message i as time i and its key: `time<TAB>key` lines, plain or gzip, or Parquet, by the file's ending.

    All of it or nothing: the file appears when it is complete. Memory does not grow with the stream. `progress` is
    called with the messages written so far. Keys are numbers in Parquet; in a text they are texts, and hash as such.
    """
    check_writable(path, overwrite)
    law = stream.law()
    with _put_in_place(path) as file, _writer(file, path) as write:
        for start in range(0, stream.messages, _CHUNK):
            count = min(_CHUNK, stream.messages - start)
            write(np.arange(start, start + count), law.draw(start, count).astype(np.int64))
            if progress is not None:
                progress(start + count)


@contextmanager
def _put_in_place(path: str) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place if all goes well, and else is removed, also by Ctrl-C."""
    parent = os.path.dirname(os.path.abspath(path))
    beside = os.path.join(parent, f".keyspread-{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            yield file
        os.replace(beside, path)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(f"{path} cannot be written ({reason}): check the rights and the room of {parent}") from problem
    finally:
        with suppress(OSError):
            os.remove(beside)


_Write = Callable[[Any, Any], None]


@contextmanager
def _writer(file: BinaryIO, path: str) -> Iterator[_Write]:
    schema = pa.schema({"time": pa.int64(), "key": pa.int64()})
    if path.lower().endswith(".parquet"):
        import pyarrow.parquet as pa_parquet

        with pa_parquet.ParquetWriter(file, schema) as parquet:
            yield lambda times, keys: parquet.write_table(pa.table([times, keys], schema))
        return
    # No name and no time in the header: the same stream is the same file.
    packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if path.lower().endswith(".gz") else None
    lines = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with packed or nullcontext(), pa_csv.CSVWriter(cast(BinaryIO, packed or file), schema, write_options=lines) as text:
        yield lambda times, keys: text.write_table(pa.table([times, keys], schema))
