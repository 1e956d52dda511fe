"""Cost of `spread` on Spark without skew, compared with repartition: narrow rows, n = 50.

Bars: d-choices <= 1.15 x the same pipeline with a function that does nothing; planned, routing alone <= 1.15 x
repartition, with counting <= 1.6 x, with counting a sample <= 1.3 x.

    ./dev bench spark_cost [ROWS]
"""

import tempfile
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from keyspread.spark import plan, session, spread

from common import numbers, show, side_by_side, verdict

WORKERS, KEYS, SAMPLE = 50, 1_000_000, 0.02


def do_nothing(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    for batch in batches:
        yield pa.array(batch.to_numpy() % WORKERS, pa.int32())


def idle(rows: DataFrame) -> DataFrame:
    worker = arrow_udf(do_nothing, "int").asNondeterministic()(F.abs(F.xxhash64("key")))
    return rows.withColumn("w", worker).repartitionById(WORKERS, "w").drop("w")


def run(make: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: make().write.format("noop").mode("overwrite").save()


def main() -> None:
    (count,) = numbers(rows=20_000_000)
    spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": WORKERS, "spark.driver.memory": "6g"})
    with tempfile.TemporaryDirectory() as folder:
        key = F.concat(F.lit("k"), F.pmod(F.xxhash64("id"), F.lit(KEYS)).cast("string"))
        spark.range(count).select("id", key.alias("key")).write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        made = plan(rows, "key", WORKERS)
        seconds = side_by_side(
            {
                "repartition": run(lambda: rows.repartition(WORKERS, "key")),
                "nothing": run(lambda: idle(rows)),
                "d-choices": run(lambda: spread(rows, "key", WORKERS, "d-choices")),
                "route": run(lambda: spread(rows, "key", WORKERS, plan=made)),
                "planned": run(lambda: spread(rows, "key", WORKERS)),
                "sampled": run(lambda: spread(rows, "key", WORKERS, sample=SAMPLE)),
            },
            repeat=3,
        )
    plain, nothing = seconds["repartition"], seconds["nothing"]
    table = [
        ("repartition(50, key)", "", "1.00", f"{plain:.1f} s", ""),
        ("a function that does nothing", "", f"{nothing / plain:.2f}", "", ""),
    ]
    for name, label, base, bar in (
        ("d-choices", "d-choices", nothing, 1.15),
        ("route", "planned, routing alone", plain, 1.15),
        ("planned", "planned, counting and routing", plain, 1.6),
        ("sampled", f"planned, counting a sample of {SAMPLE:.0%}", plain, 1.3),
    ):
        ratio = seconds[name] / base
        against = "nothing" if base is nothing else "repartition"
        table.append(
            (label, f"{ratio:.2f} x {against}", f"{seconds[name] / plain:.2f}", "", f"<= {bar} {verdict(ratio <= bar)}")
        )
    show(f"{count:,} rows (id, key), no skew, n = {WORKERS}", ("", "ratio", "/ repartition", "", "bar"), table)


if __name__ == "__main__":
    main()
