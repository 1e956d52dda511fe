"""Files and writers of a partitioned write, by their sizes on disk: `for_write` beside what Spark offers.

Rows of 100 bytes in days by Zipf 1.2, target 1 MB. Bars for `for_write`: at most 1.1 × the fewest files that the target
allows, and a busiest writer of at most 1.2 × the mean. Argument: rows.
"""

import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame

from keyspread.spark import for_write, session
from keyspread.spark.for_write import fewest_files

from common import numbers, show, verdict

TARGET, FILE_COST, DAYS, SKEW = 1 << 20, 16 << 10, 60, 1.2


def written(df: DataFrame, folder: str) -> tuple[Counter, Counter, int]:
    """Write the rows; return the bytes per writer and per day, and the number of files."""
    df.write.partitionBy("day").option("compression", "none").mode("overwrite").parquet(folder)
    return sizes(folder)


def sizes(folder: str) -> tuple[Counter, Counter, int]:
    writers: Counter = Counter()
    days: Counter = Counter()
    files = [*Path(folder).rglob("*.parquet")]
    for file in files:
        task = re.match(r"part-(\d+)-([0-9a-f-]{36})", file.name)
        writers[task.groups()] += file.stat().st_size  # type: ignore[union-attr]
        days[file.parent.name] += file.stat().st_size
    return writers, days, len(files)


def main() -> None:
    (rows,) = numbers(rows=300_000)
    settings = {"spark.sql.adaptive.advisoryPartitionSizeInBytes": TARGET, "spark.driver.memory": "3g"}
    spark = session(master="local[2]", **settings, **{"spark.sql.shuffle.partitions": 40})
    weights = np.arange(1, DAYS + 1) ** -SKEW
    shares = (np.cumsum(weights) / weights.sum()).tolist()
    law = " ".join(f"WHEN u < {share!r}D THEN {day}" for day, share in enumerate(shares[:-1], start=1))
    text = f"concat({', '.join(f'hex(xxhash64(id, {part}))' for part in range(6))})"
    made = spark.range(0, rows, 1, 8).selectExpr("*", "pmod(xxhash64(id), 1000000) / 1e6D AS u")
    made = made.selectExpr(f"CASE {law} ELSE {DAYS} END AS day", f"{text} AS text")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        made.write.parquet(f"{folder}/in")
        df = spark.read.parquet(f"{folder}/in")
        n = max(1, rows * 100 // TARGET)
        ways = {
            "for_write": lambda rows: for_write(rows, "day", TARGET, file_cost=FILE_COST),
            "repartition(col)": lambda rows: rows.repartition("day"),
            f"repartition({n}, col)": lambda rows: rows.repartition(n, "day"),
            f"repartition({n})": lambda rows: rows.repartition(n),
            "REBALANCE(col)": lambda rows: rows.hint("rebalance", "day"),
        }
        for name, way in ways.items():
            found = written(way(df), f"{folder}/out")
            table.append(row_of(f"batch: {name}", *found, is_ours=name == "for_write"))
        stream = spark.readStream.schema(df.schema).parquet(f"{folder}/in")
        for number, (name, way) in enumerate(ways.items()):
            out = f"{folder}/stream-{number}"

            def write(batch: DataFrame, batch_number: int) -> None:
                way(batch).write.partitionBy("day").option("compression", "none").mode("append").parquet(out)

            query = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"{out}-checkpoint")
            query.trigger(availableNow=True).start().awaitTermination()
            table.append(row_of(f"stream: {name}", *sizes(out), is_ours=name == "for_write"))
    columns = ("write", "files", "÷ fewest", "writers", "busiest ÷ mean", "mean file ÷ target", "verdict")
    show(f"{rows:,} rows in {DAYS} days, target 1 MB", columns, table)


def row_of(name: str, writers: Counter, days: Counter, files: int, is_ours: bool) -> tuple[object, ...]:
    few = files / fewest_files([*days.values()], TARGET)
    busiest = max(writers.values()) * len(writers) / sum(writers.values())
    judged = verdict(few <= 1.1 and busiest <= 1.2) if is_ours else ""
    mean = sum(days.values()) / files / TARGET
    return (name, files, f"{few:.2f}", len(writers), f"{busiest:.2f}", f"{mean:.2f}", judged)


if __name__ == "__main__":
    main()
