"""Steady rate of running counts of a stream, 10^6 keys, n = 8: an operator, Spark's own count, a user's operator.

All of them run in one session, one after the other, over the same files: a first batch with every key once fills the
state, then batches of a Zipf stream are timed. The user's operator is `transformWithState` keyed by the key, in Python.
Its state gets only a tenth of the keys, because more would take minutes; that is in its favour. Bar: keyspread at least
5 x the user's rate.
"""

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from keyspread.operators import Operator
from keyspread.spark import aggregate, session, stream_settings
from keyspread.streams import ZipfStream

from common import console, show, verdict

WORKERS, KEYS, ROWS, BATCHES = 8, 1_000_000, 400_000, 2


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


class OwnCount(Operator[dict[str, int]]):
    """The same count as an operator of keyspread, with a typed state."""

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


def put(folder: Path, keys: int) -> None:
    """Write the first batch, with all keys, and the batches that are timed."""
    folder.mkdir()
    drawn = ZipfStream(1.1, KEYS, ROWS * BATCHES).law().draw(0, ROWS * BATCHES)
    batches = [np.arange(keys), *np.split(np.asarray(drawn), BATCHES)]
    for number, batch in enumerate(batches):
        for half, part in enumerate(np.array_split(batch, 2)):
            path = folder / f"{number:03d}-{half}.parquet"
            pq.write_table(pa.table({"key": pa.array(part.astype(np.int64))}), path)
            os.utime(path, (1e9 + number, 1e9 + number))


def rate(spark: SparkSession, folder: Path, make: Any) -> float:
    """Return rows per second, the median of the timed batches."""
    stream = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", 2).parquet(str(folder))
    checkpoint = tempfile.mkdtemp()
    query = make(stream).writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    assert running.exception() is None
    seconds = [one.batchDuration / 1000 for one in running.recentProgress if one.batchId > 0 and one.numInputRows]
    assert len(seconds) == BATCHES
    shutil.rmtree(checkpoint, ignore_errors=True)
    return ROWS / statistics.median(seconds[1:])


def main() -> None:
    spark = session(master="local[2]", **stream_settings(WORKERS))
    folder = Path(tempfile.mkdtemp())
    put(folder / "all", KEYS)
    put(folder / "tenth", KEYS // 10)

    def counted(stream: DataFrame) -> DataFrame:
        return stream.groupBy("key").count()

    def by_user(stream: DataFrame) -> DataFrame:
        return stream.groupBy("key").transformWithState(UserCount(), "key bigint, n bigint", "Update", "None")

    rates = {
        "Spark's groupBy(key).count()": rate(spark, folder / "all", counted),
        "keyspread, an Operator": rate(spark, folder / "all", lambda s: aggregate(s, "key", OwnCount(), WORKERS)),
        "a user's transformWithState": rate(spark, folder / "tenth", by_user),
    }
    own, user = rates["Spark's groupBy(key).count()"], rates["a user's transformWithState"]
    show(
        f"rows per second in steady state: {KEYS:,} keys, batches of {ROWS:,} rows, n = {WORKERS}, 2 cores",
        ["", "rows / s", "/ Spark's own", "/ the user's", "verdict"],
        [
            [
                name,
                f"{one:,.0f}",
                f"{one / own:.2f}",
                f"{one / user:.1f}",
                verdict(one >= 5 * user) if name.startswith("keyspread") else "",
            ]
            for name, one in rates.items()
        ],
    )
    console.print("Spark's own count is faster, because it folds rows before they move. See docs/streaming.md.")
    shutil.rmtree(folder, ignore_errors=True)
    spark.stop()


if __name__ == "__main__":
    main()
