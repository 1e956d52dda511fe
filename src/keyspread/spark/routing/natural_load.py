"""The rows of every partition under Spark's own hash partitioning, and the hot keys, of several keys in one scan.

Spark puts a row into partition `pmod(hash(key), n)`. Rows are counted by `pmod(hash(key), B·n)`: bucket b belongs to
partition b mod n, so the loads are exact; and a key is in one bucket, so a bucket below the threshold has no hot key.

    look: the first rows tell which values may be hot (candidates)
    → count: one scan counts every candidate by itself, and all other rows by bucket, for all keys at once
    → look again, only if needed: at the rows of buckets that are heavy enough to contain a hot key that was missed
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.spark.capabilities import to_arrow
from keyspread.spark.routing.keys import KeyColumn, column, key_hash
from keyspread.spark.routing.plan_text import is_read_row_by_row
from keyspread.spark.watch import key_text
from keyspread.threshold import least_hot_count

_FINER = 64
_ROWS_OF_A_LOOK = 20_000
_MOST_CANDIDATES = 64
"""Values per key that are compared with every row; more hot keys than that are found by the second look."""


@dataclass(frozen=True)
class HotValue:
    """A hot key: its value as text (None for null), its hash and its rows."""

    text: str | None
    hash: int
    rows: int


@dataclass
class NaturalLoad:
    """The rows of one key: `buckets` without those of hot keys, which are in `hot`, hottest first."""

    buckets: npt.NDArray[np.int64]
    workers: int
    hot: list[HotValue] = field(default_factory=list)
    hot_buckets: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the number of rows."""
        return int(self.buckets.sum()) + sum(value.rows for value in self.hot)

    @property
    def partitions(self) -> npt.NDArray[np.int64]:
        """Return the rows of every partition."""
        whole = self.buckets.copy()
        for value in self.hot:
            whole[self.hot_buckets[value.hash]] += value.rows
        summed: npt.NDArray[np.int64] = whole.reshape(-1, self.workers).sum(axis=0)
        return summed


def natural_loads(
    df: DataFrame, keys: Sequence[Sequence[KeyColumn]], workers: int, threshold: float
) -> list[NaturalLoad]:
    """Count the rows of every key under `pmod(hash(key), workers)`, and its hot keys; each key is a list of columns."""
    size = _FINER * workers
    rows = df.select(*(part for number, key in enumerate(keys) for part in _parts(df, number, key, size)))
    candidates = _look(rows, len(keys), threshold)
    counted = [NaturalLoad(np.zeros(size, np.int64), workers) for _ in keys]
    found: list[dict[int, tuple[int, int]]] = [{} for _ in keys]  # place of a candidate -> its bucket and rows
    for number, bucket, place, many in _count(rows, candidates):
        if place < 0:
            counted[number].buckets[bucket] += many
        else:
            found[number][place] = (bucket, many)
    for number, load in enumerate(counted):
        total = int(load.buckets.sum()) + sum(many for _, many in found[number].values())
        least = max(least_hot_count(threshold, total), 1)
        for place, (bucket, many) in found[number].items():
            text, hash_ = candidates[number][place]
            _put(load, HotValue(text, hash_, many), bucket, many >= least)
        heavy = np.flatnonzero(load.buckets >= least)
        for text, hash_, bucket, many in _look_again(rows, number, heavy, least):
            load.buckets[bucket] -= many
            _put(load, HotValue(text, hash_, many), bucket, True)
        load.hot.sort(key=lambda value: (-value.rows, value.hash))
    return counted


def _put(load: NaturalLoad, value: HotValue, bucket: int, hot: bool) -> None:
    if hot:
        load.hot.append(value)
        load.hot_buckets[value.hash] = bucket
    else:
        load.buckets[bucket] += value.rows


def _parts(df: DataFrame, number: int, key: Sequence[KeyColumn], size: int) -> list[Column]:
    """Return the bucket of a key under Spark's partitioning, its 64-bit hash, and its value."""
    columns = [column(df, part) for part in key]
    return [
        F.pmod(F.hash(*columns), F.lit(size)).alias(f"bucket{number}"),
        key_hash(df, key).alias(f"hash{number}"),
        key_text(df, key).alias(f"text{number}"),
    ]


def _look(rows: DataFrame, keys: int, threshold: float) -> list[list[tuple[str | None, int]]]:
    """Return the values that are frequent among the first rows, most frequent first, with their hashes."""
    if not is_read_row_by_row(rows):
        return [[] for _ in range(keys)]
    seen = to_arrow(rows.limit(_ROWS_OF_A_LOOK))
    found = []
    for number in range(keys):
        hashes = np.asarray(seen[f"hash{number}"], np.int64)
        distinct, first, many = np.unique(hashes, return_index=True, return_counts=True)
        often = np.flatnonzero((many > 1) & (many >= threshold / 3 * hashes.size))
        often = often[np.argsort(-many[often], kind="stable")][:_MOST_CANDIDATES]
        texts = seen[f"text{number}"]
        found.append([(texts[int(first[place])].as_py(), int(distinct[place])) for place in often])
    return found


def _count(rows: DataFrame, candidates: list[list[tuple[str | None, int]]]) -> list[tuple[int, int, int, int]]:
    """Return key, bucket, candidate (-1: none) and rows of every group, in one scan for all keys."""
    groups = []
    for number, values in enumerate(candidates):
        # As SQL text, because `array_position` takes no column before Spark 4.0.
        hashes = ", ".join(f"CAST({hash_} AS BIGINT)" for _, hash_ in values)
        place = F.expr(f"CAST(array_position(array({hashes}), hash{number}) AS INT) - 1" if values else "-1")
        groups.append(
            F.struct(F.lit(number).alias("key"), F.col(f"bucket{number}").alias("bucket"), place.alias("place"))
        )
    if len(groups) == 1:
        one = rows.select(groups[0].alias("one"))
    else:
        one = rows.select(F.explode(F.array(*groups)).alias("one"))
    table = to_arrow(one.select("one.*").groupBy("key", "bucket", "place").agg(F.count(F.lit(1)).alias("rows")))
    columns = [table[name].to_pylist() for name in ("key", "bucket", "place", "rows")]
    return list(zip(*columns, strict=True))


def _look_again(
    rows: DataFrame, number: int, heavy: npt.NDArray[np.int64], least: float
) -> list[tuple[str | None, int, int, int]]:
    """Return the hot keys in these buckets that the first look did not know. Reads nothing if there are none."""
    if not heavy.size:
        return []
    bucket, hash_, text = (f"{name}{number}" for name in ("bucket", "hash", "text"))
    table = to_arrow(
        rows.where(F.col(bucket).isin(heavy.tolist()))
        .groupBy(bucket, hash_)
        .agg(F.count(F.lit(1)).alias("rows"), F.first(text).alias("text"))
        .where(F.col("rows") >= least)
    )
    columns = [table[name].to_pylist() for name in ("text", hash_, bucket, "rows")]
    return list(zip(*columns, strict=True))
