"""Processor time of a batch of running counts in Python, without Spark: states, merge into the stored ones, result.

It drives the code that runs on the executors, for 8 workers one after the other: batches of 100,000 rows, with about
10,000 distinct keys that are scattered over the state. Tables: the time by number of keys in the state, for both kinds
of operators; and by size of the chunks, with 10^6 keys. It measures processor time, because other processes do not
change it much.
"""

import statistics
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from stream_rate import ROWS, SCATTERED, WORKERS, ColumnCount, KeyCount

from keyspread import ColumnOperator, Operator, hash_keys
from keyspread.folding.column_states import ColumnStates
from keyspread.folding.operator_states import OperatorStates
from keyspread.folding.states import KeyedStates
from keyspread.spark._routing.exchange import tags_of
from keyspread.spark._streaming import chunks as window_entries
from keyspread.spark._streaming.blobs import to_blob
from keyspread.spark._streaming.state import StateRules, packer, processor, unpacker
from keyspread.streams import ZipfStream

from common import numbers, show

FIELDS = pa.schema([("n", pa.int64())])
IDENTITY = {"kind": "benchmark"}
TAGS = tags_of(WORKERS)


class Pandas(KeyCount):
    """The operator by key, from pandas batches."""

    batches = "pandas"

    def update(self, state: dict[str, int], rows: Any) -> dict[str, int]:
        return {"n": state["n"] + len(rows)}


class Store(dict[Any, Any]):
    """The map state of a partition in memory; counts what is written."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0

    def getMapState(self, *names: str) -> "Store":  # noqa: N802
        return self

    def registerTimer(self, at: int) -> None:  # noqa: N802
        pass

    def getValue(self, key: Any) -> Any:  # noqa: N802
        self.calls += 1
        return self.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.calls += 1
        self.bytes += len(value[0])
        self[key] = value


class Batches:
    """A query of running counts without Spark; `run` returns the processor time of the three stages of a batch."""

    def __init__(self, operator: Operator[Any] | ColumnOperator, keys: int) -> None:
        self.states: KeyedStates = (
            ColumnStates(operator, ["key"], ["key"], FIELDS, FIELDS)
            if isinstance(operator, ColumnOperator)
            else OperatorStates(operator, 1, ["key"], FIELDS, FIELDS)
        )
        rules = StateRules(self.states.fold, IDENTITY, WORKERS, mode="update")
        self.pack, self.finish = packer(rules, self.states.make), unpacker(self.states.finish)
        self.processor, self.stores = processor(rules), [Store() for _ in range(WORKERS)]
        every = np.arange(keys)
        hashes = hash_keys(every)
        owners = hashes.view(np.uint64) % np.uint64(WORKERS)
        for worker in range(WORKERS):
            own = owners == worker
            columns = [hashes[own], every[own], np.ones(own.sum(), np.int64)]
            list(self._merge(worker, [Row(blob=to_blob(pa.table(columns, names=["_0", "_1", "_2"])))]))

    def run(self, keys: Any) -> list[float]:
        for store in self.stores:
            store.calls = store.bytes = 0
        hashes, clock = hash_keys(keys), [time.process_time()]
        arrived: dict[int, list[Row]] = {tag: [] for tag in TAGS}
        for worker in range(WORKERS):
            parts = [
                np.split(one, range(10_000, one.size, 10_000))
                for one in (hashes[worker::WORKERS], keys[worker::WORKERS])
            ]
            rows = (
                pa.RecordBatch.from_arrays([h, k, k], names=["_0", "_1", "_2"])
                for h, k in zip(*map(self._arrays, parts), strict=True)
            )
            with mock.patch.object(TaskContext, "get", return_value=SimpleNamespace(partitionId=lambda at=worker: at)):
                packed = list(self.pack(rows))
            for blobs in packed:
                for row in blobs.to_pylist():
                    arrived[row["tag"]].append(Row(**row))
        clock.append(time.process_time())
        emitted = [row.blob for worker, tag in enumerate(TAGS) for row in self._merge(worker, arrived[tag])]
        clock.append(time.process_time())
        for _ in self.finish([pa.RecordBatch.from_pydict({"blob": pa.array(emitted, pa.binary())})]):
            pass
        clock.append(time.process_time())
        return [1000 * one for one in np.diff(clock).tolist()]

    def _arrays(self, parts: Any) -> list[pa.Array]:
        return [pa.array(part) for part in parts]

    def _merge(self, worker: int, rows: list[Row]) -> Iterator[Row]:
        self.processor.init(self.stores[worker])  # type: ignore[arg-type]
        task = SimpleNamespace(partitionId=lambda: worker)
        with mock.patch.object(TaskContext, "get", return_value=task):
            yield from self.processor.handleInputRows((TAGS[worker],), iter(rows), None)  # type: ignore[arg-type]


def measured(operators: list[Any], keys: int, rounds: int) -> list[list[float]]:
    """Return the medians of the stages, calls of the state store and MB written, of each; they take turns."""
    queries = [Batches(operator, keys) for operator in operators]
    times: list[list[list[float]]] = [[] for _ in queries]
    ranks = np.asarray(ZipfStream(1.1, SCATTERED, ROWS * (rounds + 1)).law().draw(0, ROWS * (rounds + 1)))
    for part in np.split(ranks, rounds + 1):
        for query, found in zip(queries, times, strict=True):
            stages = query.run((part * max(keys // SCATTERED, 1) % keys).astype(np.int64))
            found.append(
                [*stages, sum(one.calls for one in query.stores), sum(one.bytes for one in query.stores) / 1e6]
            )
    return [[statistics.median(column) for column in zip(*found[1:], strict=True)] for found in times]


def main() -> None:
    keys, rounds = numbers(keys=1_000_000, rounds=5)
    kinds = {"Operator, arrow": KeyCount(), "Operator, pandas": Pandas(), "ColumnOperator": ColumnCount()}
    stages = ["states", "merge", "result", "all, ms", "calls of the store", "MB written"]

    def row(found: list[float]) -> list[str]:
        return [*(f"{one:.0f}" for one in (*found[:3], sum(found[:3]), found[3])), f"{found[4]:.1f}"]

    table = [
        [name, f"{size:,}", *row(one)]
        for size in (keys // 100, keys // 10, keys)
        for name, one in zip(kinds, measured(list(kinds.values()), size, rounds), strict=True)
    ]
    show(f"ms of processor time per batch of {ROWS:,} rows, n = {WORKERS}", ["", "keys in the state", *stages], table)
    table = []
    for size in (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 30):
        with mock.patch.object(window_entries, "CHUNK_BYTES", size):
            table.append([f"{size >> 10:,} kB", *row(measured([ColumnCount()], keys, rounds)[0])])
    show(f"the same by size of a chunk, {keys:,} keys, ColumnOperator", ["", *stages], table)


if __name__ == "__main__":
    main()
