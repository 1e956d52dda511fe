"""Gain of `aggregate` on Spark with a slow Python operator (1 ms per row), Zipf 1.4, n = 16.

Bars: planned, d-choices and w-choices >= 3 x faster than the same operator under groupBy(key).applyInPandas, and
within 1.15 x of shuffling. The second table is a plain count. Spark's own partial aggregation already balances it, so
there is nothing to gain, and the table shows the cost.

    ./dev bench spark_gain [OPERATOR_ROWS] [COUNT_ROWS]
"""

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from keyspread import Operator
from keyspread.spark import aggregate, session
from keyspread.streams.generated.zipf import zipf_probabilities

from common import numbers, show, side_by_side, verdict

WORKERS, KEYS, SKEW, MILLISECOND = 16, 10_000, 1.4, 0.001
SCHEMES = ("shuffle", "planned", "d-choices", "w-choices", "partial-key")


class SlowCount(Operator[int]):
    """Counts rows and takes one millisecond per row, as a model or a remote call would."""

    schema = "rows long"

    def zero(self) -> int:
        return 0

    def update(self, state: int, rows: pd.DataFrame) -> int:
        time.sleep(MILLISECOND * len(rows))
        return state + len(rows)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> dict[str, Any]:
        return {"rows": state}


def slow_count(group: pd.DataFrame) -> pd.DataFrame:
    time.sleep(MILLISECOND * len(group))
    return pd.DataFrame({"key": group["key"][:1], "rows": [len(group)]})


def zipf_rows(spark: SparkSession, rows: int, folder: str) -> DataFrame:
    ranks = np.searchsorted(np.cumsum(zipf_probabilities(SKEW, KEYS)), np.random.default_rng(1).random(rows))
    drawn = spark.createDataFrame(pa.table({"rank": pa.array(ranks, pa.int32())}))
    drawn.selectExpr("concat('k', rank) AS key").repartition(WORKERS).write.parquet(folder)
    return spark.read.parquet(folder)


def main() -> None:
    slow_rows, count_rows = numbers(operator_rows=24_000, count_rows=5_000_000)
    spark = session(
        master=f"local[{WORKERS}]", **{"spark.sql.shuffle.partitions": WORKERS, "spark.driver.memory": "6g"}
    )
    with tempfile.TemporaryDirectory() as folder:
        slow = zipf_rows(spark, slow_rows, f"{folder}/slow")
        many = zipf_rows(spark, count_rows, f"{folder}/many")
        compare_operator(slow)
        compare_count(many)


def compare_operator(rows: DataFrame) -> None:
    exact = {row["key"]: row["count"] for row in rows.groupBy("key").count().collect()}

    def run(result: Callable[[], DataFrame]) -> Callable[[], None]:
        def check() -> None:
            assert {row["key"]: row["rows"] for row in result().collect()} == exact

        return check

    runs = {"groupBy": run(lambda: rows.groupBy("key").applyInPandas(slow_count, "key string, rows long"))}
    runs |= {name: run(lambda name=name: aggregate(rows, "key", SlowCount(), WORKERS, name)) for name in SCHEMES}
    seconds = side_by_side(runs, repeat=2)
    plain, ideal = seconds["groupBy"], seconds["shuffle"]
    table: list[tuple[object, ...]] = [("groupBy(key).applyInPandas", "1.00 x", f"{plain / ideal:.2f} x", "")]
    for name in SCHEMES:
        judged = ""
        if name not in ("shuffle", "partial-key"):
            judged = verdict(plain / seconds[name] >= 3 and seconds[name] / ideal <= 1.15)
        table.append((name, f"{plain / seconds[name]:.2f} x", f"{seconds[name] / ideal:.2f} x", judged))
    title = f"A Python operator of 1 ms per row, {len(exact):,} keys, n = {WORKERS}; every result checked"
    show(title, ("", "faster than groupBy", "time / shuffle", "verdict"), table)


def compare_count(rows: DataFrame) -> None:
    def run(result: Callable[[], DataFrame]) -> Callable[[], None]:
        return lambda: result().write.format("noop").mode("overwrite").save()

    runs = {"groupBy": run(lambda: rows.groupBy("key").count())}
    runs |= {
        name: run(lambda name=name: aggregate(rows, "key", {"n": "count(*)"}, WORKERS, name))
        for name in ("planned", "d-choices")
    }
    seconds = side_by_side(runs, repeat=2)
    table = [(name, f"{value / seconds['groupBy']:.2f} x") for name, value in seconds.items()]
    show("A plain count: Spark's own partial aggregation is better", ("", "time / groupBy"), table)


if __name__ == "__main__":
    main()
