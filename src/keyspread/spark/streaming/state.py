"""The state of a streaming `aggregate`: the partial states of many keys, stored as one blob of columns.

Reading and writing a state key by key costs about 100 µs per key in Python, a blob far less: see docs/measurements.md.
Worker w owns the keys with pmod(hash, n) = w and keeps their state in state partition w. All partial states of a key
in a batch are sent to its owner, which merges them into the state: one per key, however many workers have the key.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row

from keyspread.spark.aggregation.arrow_functions import Tables
from keyspread.spark.aggregation.groups import groups_of
from keyspread.spark.routing.tags import tags_of
from keyspread.spark.streaming.blobs import StateError, from_blob, identity_of, to_blob
from keyspread.spark.streaming.identity import difference

Merge = Callable[[pa.Table], pa.Table]
"""Returns one row for each key of a table, in order of appearance."""

_ROWS = 50_000  # rows collected before they are merged


@dataclass(frozen=True)
class StateRules:
    """What all stages of one aggregate need: how to merge, its identity, the workers, windows or not, the mode."""

    merge: Merge
    identity: dict[str, Any]
    workers: int
    windowed: bool
    mode: str


# Tables have these columns: the key's hash, start and end of the window if there are windows, the key, the parts.
def merge_all(tables: Iterable[pa.Table], merge: Merge) -> pa.Table | None:
    """Merge tables as they arrive, so that memory is proportional to the keys; return None if there are no rows."""
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


def packer(rules: StateRules, make: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the stage after the workers' exchange: a worker's rows in, blobs for the owners of their keys out."""
    tags = np.array(tags_of(rules.workers), np.int32)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = merge_all(make(batches), rules.merge)
        if table is None:
            return
        owner = (table.column(0).to_numpy().view(np.uint64) % np.uint64(rules.workers)).astype(np.int64)
        windows = table.columns[1:3] if rules.windowed else []
        groups = groups_of([pa.array(owner), *windows])
        sizes = np.bincount(groups.of_row)
        begins = np.cumsum(sizes) - sizes
        by_group = table.take(pa.array(np.argsort(groups.of_row, kind="stable")))
        blobs = [to_blob(by_group.slice(*cut), rules.identity) for cut in zip(begins, sizes, strict=True)]
        columns = {"tag": pa.array(tags[owner[groups.first]])}
        if rules.windowed:
            bounds = [column.take(pa.array(groups.first)).combine_chunks() for column in windows]
            columns["start"], columns["end"] = (bound.cast(pa.int64()) for bound in bounds)
        columns["blob"] = pa.array(blobs, pa.binary())
        if rules.windowed:
            columns["window"] = pa.StructArray.from_arrays(bounds, names=["start", "end"])
        yield pa.RecordBatch.from_pydict(columns)

    return pack


def unpacker(finish: Merge) -> Tables:
    """Return the stage after the state: blobs in, rows of the result out."""
    return lambda batches: (finish(from_blob(blob.as_buffer())) for batch in batches for blob in batch.column(0))


def processor(rules: StateRules) -> Any:
    """Return the processor for Spark's `transformWithState`: it merges new partial states into the stored ones.

    In every batch Spark starts a Python process only to ask `init` which state there is. So the class is local, which
    makes it travel by value, and the part that does the work travels as bytes. That process then need not import
    keyspread, which would take five times as long.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # Spark 3.5 does not have it

    packed = cloudpickle.dumps(StateMerger(rules))  # type: ignore[no-untyped-call]

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle, self.merger = handle, None
            self.blobs = handle.getMapState("parts", "start bigint, end bigint", "blob binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None
            partition = task.partitionId()
            return self.unpickled().merge(int(key[0]), partition, rows, self.blobs, self.handle.registerTimer)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            return self.unpickled().close(expiredTimerInfo.getExpiryTimeInMs(), self.blobs)

        def close(self) -> None:
            pass

        def unpickled(self) -> Any:
            if self.merger is None:
                import pickle

                self.merger = pickle.loads(packed)
            return self.merger

    return Processor()


class StateMerger:
    """Merges new partial states into the stored ones; returns changed rows (update) or finished windows (append)."""

    def __init__(self, rules: StateRules) -> None:
        self._rules = rules

    def merge(
        self, tag: int, partition: int, rows: Iterator[Row], blobs: Any, close_at: Callable[[int], None]
    ) -> Iterator[Row]:
        """Merge the blobs of a batch into the state of this partition; `close_at` asks Spark to call `close`."""
        self._check_place(tag, partition)
        windowed, mode = self._rules.windowed, self._rules.mode
        arrived: dict[tuple[int, int], list[pa.Table]] = {}
        for row in rows:
            window = (row.start, row.end) if windowed else (0, 0)
            arrived.setdefault(window, []).append(from_blob(row.blob))
        for window, tables in arrived.items():
            new = self._rules.merge(pa.concat_tables(tables))
            stored = self._stored(blobs, window)
            # New ones first: then the first rows of the merged table are the changed ones.
            total = new if stored is None else self._rules.merge(pa.concat_tables([new, stored]))
            blobs.updateValue(window, (to_blob(total, self._rules.identity),))
            if windowed:
                close_at(_closing(window))
            if mode == "update":
                yield Row(blob=to_blob(total.slice(0, new.num_rows), self._rules.identity))

    def close(self, watermark: int, blobs: Any) -> Iterator[Row]:
        """Remove the window that is over at this watermark; in append mode, return it."""
        windows = [(int(window[0]), int(window[1])) for window in blobs.keys()]  # noqa: SIM118
        for window in windows:
            if _closing(window) == watermark:
                stored = self._stored(blobs, window)
                blobs.removeKey(window)
                if self._rules.mode == "append" and stored is not None:
                    yield Row(blob=to_blob(stored, self._rules.identity))

    def _stored(self, blobs: Any, window: tuple[int, int]) -> pa.Table | None:
        found = blobs.getValue(window)
        if found is None:
            return None
        table = from_blob(found[0])
        changed = difference(identity_of(table), self._rules.identity)
        if changed is not None:
            raise StateError(f"the checkpoint: {changed}")
        return table

    def _check_place(self, tag: int, partition: int) -> None:
        worker = tags_of(self._rules.workers).index(tag)
        if partition != worker:
            raise StateError(
                f"the state of worker {worker} of {self._rules.workers} would be in state partition {partition}: the "
                "checkpoint was made with another number of workers, which cannot change; use that number, or start "
                "with a new checkpoint"
            )


def _closing(window: tuple[int, int]) -> int:
    """Return the watermark, in ms, at which a window is over."""
    return -(-window[1] // 1000)
