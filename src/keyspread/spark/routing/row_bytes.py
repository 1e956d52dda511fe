"""The size of a row: about the bytes that it takes in a file before compression."""

import re
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from keyspread.errors import InputError
from keyspread.spark.routing.keys import quoted

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_WIDTHS: dict[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
}


def size_in_bytes(name: str, value: Any) -> int:
    """Return a size such as "256MB" or "64m" in bytes; a whole number is one already.

    >>> size_in_bytes("target", "256MB"), size_in_bytes("target", 1000)
    (268435456, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", str(value), re.IGNORECASE)
    size = 0.0 if found is None else float(found[1]) * _UNITS[found[2].lower()]
    if isinstance(value, (bool, float)) or not 1 <= size < 2**63:
        raise InputError(f"{name} must be a size such as '256MB', or a number of bytes, got {value!r:.100}")
    return int(size)


def bytes_of_row(df: DataFrame, without: set[str]) -> str:
    """Return the bytes of a row as SQL; columns `without` are in the path of a file, not in it."""
    fixed, texts = 0, []
    for field in df.schema.fields:
        if field.name.lower() in without:
            continue
        kind, name = field.dataType, quoted(field.name)
        if isinstance(kind, (T.StringType, T.BinaryType)):
            texts.append(f"coalesce(octet_length({name}), 0)")
            fixed += 4
        elif isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
            texts.append(f"coalesce(octet_length(to_json(named_struct('value', {name}))), 0)")
        elif isinstance(kind, T.DecimalType):
            fixed += 8 if kind.precision <= 18 else 16
        else:
            fixed += _WIDTHS.get(type(kind), 8)
    return " + ".join([f"{max(fixed, 1)}L", *texts])
