"""Functions that run on executors: they say what to do if keyspread is not installed there."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from types import GenericAlias
from typing import Any, TypeGuard

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType


def shipped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function in a form that an executor without keyspread can read, to raise one line with the remedy.

    The function travels as bytes within one that refers to nothing of keyspread.
    """
    packed = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def run(batches: Any) -> Any:
        import importlib.util
        import pickle

        if importlib.util.find_spec("keyspread") is None:
            raise ModuleNotFoundError(
                "keyspread is not installed on this executor: install it there (pip install keyspread), or ship it "
                "with the job: --archives with a packed environment, or --py-files with keyspread and executors that "
                "have numpy, numba, pyarrow and xxhash (docs/platforms.md)"
            )
        return pickle.loads(packed)(batches)

    return run


# What the running Spark can do, from 3.5 to 4.3: the only file that knows how versions differ.
#
# It asks for a capability and never for a version number, because vendors backport features and number as they like.


Batches = Iterator[Any]  # of one pa.Array, or of a tuple of them


def is_column(value: object) -> TypeGuard[Column]:
    """Tell whether a value is a Column. Before Spark 4.0, those of Spark Connect have a class of their own."""
    return isinstance(value, Column) or type(value).__module__ == "pyspark.sql.connect.column"


def is_variant(kind: DataType) -> bool:
    """Tell whether a type is VARIANT, which Spark has from 4.0 on."""
    return kind.typeName() == "variant"


def condition_of(problem: PySparkException) -> str | None:
    """Return the name of an error of Spark, such as PATH_NOT_FOUND. Before 4.0 it was called its class.

    Over Connect, Spark 3.5 has it in the message only.
    """
    ask = getattr(problem, "getCondition", None) or problem.getErrorClass
    found: str | None = ask()
    if found is None and (named := re.match(r"\[([A-Z0-9_.]+)\] ", str(problem))):
        found = named[1]
    return found


def can_observe(df: DataFrame) -> bool:
    """Tell whether rows can be counted on their way. Over Connect that came with Spark 4.0."""
    is_remote = type(df).__module__.startswith("pyspark.sql.connect.")
    return not is_remote or find_spec("pyspark.sql.connect.observation") is not None


def explained(df: DataFrame, mode: str) -> str:
    """Return what `df.explain(mode=mode)` prints, without touching the standard output, which all threads share.

    On classic Spark this is the call that `explain` makes, the only one of ours to the JVM. Over Connect there is none.
    """
    rows: Any = df
    if hasattr(rows, "_explain_string"):  # over Connect
        return str(rows._explain_string(mode=mode))
    return str(rows._sc._jvm.PythonSQLUtils.explainString(rows._jdf.queryExecution(), mode))


def schema_of_ddl(text: str) -> DataType:
    """Return the type that a text such as 'n bigint, total double' describes; before Spark 4.0 Spark is asked."""
    if hasattr(StructType, "fromDDL"):
        return StructType.fromDDL(text)
    return SparkSession.active().createDataFrame([], text).schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a schema without a job; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def to_arrow(df: DataFrame) -> pa.Table:
    """Return all rows as an Arrow table. Before Spark 4.0 they are collected as Python values."""
    if hasattr(df, "toArrow"):
        return df.toArrow()

    rows = [row.asDict(recursive=True) for row in df.collect()]
    return pa.Table.from_pylist(rows, schema=arrow_schema(df.schema))


def column_function(function: Callable[[Batches], Iterator[pa.Array]], columns: int, kind: str) -> Any:
    """Return a user-defined function of this many columns, called once per task, that reads and returns Arrow arrays.

    Before Spark 4.1 the arrays travel as pandas Series.
    """
    kernel = shipped(function if hasattr(F, "arrow_udf") else _of_series(function))

    def call(batches: Batches) -> Any:
        return kernel(batches)

    # Spark reads from the annotations what the function takes.
    if hasattr(F, "arrow_udf"):
        call.__annotations__ = _annotations(pa.Array, columns)
        return F.arrow_udf(call, kind)
    import pandas as pd

    call.__annotations__ = _annotations(pd.Series, columns)
    return F.pandas_udf(call, kind)  # type: ignore[attr-defined]


def _of_series(function: Callable[[Batches], Iterator[pa.Array]]) -> Callable[[Batches], Iterator[Any]]:
    return lambda batches: (array.to_pandas() for array in function(map(_as_arrays, batches)))


def _annotations(one: Any, columns: int) -> dict[str, Any]:
    batch: Any = one if columns == 1 else GenericAlias(tuple, (one,) * columns)
    return {"batches": GenericAlias(Iterator, (batch,)), "return": GenericAlias(Iterator, (one,))}


def _as_arrays(batch: Any) -> Any:
    return tuple(map(pa.array, batch)) if isinstance(batch, tuple) else pa.array(batch)


def has_function(spark: SparkSession, name: str) -> bool:
    """Tell whether a function exists in the SQL of this Spark (under Connect: of its server)."""
    return _has_function(spark, name)


@lru_cache(maxsize=100)
def _has_function(spark: SparkSession, name: str) -> bool:
    return bool(spark.catalog.functionExists(name))


def has_lateral_aliases(spark: SparkSession) -> bool:
    """Tell whether a column of a `select` may be used in another one of it: always, unless the session forbids it."""
    return spark.conf.get("spark.sql.lateralColumnAlias.enableImplicitResolution", "true") != "false"


def has_realtime_exchange(spark: SparkSession) -> bool:
    """Tell whether rows can change partitions in real-time mode: from Spark 4.3 on. 4.1 and 4.2 have it without."""
    try:
        # Spark has this setting since it can: its aggregates were the first to need an exchange.
        return spark.conf.get("spark.sql.streaming.useStreamlineAggregator") is not None
    except (PySparkException, Py4JError):  # the setting is unknown; before 4.0 that is an error of Java
        return False


def has_python_state(df: DataFrame) -> bool:
    """Tell whether a stream can keep state in Python: from Spark 4.0 on, over Connect from 4.1 on."""
    grouped = type(df.groupBy())
    return hasattr(grouped, "transformWithState") or hasattr(grouped, "transformWithStateInPandas")


def transform_with_state(rows: GroupedData, processor: Any, schema: str, mode: str, time: str) -> DataFrame:
    """Apply a processor that takes and returns Rows. In Spark 4.0 they travel as pandas DataFrames."""
    if hasattr(rows, "transformWithState"):
        return rows.transformWithState(processor, schema, mode, time)
    found: DataFrame = rows.transformWithStateInPandas(_of_frames(processor), schema, mode, time)
    return found


def _of_frames(processor: Any) -> Any:
    """Return a processor of pandas DataFrames that passes their rows on; its class is local, so it travels by value."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class OfFrames(StatefulProcessor):
        def init(self, handle: Any) -> None:
            processor.init(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            each = (row for frame in rows for row in frame.itertuples(index=False))
            return self.frames(processor.handleInputRows(key, each, timerValues))

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            return self.frames(processor.handleExpiredTimer(key, timerValues, expiredTimerInfo))

        def close(self) -> None:
            processor.close()

        def frames(self, rows: Any) -> Any:
            import pandas as pd

            return (pd.DataFrame([row.asDict()]) for row in rows)

    return OfFrames()


@contextmanager
def quiet_analysis() -> Iterator[None]:
    """Keep PySpark from printing the analysis errors of this block: we report them ourselves. 3.5 prints none."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        yield
        return
    # PySpark's own class: a plain logger of these names would break PySpark.
    loggers = [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    for logger in loggers:
        logger.addFilter(_drop)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_drop)


def _drop(record: Any) -> bool:
    return False


# The description of Spark jobs that the library runs by itself, as the Spark UI shows it.


_PROPERTY = "spark.job.description"


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Describe the jobs of this block as "keyspread: what", then restore the description that the caller had set.

    Spark Connect has no such property; there the jobs have no description.
    """
    try:
        context = spark.sparkContext
    except (PySparkException, AttributeError):
        yield
        return
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, f"keyspread: {what}")
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, before)  # type: ignore[arg-type]
