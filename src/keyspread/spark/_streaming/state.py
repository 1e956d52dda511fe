"""The state of a streaming `aggregate`: the partial states of many keys, stored as blobs of columns.

Reading and writing a state key by key costs about 100 µs per key in Python, blobs far less: see docs/measurements.md.
Worker w owns the keys with pmod(hash, n) = w and keeps their state in state partition w. All partial states of a key
in a batch are sent to its owner, which merges them into the state: one per key, however many workers have the key.

The state of a partition begins with the identity of its query. Every partition gets a row in every batch, so that a
query that is not the one of the checkpoint fails in its first batch, in whatever partition its rows are.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession

from keyspread import checks
from keyspread.errors import InputError
from keyspread.folding.states import fold_all, groups_of
from keyspread.spark._folding.operator_parts import Tables
from keyspread.spark._routing.exchange import tags_of
from keyspread.spark._streaming.blobs import StateError, difference, from_blob, identity_blob, identity_of, to_blob
from keyspread.spark._streaming.chunks import (
    Fold,
    Window,
    WindowEntries,
    append_part,
    open_windows,
    remove_sorted,
    take_parts,
    update_sorted,
)

STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"

IDENTITY_KEY: Window = (2**63 - 1, -(2**63))
"""The entry with the identity: not a key of any window, nor of a chunk."""

Place = tuple[int, int | None]
"""The number of a state partition, and how many there are, if that is known."""


@dataclass(frozen=True)
class StateRules:
    """What all stages of one aggregate need: how to merge, its identity, the workers, the mode.

    `bounds` is the Arrow type of the bounds of its windows, None for running totals.
    """

    fold: Fold
    identity: dict[str, Any]
    workers: int
    mode: str
    bounds: pa.DataType | None = None

    @property
    def windowed(self) -> bool:
        """Whether there are windows."""
        return self.bounds is not None

    @property
    def blobs(self) -> pa.Schema:
        """The rows between workers and owners."""
        tag, blob = pa.field("tag", pa.int32()), pa.field("blob", pa.binary())
        if self.bounds is None:
            return pa.schema([tag, blob])
        window = pa.struct([("start", self.bounds), ("end", self.bounds)])
        return pa.schema([tag, ("start", pa.int64()), ("end", pa.int64()), blob, ("window", window)])


def packer(rules: StateRules, make: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the stage after the workers' exchange: a worker's rows in, blobs for the owners of their keys out."""
    tags = np.array(tags_of(rules.workers), np.int32)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _call(rules, tags)
        table = fold_all(make(batches), rules.fold)
        if table is None:
            return
        owner = (table.column(0).to_numpy().view(np.uint64) % np.uint64(rules.workers)).astype(np.int64)
        windows = table.columns[1:3] if rules.windowed else []
        groups = groups_of([pa.array(owner), *windows])
        sizes = np.bincount(groups.of_row)
        begins = np.cumsum(sizes) - sizes
        by_group = table.take(pa.array(np.argsort(groups.of_row, kind="stable")))
        blobs = pa.array([to_blob(by_group.slice(*cut)) for cut in zip(begins, sizes, strict=True)], pa.binary())
        columns = [pa.array(tags[owner[groups.first]]), blobs]
        if rules.windowed:
            bounds = [column.take(pa.array(groups.first)).combine_chunks().cast(rules.bounds) for column in windows]
            columns[1:1] = [bound.cast(pa.int64()) for bound in bounds]
            columns.append(pa.StructArray.from_arrays(bounds, names=["start", "end"]))
        yield pa.RecordBatch.from_arrays(columns, schema=rules.blobs)

    return pack


def _call(rules: StateRules, tags: npt.NDArray[np.int32]) -> pa.RecordBatch:
    """Return a row without a blob for the state partition of this worker. It has no window, so it is never late."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    row = {"tag": int(tags[task.partitionId()]), "start": 0, "end": 0, "blob": b"", "window": None}
    return pa.RecordBatch.from_pylist([row], rules.blobs)


def unpacker(finish: Callable[[pa.Table], pa.Table]) -> Tables:
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
            # Spark takes the number of state partitions from the checkpoint, whatever the session says now. Tasks see
            # it as an internal setting; Spark 4.0 does not have that one and restores that of the session instead.
            found = (task.getLocalProperty(name) for name in (STATE_PARTITIONS, "spark.sql.shuffle.partitions"))
            place = task.partitionId(), next((int(number) for number in found if number), None)
            return self.unpickled().merge(int(key[0]), place, rows, self.blobs, self.handle.registerTimer)

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
        self, tag: int, place: Place, rows: Iterator[Row], blobs: Any, close_at: Callable[[int], None]
    ) -> Iterator[Row]:
        """Merge the blobs of a batch into the state of this partition; `close_at` asks Spark to call `close`."""
        self._check_place(tag, *place)
        self._check_identity(blobs)
        windowed, mode, fold = self._rules.windowed, self._rules.mode, self._rules.fold
        arrived: dict[Window, list[pa.Table]] = {}
        for row in rows:
            if not row.blob:  # it only called
                continue
            window = (row.start, row.end) if windowed else (0, 0)
            arrived.setdefault(window, []).append(from_blob(row.blob))
        for window, tables in arrived.items():
            new, entries = fold(pa.concat_tables(tables)), WindowEntries(blobs, window)
            if windowed:
                close_at(_closing(window))
            if mode == "append":
                append_part(entries, new, fold)
            else:
                yield Row(blob=to_blob(update_sorted(entries, new, fold)))

    def close(self, watermark: int, blobs: Any) -> Iterator[Row]:
        """Remove the window that is over at this watermark; in append mode, return it."""
        for window in open_windows(blobs):
            if _closing(window) != watermark:
                continue
            entries = WindowEntries(blobs, window)
            if self._rules.mode == "update":
                remove_sorted(entries)
            elif (states := take_parts(entries, self._rules.fold)) is not None:
                yield Row(blob=to_blob(states))

    def _check_identity(self, blobs: Any) -> None:
        """Refuse the state of another query; the first batch says whose it is."""
        found = blobs.getValue(IDENTITY_KEY)
        if found is None:
            blobs.updateValue(IDENTITY_KEY, (identity_blob(self._rules.identity),))
            return
        changed = difference(identity_of(found[0]), json.loads(json.dumps(self._rules.identity)))
        if changed is not None:
            raise StateError(f"the checkpoint: {changed}")

    def _check_place(self, tag: int, partition: int, partitions: int | None) -> None:
        # Both: a tag may lead to the right partition of a wrong number, and not every session tells us the number.
        workers, worker = self._rules.workers, tags_of(self._rules.workers).index(tag)
        if partition != worker or partitions not in (workers, None):
            where = f"state partition {partition}" + ("" if partitions is None else f" of {partitions}")
            raise StateError(
                f"the state of worker {worker} of {workers} would be in {where}: the checkpoint was made with another "
                "number of workers, which cannot change; use that number, or start with a new checkpoint"
            )


def _closing(window: Window) -> int:
    """Return the watermark, in ms, at which a window is over."""
    return -(-window[1] // 1000)


# `stream_settings`: the session settings that a streaming `aggregate` needs.


_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PARTITIONS = "spark.sql.shuffle.partitions"


def stream_settings(workers: int) -> dict[str, str]:
    """Return the settings that a session needs for a streaming `aggregate` over this many workers.

    Args:
        workers: The number of workers of the operator.

    Returns:
        The settings of Spark by their names.

    Raises:
        InputError: The number of workers is less than 1.

    >>> stream_settings(8)["spark.sql.shuffle.partitions"]
    '8'
    """
    return {_PARTITIONS: str(checks.whole_number("workers", workers)), _PROVIDER: _ROCKSDB}


def check_settings(spark: SparkSession, workers: int) -> None:
    """Refuse a session that lacks a setting; nothing is set behind the user's back."""
    found = {name: (spark.conf.get(name), needed) for name, needed in stream_settings(workers).items()}
    wrong = {name: (value, needed) for name, (value, needed) in found.items() if not _fits(name, value, needed)}
    if wrong:
        listed = ", ".join(f"{name}={needed} (is {found})" for name, (found, needed) in wrong.items())
        raise InputError(f"aggregate of a stream over {workers} workers needs these settings of the session: {listed}")


def _fits(name: str, found: str | None, needed: str) -> bool:
    if name == _PROVIDER:  # vendors have RocksDB providers of their own
        return found is not None and "rocksdb" in found.lower()
    return found == needed
