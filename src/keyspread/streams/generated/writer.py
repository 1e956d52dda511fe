"""Write generated streams to files, for use without keyspread.

A file appears only when it is complete. Memory use does not depend on the length of the stream.
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
from keyspread.streams.generated.generator import GeneratedStream

ENDINGS = (".tsv", ".tsv.gz", ".parquet")
"""Endings of the files that can be written."""

_CHUNK = 1 << 20
"""Messages written at once: about 50 MB as text, however long the stream is."""


def check_writable(path: str, overwrite: bool = False) -> None:
    """Raise an InputError if the file has another ending, already exists or cannot be created."""
    if not path.lower().endswith(ENDINGS):
        raise InputError(f"the file of a stream must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {path}")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file")
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} already exists: choose another name or pass --overwrite")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: there is no folder {parent}, create it first")


def write_stream(
    stream: GeneratedStream, path: str, *, overwrite: bool = False, progress: Callable[[int], None] | None = None
) -> None:
    """Write message i with the time i: lines of `time<TAB>key`, plain or gzip, or Parquet, by the ending of the file.

    The file appears only when it is complete. Memory use does not depend on the length of the stream. `progress` is
    called with the number of messages written so far. Keys are integers in Parquet. In text files they are strings,
    which hash differently.
    """
    check_writable(path, overwrite)
    law = stream.law()
    with _replacement(path) as file, _writer(file, path) as write:
        for start in range(0, stream.messages, _CHUNK):
            count = min(_CHUNK, stream.messages - start)
            write(np.arange(start, start + count), law.draw(start, count).astype(np.int64))
            if progress is not None:
                progress(start + count)


@contextmanager
def _replacement(path: str) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if all goes well and is removed otherwise, even by Ctrl-C."""
    parent = os.path.dirname(os.path.abspath(path))
    beside = os.path.join(parent, f".keyspread-{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            yield file
        os.replace(beside, path)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(
            f"{path} cannot be written ({reason}): check the permissions and the free space of {parent}"
        ) from problem
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
    # The gzip header has no name and no time, so that the same stream always gives the same file.
    packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if path.lower().endswith(".gz") else None
    lines = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with packed or nullcontext(), pa_csv.CSVWriter(cast(BinaryIO, packed or file), schema, write_options=lines) as text:
        yield lambda times, keys: text.write_table(pa.table([times, keys], schema))
