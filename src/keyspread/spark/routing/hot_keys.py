"""The hottest keys of the rows of a stream: an aggregate that counts them.

Spark's sketch is slower for longer texts, and a key that is a number takes a third of the time of its text. So keys of
simple types are counted as they are, and all others as text.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from keyspread.spark.observed_counts import top_items
from keyspread.spark.routing.keys import KeyColumn, column
from keyspread.spark.watch import TRACKED, key_text

_WHOLE_NUMBERS = (LongType, IntegerType, ShortType, ByteType)
_MOST_TRACKED = 1_000_000  # Spark's own limit


def count_hottest(df: DataFrame, key: Sequence[KeyColumn], many: int) -> Column:
    """Return an aggregate that finds the `many` hottest keys; read its value with `read_hottest`.

    Counts are exact while the sketch has room for all keys, and otherwise off by at most rows / 7,500.
    """
    kind = df.select(column(df, key[0])).schema[0].dataType if len(key) == 1 else None
    is_number = isinstance(kind, _WHOLE_NUMBERS)
    counted = column(df, key[0]) if is_number or isinstance(kind, StringType) else key_text(df, key)
    tracked = min(_MOST_TRACKED, max(TRACKED, 8 * many))
    return top_items(counted, min(many, tracked), tracked, is_text=not is_number)
