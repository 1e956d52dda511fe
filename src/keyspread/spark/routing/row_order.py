"""Whether the order of the rows of a partition is the same when a task is retried, and an order that always is.

A sender learns from its rows in their order, and a plan cuts hot keys by position. So a retried task routes the same
only if it reads its rows in the same order. Three cases:

- Files, ranges and what is computed from them row by row have a fixed order.
- Behind a shuffle, the order depends on which blocks arrive first. Where Spark compares the checksums of shuffles
  between attempts, it re-runs all that changed, so the order does not matter.
- Otherwise rows are routed in the order of their `fingerprint`. Rows with the same one are identical, so it does not
  matter which is which.
"""

import io
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import takewhile
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyspread.errors import InputError
from keyspread.spark.capabilities import is_variant, quiet_analysis
from keyspread.spark.routing.keys import contains, quoted

PROTECTION = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
"""With both settings on, Spark re-runs a stage whose rows went elsewhere than at the first attempt."""

# Operators that return rows in an order that depends on their input alone. Any other may not.
_FIXED = frozenset(
    [
        "AdaptiveSparkPlan",
        "ArrowEvalPython",
        "BatchEvalPython",
        "BatchScan",
        "BroadcastExchange",
        "BroadcastHashJoin",
        "Coalesce",
        "CollectMetrics",
        "ColumnarToRow",
        "EventTimeWatermark",
        "Expand",
        "FileScan",
        "Filter",
        "Generate",
        "InMemoryRelation",
        "InMemoryTableScan",
        "InputAdapter",
        "LocalTableScan",
        "MapInArrow",
        "MapInPandas",
        "MicroBatchScan",
        "Project",
        "PythonMapInArrow",
        "Range",
        "Sample",
        "StreamingRelation",
        "Union",
    ]
)
_OPERATOR = re.compile(r"^([\s:+\-]*)(?:\*\(\d+\) |\* )?(\w+)(.*)$")
# What makes other rows of the same rows if their order changes.
_BY_CHANCE = re.compile(
    r"\b(rand|random|randn|randstr|uniform|uuid|shuffle|monotonically_increasing_id|first|first_value|last|last_value|"
    r"any_value|nth_value|collect_list|collect_set|listagg|string_agg)\("
    r"|\b(Sample|LocalLimit|GlobalLimit|CollectLimit) "
)
# What is read once and then the same for all scans of a query, as files are. Others may be written to in between.
_SETTLED = re.compile(r"\s*(ExistingRDD|OneRowRelation|hive\b)")
_LIVE = re.compile(r"jdbc|kafka|mongo|cassandra|\(python\)", re.IGNORECASE)
_EXACT = re.compile(r"(partial_|merge_)?(count|min|max)$")  # aggregates without rounding
_ONE_AT_A_TIME = threading.Lock()
_HIDDEN = re.compile(r"\.\.\. \d+ more fields")  # spark.sql.debug.maxToStringFields
_REMEDY = (
    f"set {PROTECTION[0]} and {PROTECTION[1]} to true (Spark 4.1 and newer), "
    "or write the rows to files and spread those"
)


def repeatable_order(df: DataFrame) -> Column | None:
    """Return what to order the rows of a partition by, or None if the order that they have may be used.

    Rows that may differ when they are computed again are refused, because no order of them can be repeated.
    """
    if is_protected(df.sparkSession):
        return None
    operators = operators_of(physical_plan(df))
    if has_fixed_order(operators):
        return None
    _refuse_changing_rows(operators)
    inexact = [
        field.name
        for field in df.schema.fields
        if contains(field.dataType, lambda kind: isinstance(kind, (T.DoubleType, T.FloatType)))
    ]
    if inexact and any(may_round(one) for one in operators):
        raise InputError(
            f"column {inexact[0]!r} is a floating-point number and the rows come from an aggregate, so a retried task "
            f"may compute other last digits: {_REMEDY}"
        )
    order = fingerprint(df)
    if hides_fields(operators):
        _look_at_each_column(df)
    return order


def _refuse_changing_rows(operators: "Sequence[Operator]") -> None:
    changing = changing_rows(operators)
    if changing is not None:
        raise InputError(
            f"the rows depend on the order of rows behind a shuffle ({changing}), so a retried task may compute other "
            f"rows: {_REMEDY}"
        )


def may_round(one: "Operator") -> bool:
    """Return whether an operator may compute floating-point numbers whose last digits depend on the order of rows."""
    functions = re.search(r"functions=\[(.*?)\](?:, output|\))", one.details)
    if one.name.endswith("Aggregate") and functions is not None:
        names, nested = functions[1], 1
        while nested:
            names, nested = re.subn(r"\([^()]*\)", "", names)
        return not all(_EXACT.match(name) for name in names.split(", ") if name)
    return one.name.endswith(("Aggregate", "Window"))


def hides_fields(operators: "Sequence[Operator]") -> bool:
    """Return whether Spark printed only the first fields of an operator that is behind a shuffle, or is one."""
    return any(
        _HIDDEN.search(one.details) and not all(other.keeps_order for other in (one, *below(operators, number)))
        for number, one in enumerate(operators)
    )


def _look_at_each_column(df: DataFrame) -> None:
    """Refuse what changes in the plans of fewer columns, down to one: those are short enough for Spark to print."""
    names = df.columns
    for part in (names[: len(names) // 2], names[len(names) // 2 :]):
        some = df.select(*map(quoted, part))
        operators = operators_of(physical_plan(some))
        _refuse_changing_rows(operators)
        if not hides_fields(operators):
            continue
        if len(part) == 1 or len(names) == 1:
            raise InputError(
                "Spark prints only the first fields of the physical plan, so keyspread cannot tell whether a retried "
                f"task would compute other rows: raise spark.sql.debug.maxToStringFields, or {_REMEDY}"
            )
        _look_at_each_column(some)


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


class Operator(NamedTuple):
    """One line of the text of a physical plan."""

    depth: int
    name: str
    details: str

    @property
    def keeps_order(self) -> bool:
        """Whether the order of its rows depends on the order of its input alone, as far as we know."""
        if self.name == "Scan":  # of a source of version 1
            return self.details.lstrip().startswith("KafkaRelation")  # in the order of its offsets
        return self.name in _FIXED and "jdbc" not in self.details.lower()


def operators_of(plan: str) -> list[Operator]:
    """Read the text of a physical plan. What is below an operator follows it, with a greater depth."""
    lines = [line for line in plan.splitlines() if line.strip() and not line.startswith("==")]
    found = [(_OPERATOR.match(line), line) for line in lines]
    return [Operator(len(one[1]), one[2], one[3]) if one else Operator(0, "", line) for one, line in found]


def is_read_row_by_row(df: DataFrame) -> bool:
    """Return whether the first rows can be computed without the others: nothing in the plan needs all of them."""
    with _own_prints() as printed:
        df.explain()
    return has_fixed_order(operators_of(printed.getvalue()))


def has_fixed_order(operators: Sequence[Operator]) -> bool:
    """Return whether every operator of a plan keeps a fixed order; operators that we do not know may not.

    >>> rows = "+- *(1) Range (0, 10, step=1, splits=2)"
    >>> has_fixed_order(operators_of(f"*(1) Project [id#0L]\\n{rows}"))
    True
    >>> has_fixed_order(operators_of(f"Exchange hashpartitioning(id#0L, 2)\\n{rows}"))
    False
    """
    return bool(operators) and all(one.keeps_order for one in operators)


def changing_rows(operators: Sequence[Operator]) -> str | None:
    """Return what makes other rows if the order below it changes, or None if nothing does.

    >>> shuffle, chance, rows = "Exchange hashpartitioning(id, 2)", "Project [rand(1) AS x]", "Range (0, 9)"
    >>> changing_rows(operators_of(f"{chance}\\n+- {shuffle}\\n   +- {rows}"))
    'rand'
    >>> changing_rows(operators_of(f"{shuffle}\\n+- {chance}\\n   +- {rows}")) is None
    True
    """
    for number, one in enumerate(operators):
        found = _BY_CHANCE.search(f"{one.name} {one.details}")
        if found is None:
            continue
        if not all(other.keeps_order for other in (one, *below(operators, number))):
            return found[1] or found[2]
    return None


def reads_live_rows(operators: Sequence[Operator]) -> bool:
    """Return whether rows come from a database, a topic or the like: two scans in one query may find different rows.

    >>> reads_live_rows(operators_of("*(1) Scan JDBCRelation(orders) [numPartitions=1] [k#15L]"))
    True
    >>> reads_live_rows(operators_of("FileScan parquet [k#15L] Location: InMemoryFileIndex[file:/kafka]"))
    False
    """
    return any(
        (one.name == "Scan" and not _SETTLED.match(one.details))
        or (one.name == "BatchScan" and _LIVE.search(one.details) is not None)
        for one in operators
    )


def below(operators: Sequence[Operator], number: int) -> list[Operator]:
    """Return the operators from which an operator gets its rows."""
    depth = operators[number].depth
    return list(takewhile(lambda other: other.depth > depth, operators[number + 1 :]))


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
                f"order of the rows cannot be repeated: {_REMEDY}"
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


def physical_plan(df: DataFrame) -> str:
    """Return the text of the physical plan. Works for streams and under Connect."""
    with _own_prints() as printed:
        df.explain()
    text = printed.getvalue()
    if re.search(r"\.\.\. \d+ more characters|Truncated plan of \d+ characters", text):
        raise InputError(
            "Spark prints only the beginning of the physical plan, so keyspread cannot tell whether a retried task "
            f"would compute other rows: raise spark.sql.maxPlanStringLength, or {_REMEDY}"
        )
    if not operators_of(text):
        raise InputError(f"Spark printed no physical plan, so keyspread cannot tell how rows are computed: {_REMEDY}")
    return text


@contextmanager
def _own_prints() -> Iterator[io.StringIO]:
    """Collect what this thread prints; the prints of other threads go where they always go.

    The standard output belongs to the whole process. If two threads replaced it at once, one would read an empty plan,
    and the output of the process would be lost.
    """
    printed, own = io.StringIO(), threading.get_ident()

    class OfThisThread(io.TextIOBase):
        def write(self, text: str) -> int:
            return (printed if threading.get_ident() == own else out).write(text)

    with _ONE_AT_A_TIME:
        out = sys.stdout
        with redirect_stdout(OfThisThread()):
            yield printed
