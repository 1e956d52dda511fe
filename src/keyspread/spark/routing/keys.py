"""The key of a DataFrame: which columns, whether Spark can hash them, and its 64 bits."""

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

from keyspread.errors import InputError

Key = str | Sequence[str]

_STEP = r"`(?:[^`]|``)+`|[^.`*]+"  # of the way to a field: a name as such, or in backticks with anything in it


def key_columns(df: DataFrame, key: Key) -> list[str]:
    """Give the names of the key's columns, after a check that they are there and can be hashed."""
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"key must be the name of a column or a list of names, got {key!r}")
    for name in names:
        kind = type_of(df, name)
        if _has(MapType, kind):
            raise InputError(
                f"column {name!r} has type {kind.simpleString()}, and Spark cannot hash maps; "
                "use to_json, map_entries or a field of it as key"
            )
        if _has(VariantType, kind):
            raise InputError(
                f"column {name!r} has type {kind.simpleString()}, and Spark cannot hash variants; "
                "use to_json or variant_get as key"
            )
    return names


def type_of(df: DataFrame, name: str) -> DataType:
    """Give the type of a column, or of a field of a struct, after a check that there is one."""
    missing = InputError(f"there is no column {name!r}; the columns are {', '.join(df.columns)}")
    if df.columns.count(name) > 1:
        raise InputError(f"{df.columns.count(name)} columns are called {name!r}; rename them")
    # Looked for here first: asked for what is not there, Spark prints its own account of it beside ours.
    if not _is_column(df, name) and not _is_field(df.schema, name):
        raise missing
    try:
        return df.select(column(df, name)).schema[0].dataType
    except AnalysisException:
        raise missing from None


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
        wanted = step[1:-1].replace("``", "`") if step.startswith("`") else step
        fields = kind.fields if isinstance(kind, StructType) else []
        found = [field for field in fields if field.name.lower() == wanted.lower()]
        if not found:
            return False
        kind = found[0].dataType
    return True


def column(df: DataFrame, name: str) -> Column:
    """Give the column of this name, dots in it or not; a dotted name that is no column is a field of a struct."""
    return F.col(quoted(name) if _is_column(df, name) else name)


def equal_as_spark_sees(df: DataFrame, name: str) -> Column:
    """Give a column for Python, which tells -0.0 from 0.0 and one NaN from another: as keys, Spark does not."""
    found = column(df, name)
    kind = df.select(found).schema[0].dataType
    if not isinstance(kind, (DoubleType, FloatType)):
        return found
    return F.when(F.isnan(found), F.lit(float("nan"))).otherwise(found + 0.0).cast(kind)


def key_hash(df: DataFrame, names: Sequence[str]) -> Column:
    """Give the 64 bits of the key, computed in the JVM. A null key is 42, as in `hash_keys`."""
    return F.xxhash64(*(column(df, name) for name in names))


def quoted(name: str) -> str:
    """Give a name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def free_name(df: DataFrame, wanted: str) -> str:
    """Give a name for a column of ours that none of the DataFrame's has, however it writes capitals."""
    taken = {name.lower() for name in df.columns}
    name = f"keyspread_{wanted}"
    while name in taken:
        name += "_"
    return name


def _has(what: type[DataType], kind: DataType) -> bool:
    if isinstance(kind, what):
        return True
    if isinstance(kind, ArrayType):
        return _has(what, kind.elementType)
    return isinstance(kind, StructType) and any(_has(what, field.dataType) for field in kind.fields)
