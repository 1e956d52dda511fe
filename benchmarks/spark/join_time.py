"""Time of joins beside Spark's own join with adaptive execution, in interleaved rounds.

1. 16 slots and 1 ms of work per row behind the join, one hot key: what balance gives if work is expensive.
2. 2 cores, one hot key, rows only counted: balance can give 2 × at most.
3. 2 cores, nothing hot: what counting costs (bar 1.15 ×), and a stored plan (bar 1.0 ×, within noise: 1.05).

Arguments: rows of the sides where nothing is hot, rounds.
"""

import time

from pyspark.sql import DataFrame, SparkSession

from keyspread.spark import join, plan_join, session

from common import in_rounds, numbers, ratio, show, verdict

MILLISECONDS = 1.0


def wait(batches):  # type: ignore[no-untyped-def]
    """Stand for an operator of 1 ms per row."""
    for batch in batches:
        time.sleep(batch.num_rows * MILLISECONDS / 1000)
        yield batch.slice(0, 1)


def run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def slow(df: DataFrame) -> None:
    run(df.mapInArrow(wait, df.schema))


def hot_sides(spark: SparkSession, rows: int, partners: int) -> tuple[DataFrame, DataFrame]:
    left = spark.range(0, rows, 1, 8).selectExpr("IF(pmod(xxhash64(id), 10) < 4, -1, id) AS k", "id AS v")
    right = spark.range(0, rows, 1, 8).selectExpr(f"IF(id < {partners}, -1, id) AS k", "id AS w")
    return left, right


def compared(name: str, left: DataFrame, right: DataFrame, action, rounds: int) -> dict[str, float]:  # type: ignore[no-untyped-def]
    plan = plan_join(left, right, "k")
    seconds = in_rounds(
        {
            "plain": lambda: action(left.join(right, "k")),
            "counted": lambda: action(join(left, right, "k")),
            "stored plan": lambda: action(join(left, right, "k", plan=plan)),
        },
        rounds,
    )
    return {way: ratio(seconds, way, "plain") for way in ("counted", "stored plan")}


def main() -> None:
    rows, rounds = numbers(rows=2_000_000, rounds=5)
    settings = {"spark.sql.autoBroadcastJoinThreshold": -1, "spark.driver.memory": "4g"}
    table = []
    spark = session(master="local[16]", **settings, **{"spark.sql.shuffle.partitions": 16})
    found = compared("slow", *hot_sides(spark, 6_000, 4), slow, min(rounds, 3))
    table.append(("16 slots, 1 ms per row, one hot key", *(f"{found[way]:.2f}" for way in found), ""))
    spark.stop()
    spark = session(master="local[2]", **settings, **{"spark.sql.shuffle.partitions": 16})
    found = compared("hot", *hot_sides(spark, 400_000, 100), run, rounds)
    table.append(("2 cores, one hot key, 16 M rows out", *(f"{found[way]:.2f}" for way in found), ""))
    left = spark.range(0, rows, 1, 8).selectExpr("id AS k", "id AS v", "uuid() AS text")
    right = spark.range(0, rows, 1, 8).selectExpr("id AS k", "id AS w", "uuid() AS other")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, df in (("left", left), ("right", right)):
            df.write.parquet(f"{folder}/{name}")
            sides.append(spark.read.parquet(f"{folder}/{name}"))
        found = compared("even", sides[0], sides[1], run, rounds)
    judged = verdict(found["counted"] <= 1.15 and found["stored plan"] <= 1.05)
    table.append((f"2 cores, nothing hot, {rows:,} rows per side", *(f"{found[way]:.2f}" for way in found), judged))
    show(
        "Time ÷ that of Spark's own join with adaptive execution", ("join", "counted", "stored plan", "verdict"), table
    )


if __name__ == "__main__":
    main()
