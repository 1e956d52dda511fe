"""Cost of an order that a retried task can repeat, behind a shuffle, compared with repartition; a quarter of one key.

With Spark's checksums rows are routed as they come. Without them they are routed in the order of a hash of the row:
`planned` sorts, the Python function of the other schemes gets the hash. "Cut by content" would route a row by its hash
alone, which is cheaper, but sends all identical rows to one worker. Last, the two exchanges side by side.

    ./dev bench retry_cost [ROWS]
"""

import tempfile
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.spark import plan, session, spread
from keyspread.spark._routing.exchange import move
from keyspread.spark._routing.repeatable import PROTECTION, fingerprint

from common import numbers, show, side_by_side

WORKERS, PARTITIONS = 50, 4


def run(make: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: make().write.format("noop").mode("overwrite").save()


def main() -> None:
    (count,) = numbers(rows=5_000_000)
    spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": WORKERS, "spark.driver.memory": "4g"})

    def checksums(on: bool, make: Callable[[], DataFrame]) -> Callable[[], None]:
        def timed() -> None:
            for name in PROTECTION:
                spark.conf.set(name, str(on).lower())
            run(make)()

        return timed

    for title, payload, rows_wanted in (("narrow", "", count), ("1 kB", "x" * 1000, max(count // 20, 1))):
        with tempfile.TemporaryDirectory() as folder:
            key = F.when(F.col("id") % 4 == 0, "hot").otherwise(F.concat(F.lit("k"), F.col("id").cast("string")))
            made = spark.range(rows_wanted).select("id", key.alias("key"), F.lit(payload).alias("payload"))
            (made if payload else made.drop("payload")).write.parquet(f"{folder}/rows")
            rows = spark.read.parquet(f"{folder}/rows").repartition(PARTITIONS, "id")
            planned = plan(rows, "key", WORKERS)
            numbered = rows.withColumn("w", F.pmod(F.xxhash64("key"), F.lit(WORKERS)).cast("int"))
            runs = {"repartition(50, key)": checksums(True, lambda: rows.repartition(WORKERS, "key"))}
            for label, on in (("as they come", True), ("in order", False)):
                runs[f"planned, {label}"] = checksums(on, lambda: spread(rows, "key", WORKERS, plan=planned))
                for scheme in ("look-ahead", "d-choices"):
                    runs[f"{scheme}, {label}"] = checksums(on, lambda one=scheme: spread(rows, "key", WORKERS, one))
            content = F.pmod(fingerprint(rows), F.lit(WORKERS)).cast("int")
            runs["cut by content"] = checksums(
                False, lambda: move(rows.withColumn("w", content), WORKERS, "w").drop("w")
            )
            runs["exchange by tag"] = checksums(True, lambda: move(numbered, WORKERS, "w").drop("w"))
            runs["exchange by repartitionById"] = checksums(
                True, lambda: numbered.repartitionById(WORKERS, F.col("w")).drop("w")
            )
            seconds = side_by_side(runs, repeat=3)
        plain = seconds["repartition(50, key)"]
        table = [(label, f"{taken / plain:.2f}") for label, taken in seconds.items()]
        show(f"{rows_wanted:,} rows ({title}) behind a shuffle, n = {WORKERS}", ("", "/ repartition"), table)


if __name__ == "__main__":
    main()
