"""Memory and state over 500 batches of a stationary stream: do they stay constant?

One query of running counts over a Zipf stream with a fixed set of keys. Every hundred batches we look at the memory of
this process and its children, the memory that Spark's state store reports, and the state on disk.

Spark keeps the last 100 versions of the state and a cache of 8 MB per state partition, so a small state grows until
both are full. Here they are 10 versions and 1 MB, so that both are full within the first hundred batches. RocksDB's log
of its files (the zips) grows by about 60 bytes per version until the query is restarted. Every stateful query of Spark
has that growth, so it is shown without a verdict.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keyspread.operators import Operator
from keyspread.spark import aggregate, session, stream_settings
from keyspread.spark._launch.cluster import running_processes
from keyspread.streams import ZipfStream

from common import show, verdict

SMALL = {
    "spark.sql.streaming.minBatchesToRetain": 10,
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": 1,
    "spark.python.daemon.module": "keyspread.spark._launch.daemon",
}
WORKERS, KEYS, ROWS, BATCHES, EVERY = 2, 2_000, 4_000, 500, 100


class OwnCount(Operator[dict[str, int]]):
    """A count per key, with a typed state."""

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


def memory() -> float:
    """Return the memory of this process and its descendants in MB; shared pages are divided among them."""
    running, found = running_processes(), [os.getpid()]
    for pid in found:
        found += [child for child, (parent, _) in running.items() if parent == pid]
    total = 0
    for pid in found:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
        except OSError:
            continue  # the process has ended meanwhile
    return total / 1024


def size(folder: Path, pattern: str = "*") -> float:
    total = 0
    for path in folder.rglob(pattern):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # the file was deleted meanwhile
    return total / 1e6


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "in").mkdir()
    law = ZipfStream(1.2, KEYS, ROWS * BATCHES).law()
    everything = np.arange(KEYS)  # in every batch, so that the state has all keys from the first one on
    for number in range(BATCHES):
        keys = np.concatenate([everything, law.draw(number * ROWS, (number + 1) * ROWS - KEYS)])
        path = folder / "in" / f"{number:04d}.parquet"
        pq.write_table(pa.table({"key": pa.array(keys.astype(np.int64))}), path)
        os.utime(path, (1e9 + number, 1e9 + number))
    spark = session(master="local[2]", **stream_settings(WORKERS), **SMALL)
    checkpoint = folder / "checkpoint"
    stream = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    totals = aggregate(stream, "key", OwnCount(), WORKERS)
    query = totals.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    running = query.trigger(availableNow=True).start()
    table: list[list[float]] = []
    while len(table) < BATCHES // EVERY:
        time.sleep(0.2)
        last = running.lastProgress
        if running.exception() is not None:
            raise running.exception()  # type: ignore[misc]
        if last is not None and (last.batchId + 1 >= EVERY * (len(table) + 1) or not running.isActive):
            state = last.stateOperators[0]
            table.append(
                [
                    last.batchId + 1,
                    memory(),
                    state.memoryUsedBytes / 1e6,
                    size(checkpoint / "state", "*.sst"),
                    size(checkpoint / "state", "*.zip"),
                ]
            )
    running.awaitTermination()
    first, end = table[0], table[-1]
    rows = [[f"{row[0]:.0f}", *(f"{one:.2f}" for one in row[1:])] for row in table]
    ratios = [b / a for a, b in zip(first[1:], end[1:], strict=True)]
    rows.append([f"{end[0]:.0f} / {first[0]:.0f}", *(f"{one:.2f} x" for one in ratios)])
    columns = ["batch", "memory MB", "state MB", "state on disk MB", "RocksDB's log MB"]
    show(f"{BATCHES} batches of {ROWS:,} rows, {KEYS:,} keys, n = {WORKERS}", columns, rows)
    show(
        "constant: at most 1.2 x",
        ["", "verdict"],
        [[c, verdict(r <= 1.2)] for c, r in zip(columns[1:-1], ratios[:-1], strict=True)],
    )
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
