"""Aggregates and windows over the same rows in twenty random orders, to compare with what the rule of retries accepts.

Every order is a group of its own (column `n`) in one job, so that many expressions cost few jobs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.spark._engine.capabilities import quiet_analysis
from keyspread.spark._routing.repeatable import unrepeatable

ORDERS = 20
ROWS = """
    SELECT id, id % 3 AS key, CAST(id % 7 AS INT) AS i, CAST(xxhash64(id) % 1000000 / 7 AS DECIMAL(12, 2)) AS d,
        IF(id % 3 = 2, IF(id % 2 = 0, 0D, -0D), xxhash64(id, 'f') / 1e3 * pow(10D, id % 9)) AS f,
        string(id % 11) AS s, xxhash64(id, 'b') AS b, id % 5 AS v
    FROM range(0, 150, 1, 2)"""
ARGUMENTS = ("", "i", "d", "f", "s", "b", "i = 3", "i, f", "f, i", "s, i", "f, 0.5D", "i, 0.5D", "i, 2")
CASTS = ("{}", "CAST({} AS STRING)", "CAST({} AS DECIMAL(38, 20))", "{} > 10")
FRAMES = (
    "ORDER BY v",
    "ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)
_COLUMNS_OF_A_JOB = 60


def calls(names: Iterable[str]) -> Iterator[str]:
    """Return calls of the functions with any arguments; many of them are wrong."""
    return (f"{name}({arguments})" for name in names for arguments in ARGUMENTS)


def groups(spark: SparkSession, names: Iterable[str], casts: Iterable[str] = CASTS) -> list[str]:
    """Return the calls, plain and cast, that Spark takes as aggregates."""
    rows, forms = spark.sql(ROWS), list(casts)
    plain = [call for call in calls(names) if _is_right(rows, f"max(id) > 0 AND ({call}) IS NULL", call)]
    return [form.format(call) for call in plain for form in forms if _is_right(rows, form.format(call))]


def windows(spark: SparkSession, names: Iterable[str], frames: Iterable[str] = FRAMES) -> list[str]:
    """Return the calls that Spark takes over a window, as `call OVER (PARTITION BY key …)`."""
    rows, forms = spark.sql(ROWS), [f"{{}} OVER (PARTITION BY key {frame})" for frame in frames]
    plain = [call for call in calls(names) if _is_right(rows, forms[0].format(call))]
    return [form.format(call) for call in plain for form in forms if _is_right(rows, form.format(call))]


def _is_right(rows: DataFrame, *expressions: str) -> bool:
    try:
        with quiet_analysis():
            rows.selectExpr(*expressions).schema  # noqa: B018
    except Exception:  # some functions end in errors of Java
        return False
    return True


def changing(spark: SparkSession, expressions: Iterable[str]) -> set[str]:
    """Return the aggregates or windows whose rows are not the same in all orders."""
    rows = spark.sql(ROWS).crossJoin(spark.range(ORDERS).toDF("n")).selectExpr("*", "xxhash64(id, n) AS place")
    mixed = rows.repartition(3, "place").sortWithinPartitions("n", "place")
    found = set()
    texts = list(expressions)
    for begin in range(0, len(texts), _COLUMNS_OF_A_JOB):
        some = texts[begin : begin + _COLUMNS_OF_A_JOB]
        named = [f"({text}) AS x{number}" for number, text in enumerate(some)]
        if " OVER (PARTITION BY " in some[0]:
            named = [text.replace("OVER (PARTITION BY ", "OVER (PARTITION BY n, ") for text in named]
            out = mixed.selectExpr("n", "id", *named)
        else:
            out = mixed.groupBy("n", "key").agg(*map(F.expr, named))
        orders: dict[str, dict[int, list[str]]] = {text: defaultdict(list) for text in some}
        for n, first, *values in out.collect():
            for text, value in zip(some, values, strict=True):
                orders[text][n].append(repr((first, value)))
        found |= {text for text, of in orders.items() if len({tuple(sorted(values)) for values in of.values()}) > 1}
    return found


def accepted(spark: SparkSession, expressions: Iterable[str]) -> list[str]:
    """Return the expressions that may be behind a shuffle where Spark does not protect retries."""
    behind = spark.sql(ROWS).repartition(3, "id")

    def over(text: str) -> DataFrame:
        return behind.selectExpr("id", "key", f"{text} AS x")

    def grouped(text: str) -> DataFrame:
        return behind.groupBy("key").agg(F.expr(text).alias("x"))

    return [
        text for text in expressions if unrepeatable((over if " OVER (PARTITION" in text else grouped)(text)) is None
    ]
