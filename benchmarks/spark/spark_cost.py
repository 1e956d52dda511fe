"""Cost of `spread` on Spark by the share of one hot key, compared with repartition(50, key): narrow and 1 kB rows.

Medians of interleaved rounds. Bars with a key of 25 %: planned <= 1.35 x repartition for narrow rows and <= 1.15 x for
1 kB, with a stored plan <= 1.1 x; at the sizes of `./dev bench spark_cost 6e6 3e5`. Salting and REBALANCE are what
people write by hand; they balance the rows, but a key is then on many workers. The CPU time of the JVM depends less on
other work of the machine than the time. "Busiest" is the busiest partition as a multiple of the even load.

    ./dev bench spark_cost [ROWS] [WIDE_ROWS] [ROUNDS] [SHARE]
"""

import tempfile
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.spark import plan, session, spread

from common import cpu_clock, in_rounds_by, numbers, ratio, show, verdict

WORKERS, KEYS, SALTS = 50, 1_000_000, 16
SHARES = (0, 5, 25, 60)
ALL = 100  # instead of one share
BARS = {("planned", "narrow"): 1.35, ("planned", "1 kB"): 1.15, ("stored", "narrow"): 1.1, ("stored", "1 kB"): 1.1}
LABELS = {
    "repartition": "repartition(50, key)",
    "salted": f"repartition(50, key, salt of {SALTS})",
    "rebalance": "REBALANCE hint",
    "planned": "spread, counting and routing",
    "stored": "spread, a stored plan",
    "d-choices": "spread, d-choices",
}


def run(make: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: make().write.format("noop").mode("overwrite").save()


def written(spark: SparkSession, share: int, rows: int, wide: bool, path: str) -> DataFrame:
    """Write rows of which a share has one key, in no order, and the rest one of a million keys."""
    tail = F.concat(F.lit("k"), F.pmod(F.xxhash64("id"), F.lit(KEYS)).cast("string"))
    key = F.when(F.pmod(F.xxhash64("id", F.lit(1)), F.lit(100)) < share, "hot").otherwise(tail)
    made = spark.range(rows).select("id", key.alias("key"))
    if wide:  # eight digests of 128 characters, which do not compress to nothing
        digests = (F.sha2(F.concat("id", F.lit(f"-{part}")), 512) for part in range(8))
        made = made.withColumn("payload", F.concat(*digests))
    made.write.parquet(path)
    return spark.read.parquet(path)


def busiest(moved: DataFrame) -> float:
    loads = [row["count"] for row in moved.groupBy(F.spark_partition_id()).count().collect()]
    return max(loads) * max(len(loads), 1) / sum(loads)


def main() -> None:
    narrow, wide, rounds, only = numbers(rows=1_000_000, wide_rows=100_000, rounds=3, share=ALL)
    spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": WORKERS, "spark.driver.memory": "6g"})
    of_jvm = cpu_clock(spark._jvm.java.lang.ProcessHandle.current().pid())
    for title, count in (("narrow", narrow), ("1 kB", wide)):
        table: list[tuple[object, ...]] = []
        for share in SHARES if only == ALL else (only,):
            with tempfile.TemporaryDirectory() as folder:
                rows = written(spark, share, count, title != "narrow", f"{folder}/rows")
                stored = plan(rows, "key", WORKERS)
                ways: dict[str, Callable[[], DataFrame]] = {
                    "repartition": lambda rows=rows: rows.repartition(WORKERS, "key"),
                    "salted": lambda rows=rows: (
                        rows.withColumn("salt", (F.rand() * SALTS).cast("int"))
                        .repartition(WORKERS, "key", "salt")
                        .drop("salt")
                    ),
                    "rebalance": lambda rows=rows: rows.hint("rebalance", "key"),
                    "planned": lambda rows=rows: spread(rows, "key", WORKERS),
                    "stored": lambda rows=rows, stored=stored: spread(rows, "key", WORKERS, plan=stored),
                    "d-choices": lambda rows=rows: spread(rows, "key", WORKERS, "d-choices"),
                }
                runs = {name: run(make) for name, make in ways.items()}
                seconds, cpu = in_rounds_by([time.perf_counter, of_jvm], runs, rounds)
                for name, make in ways.items():
                    found, bar = ratio(seconds, name, "repartition"), BARS.get((name, title)) if share == 25 else None
                    judged = "" if bar is None else f"<= {bar} {verdict(found <= bar)}"
                    of_cpu = "" if name == "d-choices" else f"{ratio(cpu, name, 'repartition'):.2f}"
                    even = f"{busiest(make()):.2f}"
                    table.append((f"{share} %", LABELS[name], f"{found:.2f}", of_cpu, even, judged))
        columns = ("share", "way", "/ repartition", "CPU of the JVM", "busiest", "bar")
        show(f"{count:,} rows ({title}), one key with a share, n = {WORKERS}; {rounds} rounds", columns, table)


if __name__ == "__main__":
    main()
