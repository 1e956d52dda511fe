"""Which types a key may have if rows are grouped in Python: those that Python and Spark compare alike."""

from collections.abc import Sequence

from pyspark.sql import types as T
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from keyspread.errors import InputError
from keyspread.spark.routing.keys import KeyColumn

# Compared with Spark's groupBy in test_operator_parts.py, each of them.
_COMPARED = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.NullType,
)


def check_key_types(names: Sequence[KeyColumn], fields: Sequence[StructField]) -> None:
    """Refuse, before the query starts, keys that would be grouped differently than by Spark, or not at all."""
    for name, field in zip(names, fields, strict=True):
        wrong = _not_compared(field.dataType)
        if wrong is not None:
            remedy = (
                f"pass a key without it, such as F.lower({field.name!r}).cast('string collate UTF8_BINARY')"
                if isinstance(wrong, StringType)
                else "cast it, for example to string"
            )
            raise InputError(
                f"key {name!r} has type {field.dataType.simpleString()}, and an Operator groups rows in Python, which "
                f"compares {wrong.simpleString()} in another way than Spark, or not at all: {remedy}"
            )


def _not_compared(kind: DataType) -> DataType | None:
    if isinstance(kind, ArrayType):
        return _not_compared(kind.elementType)
    if isinstance(kind, StructType):
        return next((wrong for field in kind.fields if (wrong := _not_compared(field.dataType)) is not None), None)
    if isinstance(kind, StringType):
        return None if getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY" else kind
    return None if isinstance(kind, _COMPARED) else kind
