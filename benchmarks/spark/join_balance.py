"""Balance of joins: rows that come out of the busiest partition, as a multiple of the mean, and rows copied.

Three shapes, n = 16 and 200: a key that is hot on the left, one that is hot on both sides, and one that is hot by its
output only. Spark's own join runs with adaptive execution; its partitions are those of the last stage. Bar: 1.1 for
ours. Every result is checked by its number of rows and a sum of hashes.
"""

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.spark import join, plan_join, session

from common import show, verdict

SHAPES = {  # rows, and of the hot key, on either side
    "hot left": (600_000, 222_000, 60_000, 60),
    "hot both sides": (300_000, 4_000, 300_000, 4_000),
    "output skew": (20_000, 1_500, 20_000, 3_000),
}


def side(spark: SparkSession, rows: int, hot: int, name: str, folder: str) -> DataFrame:
    """Return rows in files: `hot` of them have key -1, spread evenly, the others have keys of their own."""
    made = spark.range(0, rows, 1, 8).selectExpr(
        f"IF(pmod(xxhash64(id), {rows}) < {hot}, -1, id % {rows * 4 // 5}) AS k", f"id AS {name}"
    )
    made.write.mode("overwrite").parquet(f"{folder}/{name}")
    return spark.read.parquet(f"{folder}/{name}")


def rows_of_partitions(df: DataFrame) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the rows of each partition, and what tells whether two results are the same."""
    seen = df.select(F.spark_partition_id().alias("p"), F.xxhash64(*df.columns).alias("h"))
    found = seen.groupBy("p").agg(F.count("*"), F.sum(F.expr("h >> 24"))).collect()
    return np.array([rows for _, rows, _ in found]), (sum(r for _, r, _ in found), sum(h for _, _, h in found))


def main() -> None:
    import tempfile

    spark = session(master="local[2]", **{"spark.driver.memory": "4g", "spark.sql.autoBroadcastJoinThreshold": -1})
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (lefts, hot_left, rights, hot_right)) in enumerate(SHAPES.items()):
            left = side(spark, lefts, hot_left, "v", f"{folder}/{number}")
            right = side(spark, rights, hot_right, "w", f"{folder}/{number}")
            for workers in (16, 200):
                spark.conf.set("spark.sql.shuffle.partitions", workers)
                plain, expected = rows_of_partitions(left.join(right, "k"))
                plan = plan_join(left, right, "k")
                ours, same = rows_of_partitions(join(left, right, "k", plan=plan))
                if same != expected:
                    raise SystemExit(f"{name}: our rows differ from Spark's own")
                busiest = [found.max() * workers / found.sum() for found in (plain, ours)]
                copied = f"{plan.copies:,} ({plan.copies / (lefts + rights):.1%})"
                even = f"{busiest[1]:.2f}", f"{plan.busiest:.2f}"
                table.append(
                    (name, workers, plain.size, f"{busiest[0]:.1f}", *even, copied, verdict(busiest[1] <= 1.1))
                )
    columns = ("shape", "n", "tasks", "Spark", "planned", "expected", "rows copied", "verdict")
    show("Output rows of the busiest partition ÷ mean over n", columns, table)


if __name__ == "__main__":
    main()
