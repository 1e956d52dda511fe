"""Lose shuffle blocks between the workers of one spread; compatibility/test_killed_executor.py starts this script.

python lose_shuffle_blocks.py prints one JSON object per scenario: the ids that the workers read, and the orders in
which each input partition was read. Spark's checksums are off, as they are before Spark 4.2. (With them Spark would
re-run workers 0 and 1 too, which it cannot do here, because they ran in a job of their own. See lose_executors.py.)
Then the same with every operation behind aggregates that may be behind a shuffle: "rows" are those that the workers
returned, "expected" those of Spark without us.

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
from pyspark.sql import functions as F

from frames import HOT
from keyspread import Settings
from keyspread.operators import Operator
from keyspread.spark import aggregate, cogroup, for_write, join, plan, session, spread
from keyspread.spark._launch.cluster import Cluster
from keyspread.spark._routing import repeatable as row_order

WORKERS, ROWS, PARTITIONS = 4, 20_000, 4
BLOCKS = 16  # of each partition; with few of them, all may be on one executor, and nothing is read in another order
CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum."
UNPROTECTED = {CHECKSUMS + "enabled": "false", CHECKSUMS + "enableFullRetryOnMismatch": "false"}
SCENARIOS = {
    "planned": {},
    "planned, weights": {"weight": "value"},
    "planned, no hot key": {"threshold": 0.9},
    "look-ahead": {"scheme": "look-ahead"},
    "look-ahead, weights": {"scheme": "look-ahead", "weight": "value"},
    "d-choices": {"scheme": "d-choices"},
    "d-choices, weights": {"scheme": "d-choices", "weight": "value"},
    "d-choices, half_life": {"scheme": "d-choices", "sender": Settings(half_life=500)},
    "w-choices": {"scheme": "w-choices"},
    "per-key": {"scheme": "per-key"},
    "partial-key": {"scheme": "partial-key"},
    "round-robin": {"scheme": "round-robin"},
    "greedy": {"scheme": "greedy", "sender": Settings(choices=3)},
    "shuffle": {"scheme": "shuffle"},
    "key": {"scheme": "key"},
}
PLANS = {"a plan of a sample": {"sample": 0.2}, "a plan with long tables": {"buckets": 64_000}}
AGGREGATES = """count(1) AS n, sum(v) AS total, max(day) AS day, bit_xor(v) AS bits, bool_and(v > 3) AS large,
    sum(price) AS price, avg(price) AS mean, max(text) AS text, approx_count_distinct(f) AS values,
    sum(v) / count(1) AS ratio"""
OPERATIONS = ("planned", "d-choices", "for_write", "aggregate", "join", "cogroup")
cloudpickle.register_pickle_by_value(sys.modules["frames"])


class Rows(Operator):
    """Rows and sum of a key."""

    schema = state = "n bigint, total bigint"

    def zero(self):  # type: ignore[no-untyped-def]
        return {"n": 0, "total": 0}

    def update(self, state, rows):  # type: ignore[no-untyped-def]
        return {"n": state["n"] + len(rows), "total": state["total"] + int(rows["total"].sum())}

    def merge(self, state, other):  # type: ignore[no-untyped-def]
        return {name: state[name] + other[name] for name in state}

    def finish(self, state):  # type: ignore[no-untyped-def]
        return state


def with_prices(left, right):  # type: ignore[no-untyped-def]
    return left[["id", "key"]].assign(price=right["id"].sum())


def behind_aggregates(spark):  # type: ignore[no-untyped-def]
    """Return for every operation its result, and the same by Spark alone."""
    values = spark.range(0, 4 * ROWS, 1, BLOCKS).selectExpr(
        f"id % {ROWS} AS id", "id % 9 AS v", "double(id) / 7 AS f", "date_add(date'2020-01-01', int(id % 500)) AS day",
        "CAST(id AS DECIMAL(14, 2)) AS price", "string(id % 13) AS text",
    )  # fmt: skip
    grouped = values.repartition(PARTITIONS, "f").groupBy("id").agg(*map(F.expr, AGGREGATES.split(",")))
    rows = grouped.withColumn("key", F.expr(HOT))
    others = spark.range(8).selectExpr("id", "IF(id < 2, 'hot', string(id)) AS key").hint("merge")
    schema = "id bigint, key string, price bigint"
    totals = rows.groupBy("key").agg(F.expr("count(1) AS n"), F.expr("sum(total) AS total"))
    joined = rows.hint("merge").join(others.withColumnRenamed("id", "other"), "key")
    return {
        "planned": (spread(rows, "key", WORKERS), rows),
        "d-choices": (spread(rows, "key", WORKERS, "d-choices"), rows),
        "for_write": (for_write(rows, "key", target="100kB", writers=WORKERS), rows),
        "aggregate": (aggregate(rows, "key", Rows(), WORKERS, scheme="d-choices"), totals),
        "join": (join(rows.hint("merge"), others.withColumnRenamed("id", "other"), "key", workers=WORKERS), joined),
        "cogroup": (
            cogroup(rows, others, "key", with_prices, schema, per_left=True, workers=WORKERS),
            rows.groupBy("key").cogroup(others.groupBy("key")).applyInPandas(with_prices, schema),
        ),
    }


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
                "spark.python.daemon.module": "keyspread.spark._launch.daemon",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors from the start
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                "spark.sql.adaptive.coalescePartitions.enabled": "false",
                "spark.shuffle.io.retryWait": "100ms",  # do not wait long for a killed executor
                **UNPROTECTED,
            },
        )
        rows = spark.range(0, ROWS, 1, BLOCKS).selectExpr("id", f"{HOT} AS key", "id % 100 AS value")
        runs, rule = {}, row_order.unrepeatable
        row_order.unrepeatable = lambda df: None  # it does not let `record_order` pass, which is in Python
        plans = {name: {"plan": plan(rows, "key", WORKERS, **options)} for name, options in PLANS.items()}
        for number, (scenario, options) in enumerate({**SCENARIOS, **plans}.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            shuffled = rows.repartition(PARTITIONS, "id")
            read = shuffled.mapInArrow(record_order(folder), rows.schema)
            runs[scenario] = spread(read, "key", WORKERS, **options).select("id").rdd.map(lambda row: row.id)
        row_order.unrepeatable = rule
        expected = {}
        for operation, (result, same) in behind_aggregates(spark).items():
            expected[operation] = [repr(tuple(row)) for row in same.select(*result.columns).collect()]
            runs[operation] = result.rdd.map(lambda row: repr(tuple(row)))
            assert runs[operation].getNumPartitions() == WORKERS, operation
        found = {scenario: spark.sparkContext.runJob(run, list, [0, 1]) for scenario, run in runs.items()}
        cluster.kill_executor()
        for scenario, run in runs.items():
            found[scenario] += spark.sparkContext.runJob(run, list, [2, 3])
        for number, scenario in enumerate([*SCENARIOS, *PLANS]):
            orders = defaultdict(list)
            for file in (Path(name) / str(number)).iterdir():
                partition, order, _ = file.name.split("-")
                orders[partition].append(int(order))
            print(json.dumps({"scenario": scenario, "ids": found[scenario], "orders": orders}), flush=True)
        for operation, rows in expected.items():
            print(json.dumps({"operation": operation, "rows": found[operation], "expected": rows}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
