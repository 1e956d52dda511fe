"""What a live page shows beyond a `StreamWatch`: the load by plain hashing, and the workers of the hottest keys."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.spark.capabilities import has_function
from keyspread.spark.observed_counts import read_counts, top_items
from keyspread.spark.routing.keys import KeyColumn, column, free_name, in_sql
from keyspread.spark.watch import TRACKED, key_text, worker_loads

_MOST_PAIRS = 10_000
"""Most pairs of a hot key and a worker that are counted."""


def observe_for_page(
    routed: DataFrame, name: str, seen: Sequence[Column], key: Sequence[KeyColumn], workers: int, worker: str, many: int
) -> DataFrame:
    """Return the same rows, observed under this name: `seen`, and the counts `by_hash` and `pairs`.

    `by_hash` counts the rows per partition of Spark's own hash partitioning; read it with `read_loads`. `pairs` finds
    the workers of the `many` hottest keys; read it with `read_pairs`. It is left out where Spark has no `approx_top_k`.
    """
    hashed = free_name(routed, "by_hash")
    rows = routed.withColumn(hashed, F.pmod(F.hash(*(column(routed, part) for part in key)), F.lit(workers)))
    counts = [*seen, worker_loads(rows, in_sql(rows, hashed), workers).alias("by_hash")]
    if many and has_function(routed.sparkSession, "approx_top_k"):
        counts.append(_top_pairs(rows, key, worker, min(_MOST_PAIRS, many * workers)).alias("pairs"))
    return rows.observe(name, *counts).drop(hashed)


def _top_pairs(df: DataFrame, key: Sequence[KeyColumn], worker: str, many: int) -> Column:
    text = F.coalesce(F.concat(F.lit("="), key_text(df, key)), F.lit("null"))
    pair = F.concat(F.col(worker).cast("string"), text)
    return top_items(pair, many, max(TRACKED, 2 * many), is_text=True)


def read_pairs(text: str | None) -> dict[str | None, tuple[int, ...]]:
    """Return the workers of each key, from texts such as '3=anna' for a key and '3null' for the null key.

    >>> read_pairs("=[{3=a=b, 7}, {1null, 2}, {0=a=b, 1}]")
    {'a=b': (0, 3), None: (1,)}
    """
    found: dict[str | None, set[int]] = {}
    for pair, _ in read_counts(text):
        worker, mark, key = (pair or "").partition("=")
        found.setdefault(key if mark else None, set()).add(int(worker.removesuffix("null")))
    return {key: tuple(sorted(workers)) for key, workers in found.items()}
