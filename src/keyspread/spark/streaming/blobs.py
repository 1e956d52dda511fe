"""Blobs: tables of partial states as bytes, with the identity of their query, a version and a checksum. No engine."""

import json
from typing import Any

import pyarrow as pa

from keyspread.errors import KeyspreadError, SnapshotError
from keyspread.framing import Frame
from keyspread.spark.aggregation.stored_types import as_stored

_IDENTITY = b"keyspread"
STATES = Frame(b"kspS", 1, "a blob of states", "to_blob")
INDEX = Frame(b"kspI", 1, "an index of states", "to_blob")


class StateError(KeyspreadError):
    """The checkpoint holds a state that cannot be used; the message says why and what to do."""


def to_blob(table: pa.Table, identity: dict[str, Any], frame: Frame = STATES) -> bytes:
    """Return a table as bytes, with the identity of its query."""
    table = as_stored(table).replace_schema_metadata({_IDENTITY: json.dumps(identity)}).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return frame.seal(sink.getvalue().to_pybytes())


def from_blob(blob: Any, frame: Frame = STATES) -> pa.Table:
    """Read a table from the bytes of `to_blob`; nothing in them is run."""
    data = bytes(blob)
    if not data.startswith(frame.magic):
        raise StateError(
            "the state in the checkpoint was not written by this version of keyspread: restart the query with the "
            "version that wrote it, or start with a new checkpoint"
        )
    try:
        with pa.ipc.open_stream(frame.open(data)) as reader:
            return reader.read_all()
    except (SnapshotError, pa.ArrowException, OSError) as problem:
        raise StateError(
            f"the state in the checkpoint cannot be read ({problem}): restore the checkpoint from a copy, or start "
            "with a new one"
        ) from None


def is_index(blob: Any) -> bool:
    """Return whether a blob is an index of states, not a table of states."""
    return bytes(blob[: len(INDEX.magic)]) == INDEX.magic


def identity_of(table: pa.Table) -> dict[str, Any]:
    """Return the identity that a table from `from_blob` was stored with."""
    found: dict[str, Any] = json.loads(table.schema.metadata[_IDENTITY])
    return found
