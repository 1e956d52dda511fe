"""Identity: a description of what a query computes, so that no other query resumes from its state or folder."""

import json
from typing import Any

import pyarrow as pa

from keyspread.errors import KeyspreadError, SnapshotError
from keyspread.folding.types import as_stored
from keyspread.framing import Frame


def difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Describe how two queries differ and what to do; return None if they do not differ in any field of `now`."""
    changed = []
    for name, value in now.items():
        if before.get(name) != value:
            was, is_now = _without_equal_columns(before.get(name), value)
            changed.append(f"{name} was {was!r} and is now {is_now!r}")
    if not changed:
        return None
    return f"this belongs to another query ({', '.join(changed)}): resume that query unchanged, or use a new folder"


def _without_equal_columns(before: Any, now: Any) -> tuple[Any, Any]:
    """Return two values as they are; of two schemas in JSON only the columns that differ, as `name: type`."""
    try:
        of_before, of_now = before["fields"], now["fields"]
        was = [f"{one['name']}: {one['type']}" for one in of_before if one not in of_now]
        is_now = [f"{one['name']}: {one['type']}" for one in of_now if one not in of_before]
    except (TypeError, KeyError, IndexError):
        return before, now
    return (was, is_now) if was or is_now else (before, now)


# Blobs: tables of states and the identity of their query as bytes, with a version and a checksum. No engine.


STATES = Frame(b"kspS", 1, "a blob of states", "to_blob")
INDEX = Frame(b"kspI", 1, "an index of states", "to_blob")
_IDENTITY = Frame(b"kspQ", 1, "the identity of a query", "identity_blob")


class StateError(KeyspreadError):
    """The checkpoint holds a state that cannot be used; the message says why and what to do."""


def to_blob(table: pa.Table, frame: Frame = STATES) -> bytes:
    """Return a table as bytes."""
    table = as_stored(table).replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return frame.seal(sink.getvalue().to_pybytes())


def from_blob(blob: Any, frame: Frame = STATES) -> pa.Table:
    """Read a table from the bytes of `to_blob`; nothing in them is run."""
    try:
        with pa.ipc.open_stream(_opened(blob, frame)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as problem:
        raise _damaged(problem) from None


def identity_blob(identity: dict[str, Any]) -> bytes:
    """Return the identity of a query as bytes."""
    return _IDENTITY.seal(json.dumps(identity).encode())


def identity_of(blob: Any) -> dict[str, Any]:
    """Read an identity from the bytes of `identity_blob`."""
    found: dict[str, Any] = json.loads(_opened(blob, _IDENTITY))
    return found


def is_index(blob: Any) -> bool:
    """Return whether a blob is an index of states, not a table of states."""
    return bytes(blob[: len(INDEX.magic)]) == INDEX.magic


def _opened(blob: Any, frame: Frame) -> bytes:
    data = bytes(blob)
    if not data.startswith(frame.magic):
        raise StateError(
            "the state in the checkpoint was not written by this version of keyspread: restart the query with the "
            "version that wrote it, or start with a new checkpoint"
        )
    try:
        return frame.open(data)
    except SnapshotError as problem:
        raise _damaged(problem) from None


def _damaged(problem: Exception) -> StateError:
    return StateError(
        f"the state in the checkpoint cannot be read ({problem}): restore the checkpoint from a copy, or start with a "
        "new one"
    )
