"""Aggregates and windows over the same rows in twenty random orders, to compare with what the rule of retries accepts.

Every order is a group of its own (column `n`) in one job, so that many expressions cost few jobs.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from frames import setting
from keyspread.spark._engine.capabilities import quiet_analysis
from keyspread.spark._routing.repeatable import unrepeatable

ORDERS = 20
ROWS = """
    SELECT id, id % 3 AS key, CAST(id % 7 AS INT) AS i, CAST(xxhash64(id) % 1000000 / 7 AS DECIMAL(12, 2)) AS d,
        IF(id % 3 = 2, IF(id % 2 = 0, 0D, -0D), xxhash64(id, 'f') / 1e3 * pow(10D, id % 9)) AS f,
        string(id % 11) AS s, xxhash64(id, 'b') AS b, id % 5 AS v
    FROM range(0, 150, 1, 2)"""
ARGUMENTS = ("", "i", "d", "f", "s", "b", "i = 3", "i, f", "f, i", "f, 0.5D", "i, 2")
CASTS = ("{}", "CAST({} AS STRING)", "CAST({} AS DECIMAL(38, 20))", "{} > 10")
FRAMES = (
    "ORDER BY v",
    "ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)
_COLUMNS_OF_A_JOB = 60


def functions(spark: SparkSession) -> list[str]:
    """Return the names of all aggregate and window functions of this Spark, as `SHOW FUNCTIONS` lists them."""
    python = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # SQL tells the kind of one function at a time
    return sorted(
        info.getName()
        for info in python.listBuiltinFunctionInfos()
        if ".aggregate." in info.getClassName() or info.getGroup() in ("agg_funcs", "window_funcs")
    )


def over_windows(spark: SparkSession, names: Iterable[str]) -> list[str]:
    """Return the calls with any arguments that Spark takes over a window; so it takes all aggregates."""
    rows = spark.sql(ROWS)
    calls = (f"{name}({arguments})" for name in names for arguments in ARGUMENTS)
    return [call for call in calls if _is_right(rows, f"{call} OVER (PARTITION BY key {FRAMES[0]})")]


def groups(spark: SparkSession, calls: Iterable[str]) -> list[str]:
    """Return those of the calls that are aggregates, each plain and with one of the casts."""
    rows = spark.sql(ROWS)
    plain = [call for call in calls if _is_right(rows, f"max(id) > 0 AND ({call}) IS NULL", call)]
    cast = [_one_of(CASTS[1:], call).format(call) for call in plain]
    return [*plain, *(text for text in cast if _is_right(rows, text))]


def windows(spark: SparkSession, calls: Iterable[str]) -> list[str]:
    """Return the calls over the first window and one of the others, as `call OVER (PARTITION BY key …)`."""
    rows, form = spark.sql(ROWS), "{} OVER (PARTITION BY key {})".format
    plain = list(calls)
    framed = [form(call, _one_of(FRAMES[1:], call)) for call in plain]
    return [*(form(call, FRAMES[0]) for call in plain), *(text for text in framed if _is_right(rows, text))]


def _one_of(forms: Sequence[str], call: str) -> str:
    """Return a form that is always the same for a call, so that all forms together cost no more time than one."""
    return forms[zlib.crc32(call.encode()) % len(forms)]


def _is_right(rows: DataFrame, *expressions: str) -> bool:
    try:
        with quiet_analysis():
            rows.selectExpr(*expressions).schema  # noqa: B018
    except Exception:  # some functions end in errors of Java
        return False
    return True


def changing(spark: SparkSession, expressions: Sequence[str]) -> dict[str, bool]:
    """Return whether each aggregate or window depends on the order of rows, but for those that Spark cannot run."""
    rows = spark.sql(ROWS).crossJoin(spark.range(ORDERS).toDF("n")).selectExpr("*", "xxhash64(id, n) AS place")
    mixed = rows.repartition(3, "place").sortWithinPartitions("n", "place")
    found: dict[str, bool] = {}
    # For so few rows, compiling the generated code of so many columns would take nearly all the time.
    with (
        setting(spark, "spark.sql.codegen.wholeStage", "false"),
        setting(spark, "spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ):
        for begin in range(0, len(expressions), _COLUMNS_OF_A_JOB):
            found |= _changing(mixed, expressions[begin : begin + _COLUMNS_OF_A_JOB])
    return found


def _changing(mixed: DataFrame, texts: Sequence[str]) -> dict[str, bool]:
    """Run expressions as the columns of one job; if it fails, each half in a job of its own."""
    named = [f"({text}) AS x{number}" for number, text in enumerate(texts)]
    if " OVER (PARTITION BY " in texts[0]:
        named = [text.replace("OVER (PARTITION BY ", "OVER (PARTITION BY n, ") for text in named]
        out = mixed.selectExpr("n", "id", *named)
    else:
        out = mixed.groupBy("n", "key").agg(*map(F.expr, named))
    try:
        collected = out.collect()
    except Exception:  # a wrong argument that only the task finds
        half = len(texts) // 2
        return _changing(mixed, texts[:half]) | _changing(mixed, texts[half:]) if half else {}
    orders: dict[str, dict[int, list[str]]] = {text: defaultdict(list) for text in texts}
    for n, first, *values in collected:
        for text, value in zip(texts, values, strict=True):
            orders[text][n].append(repr((first, value)))
    return {text: len({tuple(sorted(values)) for values in of.values()}) > 1 for text, of in orders.items()}


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
