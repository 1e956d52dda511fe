"""The weight of a row: a column, or an expression of columns, that gives whole numbers."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType

from keyspread.errors import InputError
from keyspread.spark.routing.keys import column, type_of

Weight = str | Column


def weight_column(df: DataFrame, weight: Weight) -> Column:
    """Give the weight as a bigint, after a check that it is one; a row whose weight is null weighs nothing."""
    if not isinstance(weight, (str, Column)):
        raise InputError(f"weight must be the name of a column, or a column, got {weight!r}")
    if isinstance(weight, str):
        kind, found = type_of(df, weight), column(df, weight)
    else:
        kind, found = df.select(weight).schema[0].dataType, weight
    if not isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        raise InputError(
            f"weight {f'{weight!r} ' if isinstance(weight, str) else ''}has type {kind.simpleString()}, "
            "a weight is a whole number: give bytes (length, octet_length), or microseconds instead of seconds"
        )
    return F.coalesce(found.cast("bigint"), F.lit(0).cast("bigint"))
