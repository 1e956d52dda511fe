"""The key of a DataFrame: its columns, whether Spark can hash them, and its 64-bit hash."""

import re
from collections.abc import Callable, Sequence
from typing import overload

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import condition_of, is_column, is_variant, quiet_analysis
from keyspread.spark._engine.failures import why

KeyColumn = str | Column
Key = KeyColumn | Sequence[KeyColumn]

_STEP = r"`(?:[^`]|``)+`|[^.`*]+"  # one step of the path to a field: a bare name, or any text in backticks


@overload
def key_columns(df: DataFrame, key: str | Sequence[str]) -> list[str]: ...


@overload
def key_columns(df: DataFrame, key: Key) -> list[KeyColumn]: ...


def key_columns(df: DataFrame, key: Key) -> Sequence[KeyColumn]:
    """Return the columns of the key as a list, after checking that they exist and that Spark can hash them."""
    columns = key_parts(key)
    for part in columns:
        kind = type_of(df, part) if isinstance(part, str) else _checked_expression(df, part)
        if contains(kind, lambda one: isinstance(one, MapType)):
            raise InputError(
                f"column {part!r} has type {kind.simpleString()}, and Spark cannot hash maps; "
                "use to_json, map_entries or a field of it as key"
            )
        if contains(kind, is_variant):
            raise InputError(
                f"column {part!r} has type {kind.simpleString()}, and Spark cannot hash variants; "
                "use to_json or variant_get as key"
            )
    return columns


def check_frame(name: str, value: object) -> None:
    """Refuse what is no DataFrame, classic or of Spark Connect."""
    if not hasattr(value, "isStreaming"):
        raise InputError(f"{name} must be a DataFrame, got {value!r:.100}")


def key_parts(key: Key) -> list[KeyColumn]:
    """Return the key as a list of names and Columns."""
    columns = [key] if isinstance(key, str) or is_column(key) else list(key) if isinstance(key, Sequence) else []
    if not columns or not all(isinstance(part, str) or is_column(part) for part in columns):
        raise InputError(f"key must be a column (its name or a Column) or a list of columns, got {key!r}")
    return columns


def _checked_expression(df: DataFrame, expression: Column) -> DataType:
    """Return the type of a key that is an expression, after checking that it has one value per row, always the same.

    The key is computed twice: before rows are moved, to pick the worker, and after, to group. So it must not depend on
    chance, or on the place of a row.
    """
    kind = _grouped(df, expression).dataType
    if re.search(r"\b(session_)?window\(", str(expression)):
        raise InputError(f"key {expression!r} is a window, not a key: use window= and slide= of aggregate")
    # Spark refuses such expressions within an aggregate, and knows them better than we do.
    field_of("key", expression, lambda key: df.groupBy().agg(F.count(key)))
    return kind


def key_texts(columns: Sequence[KeyColumn]) -> list[str]:
    """Return what the key is computed from, to tell whether two queries have the same key."""
    return [part if isinstance(part, str) else str(part)[len("Column<'") : -len("'>")] for part in columns]


def _grouped(df: DataFrame, expression: Column) -> StructField:
    """Return the name and type that an expression has as a grouping key. Spark checks that it can be one."""
    return field_of("key", expression, lambda key: df.groupBy(key).agg(F.count("*")))


def field_of(parameter: str, expression: Column, query: Callable[[Column], DataFrame]) -> StructField:
    """Return the name and type of an expression, the first column of `query`; refuse it if Spark cannot analyse it."""
    try:
        with quiet_analysis():
            return query(expression).schema[0]
    except AnalysisException as problem:
        raise InputError(f"{parameter} {expression!r} {_reason(problem)}") from None


def type_of(df: DataFrame, name: str) -> DataType:
    """Return the type of a column, or of a field of a struct, after checking that it exists."""
    missing = InputError(f"there is no column {name!r}; the columns are {', '.join(df.columns)}")
    if df.columns.count(name) > 1:
        raise InputError(f"{df.columns.count(name)} columns are called {name!r}; rename them")
    # We look before we ask Spark, because it logs an error of its own.
    if not _is_column(df, name) and not _is_field(df.schema, name):
        raise missing
    try:
        return df.select(column(df, name)).schema[0].dataType
    except AnalysisException:
        raise missing from None


def _reason(problem: AnalysisException) -> str:
    condition = condition_of(problem) or ""
    if condition.startswith(("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN")):
        return "belongs to another DataFrame; pass the name of a column of this one"
    if condition in ("GROUP_BY_AGGREGATE", "MISSING_AGGREGATION"):
        return "is not one value per row (an aggregate, a window function or a generator); compute it in a step before"
    if condition == "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION":
        return "has another value each time it is computed; compute it in a step before, and write that to files"
    return f"is refused by Spark: {why(str(problem))}"


def _is_column(df: DataFrame, name: str) -> bool:
    return name.lower() in {column.lower() for column in df.columns}


def _is_field(kind: DataType, path: str) -> bool:
    if not re.fullmatch(rf"(?:{_STEP})(?:\.(?:{_STEP}))*", path):
        return False
    for step in re.findall(_STEP, path):
        while isinstance(kind, ArrayType):  # Spark takes the field of each element
            kind = kind.elementType
        if isinstance(kind, MapType):
            kind = kind.valueType
            continue
        wanted = _unquoted(step)
        fields = kind.fields if isinstance(kind, StructType) else []
        found = [field for field in fields if field.name.lower() == wanted.lower()]
        if not found:
            return False
        kind = found[0].dataType
    return True


def column(df: DataFrame, wanted: KeyColumn) -> Column:
    """Return a column by its name, which may contain dots. A dotted name that is no column is a field of a struct."""
    if not isinstance(wanted, str):
        return wanted
    return F.col(in_sql(df, wanted))


def in_sql(df: DataFrame, name: str) -> str:
    """Return the name of a column, or the path to a field, as SQL takes it."""
    if _is_column(df, name):
        return quoted(name)
    steps = re.findall(_STEP, name)
    return ".".join(step if step.startswith("`") else quoted(step) for step in steps)


def top_of(df: DataFrame, name: str) -> str:
    """Return the column that a name, or the path to a field, begins with, as the DataFrame spells it."""
    top = name if _is_column(df, name) else _unquoted(re.findall(_STEP, name)[0])
    return top if top in df.columns else next(one for one in df.columns if one.lower() == top.lower())


def equal_as_spark_sees(df: DataFrame, wanted: KeyColumn) -> Column:
    """Return a column in which equal keys are equal in Python too: -0.0 becomes 0.0, and every NaN the same NaN."""
    found = column(df, wanted)
    kind = df.select(found).schema[0].dataType
    if not isinstance(kind, (DoubleType, FloatType)):
        return found
    return F.when(F.isnan(found), F.lit(float("nan"))).otherwise(found + 0.0).cast(kind)


def key_hash(df: DataFrame, columns: Sequence[KeyColumn]) -> Column:
    """Return the 64-bit hash of the key, computed in the JVM. A null key is 42, as in `hash_keys`."""
    return F.xxhash64(*(column(df, part) for part in columns))


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def _unquoted(step: str) -> str:
    return step[1:-1].replace("``", "`") if step.startswith("`") else step


def free_name(df: DataFrame, wanted: str) -> str:
    """Return a name for a column of ours that no column of the DataFrame has, in any case."""
    taken = {name.lower() for name in df.columns}
    name = f"keyspread_{wanted}"
    while name in taken:
        name += "_"
    return name


def is_not_hashable(kind: DataType) -> bool:
    """Return whether Spark cannot hash values of this type."""
    return isinstance(kind, MapType) or is_variant(kind)


def contains(kind: DataType, is_such: Callable[[DataType], bool]) -> bool:
    """Return whether a type is such a type, or has one within it."""
    if is_such(kind):
        return True
    if isinstance(kind, ArrayType):
        return contains(kind.elementType, is_such)
    if isinstance(kind, MapType):
        return contains(kind.keyType, is_such) or contains(kind.valueType, is_such)
    return isinstance(kind, StructType) and any(contains(field.dataType, is_such) for field in kind.fields)
