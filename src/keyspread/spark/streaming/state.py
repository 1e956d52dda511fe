"""The state of a streaming `aggregate`: partial states of many keys as one blob of columns, in state partition w.

Reading and writing a state key by key costs some 100 µs a key in Python, a blob far less: see docs/measurements.md.
Worker w owns the keys with pmod(hash, n) = w. What any worker made of a key in a batch comes to the key's owner, which
merges it into what it keeps: one state for each key, however many workers the key is on.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from keyspread.errors import KeyspreadError
from keyspread.spark.aggregation.arrow_functions import Tables
from keyspread.spark.aggregation.folds import groups_of
from keyspread.spark.routing.tags import tags_of
from keyspread.spark.streaming.identity import different

Merge = Callable[[pa.Table], pa.Table]
"""Makes one row for each key of a table, in order of appearance."""

_ROWS = 50_000  # gathered before they are merged
_IDENTITY = b"keyspread"


class StateError(KeyspreadError):
    """The checkpoint has the state of something else; the message says what differs and what to do."""


@dataclass(frozen=True)
class Kept:
    """What all stages of one aggregate know: how to merge, who it is, over how many workers, in windows or not."""

    merge: Merge
    identity: dict[str, Any]
    workers: int
    windowed: bool
    mode: str


# Tables have these columns: the key's hash, start and end of the window if there are windows, the key, the parts.
def gathered(tables: Iterable[pa.Table], merge: Merge) -> pa.Table | None:
    """Merge tables as they come, so that never much more is held than the keys need."""
    held: list[pa.Table] = []
    rows, limit = 0, _ROWS
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows > limit:
            held = [merge(pa.concat_tables(held))]
            rows = held[0].num_rows
            limit = max(_ROWS, 2 * rows)
    return merge(pa.concat_tables(held)) if rows else None


def packer(kept: Kept, make: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the stage behind the workers' exchange: a worker's rows in, blobs for the owners of their keys out."""
    tags = np.array(tags_of(kept.workers), np.int32)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = gathered(make(batches), kept.merge)
        if table is None:
            return
        owner = (table.column(0).to_numpy().view(np.uint64) % np.uint64(kept.workers)).astype(np.int64)
        windows = table.columns[1:3] if kept.windowed else []
        groups = groups_of([pa.array(owner), *windows])
        sizes = np.bincount(groups.of_row)
        begins = np.cumsum(sizes) - sizes
        together = table.take(pa.array(np.argsort(groups.of_row, kind="stable")))
        blobs = [to_blob(together.slice(*cut), kept.identity) for cut in zip(begins, sizes, strict=True)]
        columns = {"tag": pa.array(tags[owner[groups.first]])}
        if kept.windowed:
            bounds = [column.take(pa.array(groups.first)).combine_chunks() for column in windows]
            columns["start"], columns["end"] = (bound.cast(pa.int64()) for bound in bounds)
        columns["blob"] = pa.array(blobs, pa.binary())
        if kept.windowed:
            columns["window"] = pa.StructArray.from_arrays(bounds, names=["start", "end"])
        yield pa.RecordBatch.from_pydict(columns)

    return pack


def unpacker(finish: Merge) -> Tables:
    """Make the stage behind the state: blobs in, rows of the result out."""
    return lambda batches: (finish(from_blob(blob.as_buffer())) for batch in batches for blob in batch.column(0))


def processor(kept: Kept) -> StatefulProcessor:
    """Make what Spark's `transformWithState` runs: it merges what comes into what is kept.

    In every batch Spark starts a Python only to ask `init` which state there is. So the class travels by value, being
    local, and what does the work as bytes: that Python need not load keyspread, which takes five times as long.
    """
    packed = cloudpickle.dumps(KeptState(kept))  # type: ignore[no-untyped-call]

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle, self.state = handle, None
            self.blobs = handle.getMapState("parts", "start bigint, end bigint", "blob binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            return self.loaded().merge(key, rows, self.blobs, self.handle)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            return self.loaded().close(expiredTimerInfo.getExpiryTimeInMs(), self.blobs)

        def close(self) -> None:
            pass

        def loaded(self) -> Any:
            if self.state is None:
                import pickle

                self.state = pickle.loads(packed)
            return self.state

    return Processor()


class KeptState:
    """Merges what comes into what is kept; gives what has changed (update), or a window when it is over (append)."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def merge(self, key: Any, rows: Iterator[Row], blobs: Any, handle: Any) -> Iterator[Row]:
        """Merge the blobs of a batch."""
        self._check_place(int(key[0]))
        windowed, mode = self._kept.windowed, self._kept.mode
        came: dict[tuple[int, int], list[pa.Table]] = {}
        for row in rows:
            window = (row.start, row.end) if windowed else (0, 0)
            came.setdefault(window, []).append(from_blob(row.blob))
        for window, tables in came.items():
            new = self._kept.merge(pa.concat_tables(tables))
            known = self._known(blobs, window)
            # The new ones first: so the first rows of the sum are those that have changed.
            total = new if known is None else self._kept.merge(pa.concat_tables([new, known]))
            blobs.updateValue(window, (to_blob(total, self._kept.identity),))
            if windowed:
                handle.registerTimer(_closing(window))
            if mode == "update":
                yield Row(blob=to_blob(total.slice(0, new.num_rows), self._kept.identity))

    def close(self, watermark: int, blobs: Any) -> Iterator[Row]:
        """Let go of the window that is over with this watermark."""
        windows = [(int(window[0]), int(window[1])) for window in blobs.keys()]  # noqa: SIM118
        for window in windows:
            if _closing(window) == watermark:
                known = self._known(blobs, window)
                blobs.removeKey(window)
                if self._kept.mode == "append" and known is not None:
                    yield Row(blob=to_blob(known, self._kept.identity))

    def _known(self, blobs: Any, window: tuple[int, int]) -> pa.Table | None:
        found = blobs.getValue(window)
        if found is None:
            return None
        table = from_blob(found[0])
        was = json.loads(table.schema.metadata[_IDENTITY])
        if was != self._kept.identity:
            raise StateError(different(was, self._kept.identity))
        return table

    def _check_place(self, tag: int) -> None:
        task = TaskContext.get()
        assert task is not None
        worker = tags_of(self._kept.workers).index(tag)
        if task.partitionId() != worker:
            raise StateError(
                f"the state of worker {worker} of {self._kept.workers} would be in state partition "
                f"{task.partitionId()}: the checkpoint was made with another number of workers, which is fixed by it; "
                "use that number, or start with a new checkpoint"
            )


def to_blob(table: pa.Table, identity: dict[str, Any]) -> bytes:
    """Give a table as bytes that say whose it is."""
    table = table.replace_schema_metadata({_IDENTITY: json.dumps(identity)}).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_blob(blob: Any) -> pa.Table:
    """Read a table back."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


def _closing(window: tuple[int, int]) -> int:
    """Give the watermark, in ms, from which a window is over."""
    return -(-window[1] // 1000)
