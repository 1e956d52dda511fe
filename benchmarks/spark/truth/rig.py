"""What the jobs with a known truth share: the data, the sleep per row, and what a job looks like."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PARTITIONS, SLOTS = 16, 8
MILLISECONDS = 2
SLEEP = f"java_method('java.lang.Thread', 'sleep', {MILLISECONDS}L)"
EVEN = "even"


@dataclass
class Rig:
    """A session whose event log is on, and tables in which customer 7 has 40 % of the orders."""

    spark: SparkSession
    folder: Path
    rows: int
    orders: DataFrame = field(init=False)
    dotted: DataFrame = field(init=False)
    even: DataFrame = field(init=False)
    customers: DataFrame = field(init=False)

    def __post_init__(self) -> None:
        """Write the tables, so that reading them is cheap."""
        hot = "abs(hash(id, 3)) % 10 < 4"
        columns = [
            "cast(customer AS bigint) AS customer",
            "id AS amount",
            "concat('c', customer) AS name",
            "cast(customer AS string) AS `client id`",
            "cast(customer % 3 AS int) AS region",
            "timestamp_seconds(1700000000 + cast(customer AS bigint) * 3600) AS at",
        ]
        base = self.spark.range(0, self.rows, 1, SLOTS)
        skewed = base.selectExpr("id", f"CASE WHEN {hot} THEN 7 ELSE abs(hash(id, 9)) % 400 END AS customer")
        self.orders = self.stored("orders", skewed.selectExpr(*columns))
        # Spark's own applyInPandas refuses a table with a dot in a name.
        self.dotted = self.orders.selectExpr("customer AS `client.code`", "amount")
        self.even = self.stored("even", base.selectExpr("id", "id AS customer").selectExpr(*columns))
        rows = self.spark.range(0, 400, 1, 4)
        self.customers = self.stored("customers", rows.selectExpr("id AS customer", "id * 3 AS city"))

    def stored(self, name: str, df: DataFrame) -> DataFrame:
        """Write a table and return it as it is read back."""
        path = self.path(name)
        df.write.parquet(path)
        return self.spark.read.parquet(path)

    def path(self, name: str) -> str:
        """Return a path in the folder of this run."""
        return str(self.folder / name)

    def new_path(self) -> str:
        """Return a path that does not exist yet."""
        return str(Path(tempfile.mkdtemp(dir=self.folder)) / "new")

    def set(self, **settings: Any) -> None:
        """Set settings of Spark, with _ for the dots."""
        for name, value in settings.items():
            self.spark.conf.set(name.replace("_", "."), str(value))


def slow(df: DataFrame) -> DataFrame:
    """Add work per row: a sleep, which takes no processor and so the same time beside other work."""
    return df.selectExpr("*", f"{SLEEP} AS z")


def use(df: DataFrame) -> None:
    """Read every column of every row: Spark would leave out a window that nobody looks at."""
    df.agg(F.max(F.xxhash64(*(F.col(f"`{name}`") for name in df.columns)))).collect()


@dataclass(frozen=True)
class Job:
    """A job and the truth about it: the operator and the key columns of its skew, or None and what it is instead."""

    name: str
    run: Callable[[], object]
    operator: str | None = None
    keys: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds of other findings of which one must be there, if the truth is that something else cost the time."""
    names: dict[str, Any] = field(default_factory=dict)
    """What the lines of code that are suggested may use: df, left, right, …"""
    settings: dict[str, str] = field(default_factory=dict)
