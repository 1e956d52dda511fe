"""The hottest keys of the rows that pass: what Spark counts, and how it is read back as (hash, text, rows).

Spark's sketch costs more for a longer text: a key that is a number takes a tenth of the time that '<hash>:<text>'
takes, a short string a third. So keys of simple types are counted as such, and hashed here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType, StringType

from keyspread.hashing import hash_keys
from keyspread.spark.routing.keys import column, key_hash
from keyspread.spark.watch import TRACKED, key_text

HotKeys = list[tuple[int, str | None, int]]

_MOST_TRACKED = 1_000_000  # Spark's own limit
_SIMPLE: dict[DataType, Any] = {
    StringType(): pa.string(),
    LongType(): pa.int64(),
    IntegerType(): pa.int32(),
    ShortType(): pa.int16(),
    ByteType(): pa.int8(),
}


def count_hottest(df: DataFrame, names: Sequence[str], many: int) -> tuple[Column, Callable[[Any], HotKeys]]:
    """Give an aggregate that finds the `many` hottest keys, and what reads its value, hottest first.

    Counts are exact while the sketch has room for all keys, and off by rows / 7,500 at most otherwise.
    """
    kind = df.select(column(df, names[0])).schema[0].dataType if len(names) == 1 else None
    simple = _SIMPLE.get(kind) if kind is not None else None
    if simple is not None:
        return _top(column(df, names[0]), many), lambda found: _simple(_pairs(found), simple)
    # A null key has no text and no colon.
    both = F.concat_ws(":", key_hash(df, names).cast("string"), key_text(df, names))
    return _top(both, many), lambda found: _both(_pairs(found))


def _top(key: Column, many: int) -> Column:
    tracked = min(_MOST_TRACKED, max(TRACKED, 8 * many))
    return F.call_function("approx_top_k", key, F.lit(min(many, tracked)), F.lit(tracked))


def _simple(found: Sequence[tuple[Any, int]], kind: pa.DataType) -> HotKeys:
    hashes = hash_keys(pa.array([key for key, _ in found], kind)).tolist()
    return [
        (hashed, None if key is None else str(key), rows) for hashed, (key, rows) in zip(hashes, found, strict=True)
    ]


def _both(found: Iterable[tuple[str, int]]) -> HotKeys:
    parts = [(*item.partition(":"), rows) for item, rows in found]
    return [(int(hashed), text if colon else None, rows) for hashed, colon, text, rows in parts]


def _pairs(found: Any) -> list[tuple[Any, int]]:
    """Read what approx_top_k gives: Rows, under Spark Connect dicts."""
    return [(item["item"], int(item["count"])) for item in found or ()]
