"""Whether the order of the rows of a partition is the same when a task is retried, and an order that always is.

A sender learns from its rows in their order, and a plan cuts hot keys by position. So a retried task routes the same
only if it reads its rows in the same order. Three cases:

- Files, ranges and what is computed from them row by row have a fixed order.
- Behind a shuffle, the order depends on which blocks arrive first. Where Spark compares the checksums of shuffles
  between attempts, it re-runs all that changed, so the order does not matter.
- Otherwise rows are routed in the order of their `fingerprint`. Rows with the same one are identical, so it does not
  matter which is which.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyspread.errors import InputError
from keyspread.spark.capabilities import is_variant, quiet_analysis
from keyspread.spark.routing.keys import quoted
from keyspread.spark.routing.plan_text import has_fixed_order, operators_of, physical_plan
from keyspread.spark.routing.repeatable_rows import unrepeatable

PROTECTION = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
"""With both settings on, Spark re-runs a stage whose rows went elsewhere than at the first attempt."""

REMEDY = (
    f"set {PROTECTION[0]} and {PROTECTION[1]} to true (Spark 4.1 and newer), "
    "or write the rows to files, or checkpoint() them, and use those"
)


def repeatable_order(df: DataFrame) -> Column | None:
    """Return what to order the rows of a partition by, or None if the order that they have may be used.

    Rows that may differ when they are computed again are refused, because no order of them can be repeated.
    """
    if is_protected(df.sparkSession):
        return None
    try:
        if has_fixed_order(operators_of(physical_plan(df))):
            return None
        reason = unrepeatable(df)
    except InputError as problem:
        raise InputError(f"{problem}, or {REMEDY}") from None
    if reason is not None:
        raise InputError(
            f"the rows may depend on the order of rows behind a shuffle ({reason}), so a retried task may compute "
            f"other rows: {REMEDY}"
        )
    return fingerprint(df)


def is_protected(spark: SparkSession) -> bool:
    """Return whether Spark compares the output of a retried task with that of the first attempt.

    >>> from keyspread.spark import session
    >>> is_protected(session())  # by default from Spark 4.2 on
    True
    """
    return all(_is_on(spark, name) for name in PROTECTION)


def _is_on(spark: SparkSession, name: str) -> bool:
    try:
        # Not get(name, "false"): that returns "false" wherever nobody has set it, whatever Spark's own default is.
        return str(spark.conf.get(name)).lower() == "true"
    except Exception:  # this version does not have it; the class of the error depends on the version
        return False


def fingerprint(df: DataFrame) -> Column:
    """Return a 64-bit hash of the whole row that tells apart all rows that are not identical.

    Unlike Spark's own hash of several columns it tells ('a', null) from (null, 'a') and 0.0 from -0.0, and it takes
    maps and variants.
    """
    names = df.columns if _is_on(df.sparkSession, "spark.sql.caseSensitive") else [name.lower() for name in df.columns]
    twice = [name for name, known in zip(df.columns, names, strict=True) if names.count(known) > 1]
    if twice:
        called = "" if len({*twice}) == 1 else f" or {next(name for name in twice if name != twice[0])!r}"
        raise InputError(f"{len(twice)} columns are called {twice[0]!r}{called}; rename them")
    whole = F.xxhash64(*(part for field in df.schema.fields for part in _parts(F.col(quoted(field.name)), field)))
    for field in df.schema.fields:
        try:
            with quiet_analysis():
                df.select(F.xxhash64(*_parts(F.col(quoted(field.name)), field))).schema  # noqa: B018
        except AnalysisException:
            raise InputError(
                f"column {field.name!r} has type {field.dataType.simpleString()}, which Spark cannot hash, so the "
                f"order of the rows cannot be repeated: {REMEDY}"
            ) from None
    return whole


def _parts(value: Column, field: T.StructField) -> list[Column]:
    """Return what to hash of a value, so that different values have different parts."""
    parts = _parts_of_type(value, field.dataType)
    return [value.isNull(), *parts] if field.nullable else parts  # a null itself is skipped by the hash


def _parts_of_type(value: Column, kind: T.DataType) -> list[Column]:
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return [value, F.when(value == 0, value.cast("string"))]  # 0.0 and -0.0 have the same hash
    if isinstance(kind, T.StringType):
        return [value.cast("binary")] if "collate" in kind.simpleString() else [value]
    if isinstance(kind, T.StructType):
        return [part for field in kind.fields for part in _parts(value[field.name], field)]
    if isinstance(kind, T.ArrayType):
        element = T.StructField("element", kind.elementType, kind.containsNull)
        return [F.size(value), F.transform(value, lambda one: F.struct(*_parts(one, element)))]
    if isinstance(kind, T.MapType):
        entry = T.StructType(
            [T.StructField("key", kind.keyType, False), T.StructField("value", kind.valueType, kind.valueContainsNull)]
        )
        return _parts_of_type(F.map_entries(value), T.ArrayType(entry, False))
    if is_variant(kind):
        return [F.to_json(value), F.schema_of_variant(value)]
    return [value]
