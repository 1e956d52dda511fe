"""Jobs with a hot key: does the diagnosis name it, and does the suggested line save what it says?

Every job sleeps per row, on 8 slots, with 16 partitions and a key with 40 % of the rows. It runs plain within
`diagnosing`, and then with the line that the diagnosis suggests. Predicted is the time of the plain job minus the time
lost; realised is the time of the changed job, with all that the line costs. This cost (counting, planning, another
stage, Python workers) is measured too: both jobs without the sleep. It does not grow with the work per row, so short
jobs do not repay it. Bars: the key and the operator are named, and realised <= 1.25 x predicted + 1.5 s.

    ./dev bench diagnose_jobs [ROWS] [MILLISECONDS] [ROUNDS]
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from keyspread import Operator
from keyspread.diagnosis import Diagnosis
from keyspread.spark import aggregate, diagnosing, join, session, spread

from common import console, numbers, show, verdict

WORKERS, SLOTS = 16, 8


class Sleeping(Operator[int]):
    """Counts the rows of a key, some milliseconds each."""

    schema = "rows long"

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def zero(self) -> int:
        return 0

    def update(self, state: int, rows: pd.DataFrame) -> int:
        time.sleep(self.milliseconds / 1000 * len(rows))
        return state + len(rows)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> dict[str, Any]:
        return {"rows": state}


@dataclass
class Job:
    """A job, the operator that must be named, and the job with a suggested line; both take milliseconds per row."""

    name: str
    operator: str
    plain: Callable[[int], object]
    line: str
    changed: Callable[[int], object]


def main() -> None:
    rows, milliseconds, rounds = numbers(rows=6000, milliseconds=8, rounds=1)
    with tempfile.TemporaryDirectory() as folder:
        spark = session(
            master=f"local[{SLOTS}]",
            **{
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": Path(folder).as_uri(),
                "spark.sql.shuffle.partitions": WORKERS,
                "spark.sql.adaptive.coalescePartitions.enabled": "false",
                "spark.sql.autoBroadcastJoinThreshold": "-1",
                "spark.python.daemon.module": "keyspread.spark._launch.daemon",
            },
        )
        console.print(f"Spark {spark.version}, {rows:,} rows of {milliseconds} ms, {SLOTS} slots, {WORKERS} partitions")
        table = [measure(spark, job, milliseconds, rounds) for job in jobs(spark, rows, Path(folder))]
        spark.stop()
    columns = ("job", "key named", "plain", "lost", "predicted", "realised", "ratio", "cost", "line", "verdict")
    show("Predicted and realised", columns, table)


def jobs(spark: SparkSession, rows: int, folder: Path) -> list[Job]:
    source = str(folder / "orders")
    made = spark.range(0, rows, 1, SLOTS).selectExpr(
        "CASE WHEN abs(hash(id, 3)) % 10 < 4 THEN 7 ELSE abs(hash(id, 9)) % 400 END AS customer", "id AS amount"
    )
    made.write.parquet(source)
    orders = spark.read.parquet(source)
    customers = spark.range(0, 400, 1, 4).selectExpr("id AS customer", "id * 3 AS region").localCheckpoint()

    def slow(df: DataFrame, ms: int) -> DataFrame:
        return df.selectExpr("*", f"java_method('java.lang.Thread', 'sleep', {ms}L) AS z")

    def count(df: DataFrame) -> None:
        # Every column is used: Spark would leave out a window that nobody looks at.
        df.agg(F.count("z"), *(F.sum(name) for name in df.columns if name != "z")).collect()

    def grouped(df: DataFrame, ms: int) -> None:
        def work(group: pd.DataFrame) -> pd.DataFrame:
            time.sleep(ms / 1000 * len(group))
            return pd.DataFrame({"customer": group["customer"][:1], "rows": [len(group)]})

        df.groupBy("customer").applyInPandas(work, "customer long, rows long").collect()

    def operator(ms: int) -> None:
        aggregate(orders, "customer", Sleeping(ms), workers=WORKERS).collect()

    def stream(change: Callable[[DataFrame], DataFrame], ms: int) -> None:
        checkpoint = tempfile.mkdtemp(dir=folder)
        read = spark.readStream.schema(orders.schema).parquet(source)
        query = slow(change(read), ms).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()

    def write(df: DataFrame, ms: int) -> None:
        slow(df, ms).write.mode("overwrite").parquet(str(folder / "out"))
        shutil.rmtree(folder / "out")

    ranked = orders.withColumn("rank", F.row_number().over(Window.partitionBy("customer").orderBy("amount")))
    collected = orders.groupBy("customer").agg(F.collect_list("amount").alias("list"))

    def sized(ms: int) -> str:
        return f"java_method('java.lang.Thread', 'sleep', cast({ms} * size(list) AS bigint)) AS z"

    # Python workers start and import here, not in a job that is measured.
    few = orders.limit(64)
    grouped(few, 0)
    aggregate(few, "customer", Sleeping(0), workers=WORKERS).collect()
    spread(few, "customer", WORKERS).count()
    few.repartition(SLOTS).write.parquet(str(folder / "few"))
    warm = spark.readStream.schema(orders.schema).parquet(str(folder / "few"))
    query = spread(warm, "customer", WORKERS).writeStream.format("noop").option("checkpointLocation", f"{folder}/warm")
    query.trigger(availableNow=True).start().awaitTermination()

    def joined(ms: int) -> None:
        count(slow(orders.join(customers, "customer"), ms))

    return [
        Job(
            "join",
            "sort-merge join",
            joined,
            "broadcast",
            lambda ms: count(slow(orders.join(F.broadcast(customers), "customer"), ms)),
        ),
        Job("join", "sort-merge join", joined, "join", lambda ms: count(slow(join(orders, customers, "customer"), ms))),
        Job(
            "window",
            "window",
            lambda ms: count(slow(ranked, ms)),
            "spread",
            lambda ms: count(slow(spread(ranked, "customer", WORKERS), ms)),
        ),
        Job("applyInPandas", "applyInPandas", lambda ms: grouped(orders, ms), "aggregate", operator),
        Job(
            "collect_list",
            "aggregate (collect_list)",
            lambda ms: collected.selectExpr("list", sized(ms)).agg(F.count("z")).collect(),
            "aggregate",
            operator,
        ),
        Job(
            "stream",
            "repartition in a stream",
            lambda ms: stream(lambda df: df.repartition(WORKERS, "customer"), ms),
            "spread",
            lambda ms: stream(lambda df: spread(df, "customer", WORKERS), ms),
        ),
        Job(
            "write",
            "repartition before a write",
            lambda ms: write(orders.repartition(WORKERS, "customer"), ms),
            "spread",
            lambda ms: write(spread(orders, "customer", WORKERS), ms),
        ),
    ]


def timed(run: Callable[[int], object], milliseconds: int) -> float:
    begin = time.perf_counter()
    run(milliseconds)
    return time.perf_counter() - begin


def measure(spark: SparkSession, job: Job, milliseconds: int, rounds: int) -> tuple[object, ...]:
    plain, changed, lost, cost = [], [], [], []
    diagnosis: Diagnosis | None = None
    named = False
    for _ in range(rounds):
        with diagnosing(spark, show=False) as seen:
            plain.append(timed(job.plain, milliseconds))
        diagnosis = seen.diagnosis
        hot = [finding for finding in diagnosis.skew if finding.columns == ("customer",)] if diagnosis else []
        named = bool(hot) and hot[0].operator == job.operator
        lost.append(sum(finding.lost for finding in hot))
        changed.append(timed(job.changed, milliseconds))
        cost.append(timed(job.changed, 0) - timed(job.plain, 0))
    predicted = median(before - part for before, part in zip(plain, lost, strict=True))
    realised = median(changed)
    reached = named and realised <= 1.25 * predicted + 1.5
    seconds = (f"{value:.1f} s" for value in (median(plain), median(lost), predicted, realised))
    ratio, extra = f"{realised / predicted:.2f}", f"{median(cost):.1f} s"
    return (job.name, "yes" if named else "no", *seconds, ratio, extra, job.line, verdict(reached))


if __name__ == "__main__":
    main()
