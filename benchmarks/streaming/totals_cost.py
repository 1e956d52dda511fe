"""What `Totals` costs per small batch: seconds and Spark jobs, beside a plain sink in the same run.

The plain sink writes `groupBy(key).agg(…)` of each batch into its own folder, and merges nothing. Batches alternate
between both. Merges are part of the mean; the number of files shows that the folder of `Totals` stays small.
"""

import shutil
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F

from keyspread.operators import Count
from keyspread.spark import Totals, session

from common import numbers, show

WORKERS, ROWS = 2, 2_000


def main() -> None:
    """Add batches to both, and print the mean of each."""
    (batches,) = numbers(batches=45)
    spark = session(**{"spark.sql.shuffle.partitions": WORKERS})
    context = spark.sparkContext
    context.setLocalProperty("sql.streaming.queryId", "benchmark")  # as in foreachBatch, where no fingerprint is needed
    folder = Path(tempfile.mkdtemp())
    totals = Totals(str(folder / "totals"), "k", Count("n"), WORKERS)
    rows = spark.range(ROWS).selectExpr("id * id % 211 AS k").persist()
    rows.count()

    def plain(batch: int) -> None:
        states = rows.groupBy("k").agg(F.count("*").alias("n"))
        states.write.mode("overwrite").parquet(str(folder / "plain" / f"batch={batch}"))

    sinks = {"plain sink": plain, "Totals": lambda batch: totals(rows, batch)}
    seconds, jobs = dict.fromkeys(sinks, 0.0), dict.fromkeys(sinks, 0)
    for batch in range(-2, batches):  # two to warm up
        for name, sink in sinks.items():
            context.setJobGroup(f"{name} {batch}", name)
            begun = time.perf_counter()
            if batch < 0:
                plain(batch)
            else:
                sink(batch)
                seconds[name] += time.perf_counter() - begun
                jobs[name] += len(context.statusTracker().getJobIdsForGroup(f"{name} {batch}"))
    folders = {"plain sink": folder / "plain", "Totals": folder / "totals"}
    files = {name: len(list(one.rglob("*.parquet"))) for name, one in folders.items()}
    show(
        f"{batches} batches of {ROWS} rows",
        ["sink", "time (plain = 1)", "jobs per batch", "Parquet files"],
        [
            [name, f"{seconds[name] / seconds['plain sink']:.2f}", f"{jobs[name] / batches:.2f}", files[name]]
            for name in sinks
        ],
    )
    assert sum(row.n for row in totals.read(spark).collect()) == ROWS * batches
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
