"""Lose shuffle blocks between the workers of one spread; compatibility/test_killed_executor.py starts this script.

python lose_shuffle_blocks.py prints one JSON object per scenario: the ids that the workers read, and the orders in
which each input partition was read. Spark's checksums are off, as they are before Spark 4.2. (With them Spark would
re-run workers 0 and 1 too, which it cannot do here, because they ran in a job of their own. See lose_executors.py.)

The rows come from a shuffle, so their order within a partition depends on which blocks arrive first. Workers 0 and 1
of every scenario read their rows, then an executor is killed, with its blocks of both shuffles, then workers 2 and 3
read theirs. Spark routes the lost input partitions again. A row whose worker changes is lost or doubled.
"""

import json
import sys
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path

from pyspark import cloudpickle

from frames import HOT
from keyspread.spark import session, spread
from keyspread.spark.launch.cluster import Cluster

WORKERS, ROWS, PARTITIONS = 4, 20_000, 4
BLOCKS = 16  # of each partition; with few of them, all may be on one executor, and nothing is read in another order
CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum."
UNPROTECTED = {CHECKSUMS + "enabled": "false", CHECKSUMS + "enableFullRetryOnMismatch": "false"}
SCENARIOS = {
    "planned": {},
    "planned, weights": {"weight": "value"},
    "planned, sample": {"sample": 0.2},
    "planned, long tables": {"buckets": 64_000},
    "planned, no hot key": {"threshold": 0.9},
    "look-ahead": {"scheme": "look-ahead"},
    "look-ahead, weights": {"scheme": "look-ahead", "weight": "value"},
    "d-choices": {"scheme": "d-choices"},
    "d-choices, weights": {"scheme": "d-choices", "weight": "value"},
    "d-choices, half_life": {"scheme": "d-choices", "half_life": 500},
    "w-choices": {"scheme": "w-choices"},
    "per-key": {"scheme": "per-key"},
    "partial-key": {"scheme": "partial-key"},
    "round-robin": {"scheme": "round-robin"},
    "greedy": {"scheme": "greedy", "choices": 3},
    "shuffle": {"scheme": "shuffle"},
    "key": {"scheme": "key"},
}
cloudpickle.register_pickle_by_value(sys.modules["frames"])


def record_order(folder: Path):  # type: ignore[no-untyped-def]
    """Make a step that leaves a file each time a partition is read, with a checksum of the order of its rows."""

    def pass_on(batches):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        task, order = TaskContext.get(), 0
        for batch in batches:
            order = zlib.crc32(batch.column(0).to_numpy().tobytes(), order)
            yield batch
        (folder / f"{task.partitionId()}-{order}-{task.taskAttemptId()}").touch()

    return pass_on


def main() -> None:
    """Run all scenarios on one cluster, with one kill."""
    with tempfile.TemporaryDirectory() as name, Cluster(workers=2, memory="1g", patience=180) as cluster:
        spark = session(
            master=cluster.url,
            **{
                **cluster.settings,
                "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": WORKERS,
                "spark.python.daemon.module": "keyspread.spark.launch.daemon",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors from the start
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                "spark.shuffle.io.retryWait": "100ms",  # do not wait long for a killed executor
                **UNPROTECTED,
            },
        )
        rows = spark.range(0, ROWS, 1, BLOCKS).selectExpr("id", f"{HOT} AS key", "id % 100 AS value")
        runs = {}
        for number, (scenario, options) in enumerate(SCENARIOS.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            shuffled = rows.repartition(PARTITIONS, "id")
            read = shuffled.mapInArrow(record_order(folder), rows.schema)
            runs[scenario] = spread(read, "key", WORKERS, **options).select("id").rdd.map(lambda row: row.id)
        found = {scenario: spark.sparkContext.runJob(run, list, [0, 1]) for scenario, run in runs.items()}
        cluster.kill_executor()
        for scenario, run in runs.items():
            found[scenario] += spark.sparkContext.runJob(run, list, [2, 3])
        for number, scenario in enumerate(SCENARIOS):
            orders = defaultdict(list)
            for file in (Path(name) / str(number)).iterdir():
                partition, order, _ = file.name.split("-")
                orders[partition].append(int(order))
            print(json.dumps({"scenario": scenario, "ids": found[scenario], "orders": orders}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
