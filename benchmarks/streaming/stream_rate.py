"""Running counts of a stream, n = 8, batches of 100,000 rows: operators by key and by column, and a user's own.

All queries run in one session and take turns, batch by batch, over the same rows of a Zipf stream (1.1, 10^6 keys). A
first batch with every key fills the state. The user's operator is `transformWithState` keyed by the key, in Python,
written as in Spark's guide. Its state gets only a hundredth of the keys, because more would take minutes; that is in
its favour. Bar: the operator by key at least 10 x the user's rate.

The second table has the same queries with 10^4, 10^5 and 10^6 keys in the state, and batches with the same number of
distinct keys, scattered over the state. In all queries, Python workers, and the helper process that Spark starts in
every batch of a stateful query in Python, are forked from processes that have imported what they need.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from keyspread import ColumnOperator, Operator
from keyspread.spark import aggregate, session, stream_settings
from keyspread.streams import ZipfStream

from common import console, numbers, show, verdict
from faults.fork_server import ForkServer

WORKERS, ROWS, SCATTERED = 8, 100_000, 10_000
# Queries that wait for their turn look for files less often; Python workers that have ended meanwhile start quickly.
QUIET = {"spark.sql.streaming.pollingDelay": "300ms", "spark.python.daemon.module": "keyspread.spark._launch.daemon"}
Make = Callable[[DataFrame], DataFrame]


class UserCount(StatefulProcessor):
    """A count per key, written as in Spark's guide."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        known = self._count.get()
        total = (known[0] if known else 0) + sum(1 for _ in rows)
        self._count.update((total,))
        yield Row(key=key[0], n=total)

    def close(self) -> None:
        pass


class KeyCount(Operator[dict[str, int]]):
    """The same count as an operator by key, with a typed state."""

    state = schema = "n bigint"
    batches = "arrow"

    def zero(self) -> dict[str, int]:
        return {"n": 0}

    def update(self, state: dict[str, int], rows: Any) -> dict[str, int]:
        return {"n": state["n"] + int(rows.num_rows)}

    def merge(self, state: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        return {"n": state["n"] + other["n"]}

    def finish(self, state: dict[str, int]) -> dict[str, Any]:
        return state


class ColumnCount(ColumnOperator):
    """The same count as an operator by column."""

    state = schema = "n bigint"

    def partial(self, rows: Any, key: list[str]) -> Any:
        return rows.group_by(key).aggregate([([], "count_all")]).rename_columns([*key, "n"])

    def merge(self, states: Any, key: list[str]) -> Any:
        return states.group_by(key).aggregate([("n", "sum")]).rename_columns([*key, "n"])


def by_key(stream: DataFrame) -> DataFrame:
    return aggregate(stream, "key", KeyCount(), WORKERS)


def by_column(stream: DataFrame) -> DataFrame:
    return aggregate(stream, "key", ColumnCount(), WORKERS)


def by_user(stream: DataFrame) -> DataFrame:
    return stream.groupBy("key").transformWithState(UserCount(), "key bigint, n bigint", "Update", "None")


def by_spark(stream: DataFrame) -> DataFrame:
    return stream.groupBy("key").count()


class Counting:
    """A running query; `seconds` puts a batch in and returns its time."""

    def __init__(self, spark: SparkSession, folder: Path, make: Make, keys: int) -> None:
        self.folder, self.batches = folder, 0
        (folder / "in").mkdir(parents=True)
        self._put(np.arange(keys))
        stream = spark.readStream.schema("key bigint").parquet(str(folder / "in" / "*"))
        writer = make(stream).writeStream.format("noop").outputMode("update")
        self.query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        self._wait()

    def seconds(self, keys: Any) -> float:
        self._put(keys)
        return self._wait()

    def _put(self, keys: Any) -> None:
        """Write two files in a folder that appears at once, so that they are one batch."""
        unfinished = self.folder / f"batch-{self.batches}"
        unfinished.mkdir()
        for half, part in enumerate(np.array_split(keys, 2)):
            pq.write_table(pa.table({"key": pa.array(part.astype(np.int64))}), unfinished / f"{half}.parquet")
        unfinished.rename(self.folder / "in" / f"{self.batches:05d}")
        self.batches += 1

    def _wait(self) -> float:
        while self.query.exception() is None:
            for one in self.query.recentProgress:
                if one.batchId == self.batches - 1 and one.numInputRows:
                    return float(one.batchDuration) / 1000
            time.sleep(0.05)
        raise self.query.exception()  # type: ignore[misc]


def medians(queries: dict[Any, Counting], batches: list[Any]) -> dict[Any, float]:
    """Return the median time of each query; they take turns, and the first batch only warms up."""
    seconds: dict[Any, list[float]] = {name: [] for name in queries}
    for batch in batches:
        for name, query in queries.items():
            seconds[name].append(query.seconds(batch[name[1]] if isinstance(name, tuple) else batch))
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def rates(spark: SparkSession, folder: Path, keys: int, rounds: int) -> None:
    kinds = {
        "a user's transformWithState": (by_user, keys // 100),
        "keyspread, an Operator": (by_key, keys),
        "keyspread, a ColumnOperator": (by_column, keys),
        "Spark's groupBy(key).count()": (by_spark, keys),
    }
    queries = {
        name: Counting(spark, folder / str(number), make, filled)
        for number, (name, (make, filled)) in enumerate(kinds.items())
    }
    drawn = np.asarray(ZipfStream(1.1, keys, ROWS * (rounds + 1)).law().draw(0, ROWS * (rounds + 1)))
    found = medians(queries, np.split(drawn, rounds + 1))
    for query in queries.values():
        query.query.stop()
    user = found["a user's transformWithState"]
    distinct = statistics.mean(len(np.unique(batch)) for batch in np.split(drawn, rounds + 1))
    table = [
        [
            name,
            f"{one:.2f}",
            f"{ROWS / one:,.0f}",
            f"{user / one:.1f}",
            verdict(user >= 10 * one) if "key" in name else "",
        ]
        for name, one in found.items()
    ]
    title = f"{keys:,} keys in the state, batches of {ROWS:,} rows with {distinct:,.0f} keys, n = {WORKERS}"
    show(title, ["", "s per batch", "rows / s", "/ the user's", "verdict"], table[:1] + table[1:])


def growth(spark: SparkSession, folder: Path, keys: int, rounds: int) -> None:
    sizes = [keys // 100, keys // 10, keys]
    queries = {
        (name, size): Counting(spark, folder / f"{name}-{size}", make, size)
        for name, make in (("Operator", by_key), ("ColumnOperator", by_column))
        for size in sizes
    }
    ranks = np.asarray(ZipfStream(1.1, SCATTERED, ROWS * (rounds + 1)).law().draw(0, ROWS * (rounds + 1)))
    batches = [
        {size: part * max(size // SCATTERED, 1) % size for size in sizes} for part in np.split(ranks, rounds + 1)
    ]
    found = medians(queries, batches)
    for query in queries.values():
        query.query.stop()
    table = [
        [name, *(f"{found[name, size]:.2f}" for size in sizes), f"{found[name, sizes[-1]] / found[name, sizes[0]]:.2f}"]
        for name in ("Operator", "ColumnOperator")
    ]
    columns = ["keys in the state", *(f"{size:,}" for size in sizes), "largest / smallest"]
    show(f"s per batch, the same {SCATTERED:,} keys scattered over the state", columns, table)


def main() -> None:
    keys, rounds = numbers(keys=1_000_000, rounds=5)
    folder = Path(tempfile.mkdtemp())
    with ForkServer(folder / "helpers.log") as server:
        os.environ["PYSPARK_PYTHON"] = str(server.python)
        spark = session(master="local[2]", **stream_settings(WORKERS), **QUIET)
        try:
            rates(spark, folder / "rates", keys, rounds)
            growth(spark, folder / "growth", keys, rounds)
            console.print("Spark's own count is faster, because it folds rows before they move. See docs/streaming.md.")
        finally:
            spark.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
