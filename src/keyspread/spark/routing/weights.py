"""The weight of a row: a column, or an expression of columns, that holds whole numbers."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType

from keyspread.errors import InputError
from keyspread.spark.capabilities import is_column
from keyspread.spark.routing.keys import column, field_of, type_of

Weight = str | Column


def weight_column(df: DataFrame, weight: Weight) -> Column:
    """Return the weight as a bigint column, after checking its type. A null weight counts as 0."""
    if not isinstance(weight, str) and not is_column(weight):
        raise InputError(f"weight must be the name of a column, or a column, got {weight!r}")
    kind = type_of(df, weight) if isinstance(weight, str) else field_of("weight", weight, df.select).dataType
    if not isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        raise InputError(
            f"weight {f'{weight!r} ' if isinstance(weight, str) else ''}has type {kind.simpleString()}, "
            "a weight is a whole number: use bytes (length, octet_length), or microseconds instead of seconds"
        )
    return F.coalesce(column(df, weight).cast("bigint"), F.lit(0).cast("bigint"))
