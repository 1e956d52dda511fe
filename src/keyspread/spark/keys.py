"""The key of a DataFrame: which columns, whether Spark can hash them, and its 64 bits."""

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from keyspread.errors import InputError

Key = str | Sequence[str]


def key_columns(df: DataFrame, key: Key) -> list[str]:
    """Give the names of the key's columns, after a check that they are there and can be hashed."""
    names = [key] if isinstance(key, str) else list(key)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"key must be the name of a column or a list of names, got {key!r}")
    for name in names:
        try:
            kind = df.select(column(df, name)).schema[0].dataType
        except AnalysisException:
            raise InputError(f"there is no column {name!r}; the columns are {', '.join(df.columns)}") from None
        if _has_map(kind):
            raise InputError(
                f"column {name!r} has type {kind.simpleString()}, and Spark cannot hash maps; "
                "use to_json, map_entries or a field of it as key"
            )
    return names


def column(df: DataFrame, name: str) -> Column:
    """Give the column of this name, dots in it or not; a dotted name that is no column is a field of a struct."""
    return F.col(quoted(name) if name in df.columns else name)


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


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, StructType) and any(_has_map(field.dataType) for field in kind.fields)
