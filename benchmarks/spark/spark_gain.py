"""Gain of `aggregate` on Spark with a Python operator, n = 16, compared with what people write by hand.

`aggregate` without a scheme folds rows where they are; with one, rows are routed and folded by their workers.

Medians of interleaved rounds; every result is checked. The first table has an operator of 1 ms per row and one key with
a share of 0, 5, 25 and 60 %, the second Zipf 1.4. Bars: `aggregate` without a scheme <= 1.1 x shuffling for Zipf 1.4 at
100,000 rows (`./dev bench spark_gain 24e3 1e5`), and for even keys <= 1.1 x groupBy(key).applyInPandas, where the
operator costs next to nothing (third table) as well as with 1 ms per row. The last table is a plain count. Spark's own
partial aggregation already balances it, so there is nothing to gain, and the table shows the cost of a scheme.

    ./dev bench spark_gain [OPERATOR_ROWS] [ZIPF_ROWS] [CHEAP_ROWS] [COUNT_ROWS] [ROUNDS]
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread import ColumnOperator, Operator
from keyspread.operators import Count as OurCount
from keyspread.spark import aggregate, session
from keyspread.streams.generated import zipf_probabilities

from common import in_rounds, numbers, ratio, show, verdict

WORKERS, KEYS, SKEW, MILLISECOND, SALTS = 16, 10_000, 1.4, 0.001, 16
KEYS_BESIDE_ONE = 500  # of the tables with one hot key: a group costs pandas a millisecond or two
SHARES = (0, 5, 25, 60)
ONLINE = ("shuffle", "d-choices", "w-choices", "partial-key")
SCHEMA = "key string, rows long"
PLAIN, SHUFFLED = "applyInPandas", "aggregate, shuffle"


class Count(Operator[int]):
    """Counts rows, and takes some time per row, as a model or a remote call would."""

    schema = "rows long"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def zero(self) -> int:
        return 0

    def update(self, state: int, rows: pd.DataFrame) -> int:
        time.sleep(self.seconds * len(rows))
        return state + len(rows)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> dict[str, Any]:
        return {"rows": state}


class CountByColumn(ColumnOperator):
    """The same for whole tables, without a call per key."""

    schema = state = "rows long"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def partial(self, rows: pa.Table, key: list[str]) -> pa.Table:
        time.sleep(self.seconds * rows.num_rows)
        return rows.group_by(key).aggregate([([], "count_all")]).rename_columns([*key, "rows"])

    def merge(self, states: pa.Table, key: list[str]) -> pa.Table:
        return states.group_by(key).aggregate([("rows", "sum")]).rename_columns([*key, "rows"])


def by_group(seconds: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def count(group: pd.DataFrame) -> pd.DataFrame:
        time.sleep(seconds * len(group))
        return pd.DataFrame({"key": group["key"][:1], "rows": [len(group)]})

    return count


def by_batch(seconds: float) -> Callable[[Any], Any]:
    def count(batches: Any) -> Any:
        for batch in batches:
            time.sleep(seconds * len(batch))
            yield batch.groupby("key").size().rename("rows").reset_index()

    return count


def ways(rows: DataFrame, seconds: float, schemes: Sequence[str]) -> dict[str, Callable[[], DataFrame]]:
    """Return the ways to compute the result: by hand, by these schemes, and as the library chooses."""
    salted = rows.withColumn("salt", (F.rand() * SALTS).cast("int"))
    together = F.sum("rows").alias("rows")
    by_hand: dict[str, Callable[[], DataFrame]] = {
        PLAIN: lambda: rows.groupBy("key").applyInPandas(by_group(seconds), SCHEMA),
        "salted applyInPandas, groupBy": lambda: (
            salted.groupBy("key", "salt").applyInPandas(by_group(seconds), SCHEMA).groupBy("key").agg(together)
        ),
        "REBALANCE, mapInPandas, groupBy": lambda: (
            rows.hint("rebalance", WORKERS).mapInPandas(by_batch(seconds), SCHEMA).groupBy("key").agg(together)
        ),
    }
    by_scheme = {
        f"aggregate, {scheme}": lambda scheme=scheme: aggregate(rows, "key", Count(seconds), WORKERS, scheme)
        for scheme in schemes
    }
    chosen: dict[str, Callable[[], DataFrame]] = {
        "aggregate": lambda: aggregate(rows, "key", Count(seconds), WORKERS),
        "aggregate, ColumnOperator": lambda: aggregate(rows, "key", CountByColumn(seconds), WORKERS),
    }
    return {**by_hand, **by_scheme, **chosen}


def measure(
    rows: DataFrame, seconds: float, rounds: int, schemes: Sequence[str] = ("shuffle",)
) -> dict[str, list[float]]:
    exact = {row["key"]: row["count"] for row in rows.groupBy("key").count().collect()}

    def check(make: Callable[[], DataFrame]) -> Callable[[], None]:
        def run() -> None:
            assert {row["key"]: row["rows"] for row in make().collect()} == exact

        return run

    return in_rounds({name: check(make) for name, make in ways(rows, seconds, schemes).items()}, rounds)


def lines(seconds: dict[str, list[float]], first: str, bar: tuple[str, float] | None) -> list[tuple[object, ...]]:
    table: list[tuple[object, ...]] = []
    for name in seconds:
        judged = ""
        if name == "aggregate" and bar is not None:
            against_which = "plain" if bar[0] == PLAIN else "shuffle"
            judged = f"<= {bar[1]} x {against_which} {verdict(ratio(seconds, name, bar[0]) <= bar[1])}"
        against = (f"{ratio(seconds, name, PLAIN):.2f}", f"{ratio(seconds, name, SHUFFLED):.2f}")
        table.append((first, name, *against, judged))
    return table


def written(spark: SparkSession, keys: np.ndarray, path: str) -> DataFrame:
    drawn = spark.createDataFrame(pa.table({"rank": pa.array(keys, pa.int32())}))
    drawn.selectExpr("concat('k', rank) AS key").repartition(WORKERS).write.parquet(path)
    return spark.read.parquet(path)


def with_hot_key(rows: int, share: float) -> np.ndarray:
    random = np.random.default_rng(1)
    return np.where(random.random(rows) < share, 0, random.integers(1, KEYS_BESIDE_ONE, rows))


def zipf_ranks(rows: int) -> np.ndarray:
    return np.searchsorted(np.cumsum(zipf_probabilities(SKEW, KEYS)), np.random.default_rng(1).random(rows))


def compare_count(rows: DataFrame, rounds: int) -> None:
    def run(result: Callable[[], DataFrame]) -> Callable[[], None]:
        return lambda: result().write.format("noop").mode("overwrite").save()

    def count(scheme: str | None) -> Callable[[], None]:
        return run(lambda: aggregate(rows, "key", OurCount(), WORKERS, scheme))

    plain = "groupBy(key).count()"
    runs = {plain: run(lambda: rows.groupBy("key").count()), "aggregate": count(None)}
    runs |= {f"aggregate, {scheme}": count(scheme) for scheme in ("planned", "d-choices")}
    seconds = in_rounds(runs, rounds)
    table = [(name, f"{ratio(seconds, name, plain):.2f}") for name in runs]
    show("A plain count: Spark's own partial aggregation is better", ("way", "/ groupBy"), table)


def main() -> None:
    slow, zipf, cheap, many, rounds = numbers(
        operator_rows=16_000, zipf_rows=24_000, cheap_rows=200_000, count_rows=1_000_000, rounds=3
    )
    settings = {"spark.sql.shuffle.partitions": WORKERS, "spark.driver.memory": "6g"}
    # Otherwise adaptive execution makes one partition of so few bytes, and what people write by hand is 16 x as slow.
    settings["spark.sql.adaptive.coalescePartitions.enabled"] = "false"
    spark = session(master=f"local[{WORKERS}]", **settings)
    columns = ("keys", "way", "/ plain", "/ shuffle", "bar")
    with tempfile.TemporaryDirectory() as folder:
        table: list[tuple[object, ...]] = []
        for share in SHARES:
            rows = written(spark, with_hot_key(slow, share / 100), f"{folder}/{share}")
            bar = (PLAIN, 1.1) if share == 0 else None
            table += lines(measure(rows, MILLISECOND, rounds), f"{share} %", bar)
        show(f"1 ms per row, {slow:,} rows, one key with a share, n = {WORKERS}; {rounds} rounds", columns, table)

        measured = measure(written(spark, zipf_ranks(zipf), f"{folder}/zipf"), MILLISECOND, rounds, ONLINE)
        title = f"1 ms per row, {zipf:,} rows, n = {WORKERS}; {rounds} rounds"
        show(title, columns, lines(measured, f"Zipf {SKEW}", (SHUFFLED, 1.1)))

        measured = measure(written(spark, with_hot_key(cheap, 0), f"{folder}/cheap"), 0.0, rounds)
        title = f"An operator that costs nothing, {cheap:,} rows, n = {WORKERS}; {rounds} rounds"
        show(title, columns, lines(measured, "even", (PLAIN, 1.1)))

        compare_count(written(spark, zipf_ranks(many), f"{folder}/many"), rounds)


if __name__ == "__main__":
    main()
