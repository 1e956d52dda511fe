"""The work of a join: rows that go in, and rows that come out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.checks import least_hot_count
from keyspread.kernels.planned_routing import SLOT_BITS
from keyspread.spark._engine.capabilities import to_arrow
from keyspread.spark._joining.keys import JoinKeys, Kind
from keyspread.spark._routing.exchange import spark_hash, value_of_hash
from keyspread.spark._routing.planned_sql import POSITION, as_column, look_up, slot_of


@dataclass(frozen=True)
class Work:
    """The work of a key with l left and r right rows: l + r + cost · output, where the output is mostly l · r.

    >>> inner, left = Work(Kind.INNER, 1.0, False), Work(Kind.LEFT, 1.0, False)
    >>> float(inner.of_key(3, 4)), float(inner.of_key(3, 0)), float(left.of_key(3, 0))
    (19.0, 3.0, 6.0)
    """

    kind: Kind
    cost: float  # of a row of the output, relative to one of the input
    has_condition: bool

    @property
    def matches_once(self) -> bool:
        """Whether a left row needs one partner only, so that the right side can be reduced to distinct keys."""
        return self.kind.has_left_columns_only and not self.has_condition

    def of_key(self, left: Any, right: Any) -> Any:
        """Return the work of keys with this many rows on either side."""
        left, right = np.asarray(left, float), np.asarray(right, float)
        if self.matches_once:
            return left + np.minimum(right, 1) + self.cost * left
        output = left * right
        if self.kind.preserves_left:
            output = np.where(right < 0.5, left, output)
        if self.kind.preserves_right:
            output = np.where(left < 0.5, right, output)
        return left + right + self.cost * output

    def sql(self, left: str, right: str) -> str:
        """Return the same as SQL."""
        if self.matches_once:
            return f"double({left}) * {1 + self.cost!r}D + least({right}, 1)"
        output = f"double({left}) * {right}"
        if self.kind.preserves_left:
            output = f"IF({right} = 0, double({left}), {output})"
        if self.kind.preserves_right:
            output = f"IF({left} = 0, double({right}), {output})"
        return f"double({left}) + {right} + {self.cost!r}D * ({output})"

    def of_input(self, left: Any, right: Any) -> Any:
        """Return the work of rows that go in."""
        return left if self.matches_once else left + right

    def of_output(self, pairs: Any, left: Any, right: Any) -> Any:
        """Return the work of rows that come out of many keys with about this many pairs of partners.

        `left` and `right` are their rows on either side.
        """
        if self.matches_once:
            return self.cost * left
        output = pairs
        if self.kind.preserves_left:
            output = np.maximum(output, left)
        if self.kind.preserves_right:
            output = np.maximum(output, right)
        return self.cost * output


# Salts: numbers behind the join keys that make Spark's own exchange send a row to the worker that a plan wants.
#
# Spark hashes several columns one after the other: the hash of the first ones is the seed for the next. So Spark's hash
# of a key alone is enough to know its hash with any salt. Murmur3 can be undone, so salts are computed, not searched.


Numbers = npt.NDArray[np.int64]


def partitions_of(hashes: Numbers, salts: Numbers, partitions: int) -> Numbers:
    """Return where Spark puts keys with these hashes and salts.

    >>> partitions_of(np.array([42]), np.array([12]), 4)  # 42 is the hash of a null; see `tags`
    array([0])
    """
    found: Numbers = spark_hash(salts, hashes) % partitions
    return found


def salts_of(hashes: Numbers, workers: Numbers, partitions: int) -> Numbers:
    """Return a salt for each piece: of a key with this hash, for this worker.

    Pieces with the same hash have different salts, and none of them is 0, which is that of tail keys.

    >>> salts = salts_of(np.array([42, 42, 42]), np.array([0, 3, 3]), 4)
    >>> partitions_of(np.array([42, 42, 42]), salts, 4).tolist(), len({0, *salts.tolist()})
    ([0, 3, 3], 4)
    """
    own = hashes * partitions + workers  # pieces of one key on one worker have the same number
    order = np.argsort(own, kind="stable")
    first, end = (np.searchsorted(own[order], own, side) for side in ("left", "right"))
    nth = np.empty(own.size, np.int64)
    nth[order] = np.arange(own.size)
    nth -= first
    # Every hash is reached by one salt, so pieces are given the hashes w, w + n, w + 2n, … of their worker.
    salts = value_of_hash(workers + partitions * nth, hashes)
    return np.where(salts == 0, value_of_hash(workers + partitions * (end - first), hashes), salts)


# Counting for a join: the rows of hot keys on both sides exactly, the work of all other keys per partition nearly.
#
#   first: one scan of the key columns of both sides, in one job: rows per bucket, in two halves that a sign tells apart
#   → if the partitions that Spark would make have even work, nothing is hot
#   → second, only if needed: the rows of buckets that may contain a hot key, counted by key
#
# A bucket belongs to one partition. The output of a bucket is the sum of l·r over its keys, which rows per bucket do
# not tell. But each key has a random sign, so the product of the signed sums of both sides is that sum plus products of
# different keys, which cancel out (the sketch of Alon, Matias and Szegedy). A few hundred buckets average out the rest.


SIDES = ("left", "right")
MOST_OF_WHOLE_KEYS = 1.1
"""The busiest partition, as a multiple of the even work, up to which Spark's own join is left alone."""

_BUCKETS, _LEAST_PER_PARTITION = 16_384, 32
_DEVIATIONS = 3  # by which a bucket without a hot key may exceed the median
_CELL_BITS = 10  # of the cells in which the rows of a hot key are counted, so that its parts can be cut exactly
_MOST_HOT = 20  # per worker; keys below the threshold come in because the total is an estimate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HotCount:
    """A key with its rows on both sides, its hash for look-ups, and Spark's hash of it, which a salt continues."""

    value: str
    fingerprint: int
    hash: int
    left: int
    right: int
    cells: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """How its rows of either side are spread over equal cells of slots."""


@dataclass(frozen=True)
class JoinCounts:
    """What a plan is made from.

    `tail` is the work of all other keys in each partition, `nulls` are the rows of either side that have no partner
    because of a null in their key.
    """

    tail: Floats
    hot: tuple[HotCount, ...]
    nulls: tuple[int, int]
    rows: tuple[int, int]


def count_sides(
    left: DataFrame, right: DataFrame, keys: JoinKeys, work: Work, workers: int, threshold: float
) -> JoinCounts:
    """Count both sides of a join."""
    hashed = [_hashed(df, side, keys, workers) for df, side in zip((left, right), SIDES, strict=True)]
    per_partition = max(_BUCKETS // workers, _LEAST_PER_PARTITION)
    buckets = _Buckets.counted(hashed, workers, per_partition)
    natural = buckets.work(work, workers)
    least = max(least_hot_count(threshold, float(natural.sum())), 2.0)
    suspicious = buckets.may_contain(work, least)
    hot: tuple[HotCount, ...] = ()
    if workers > 1 and natural.max() > MOST_OF_WHOLE_KEYS * natural.mean() and suspicious.any():
        hot = _hot_keys(left, right, keys, work, workers, suspicious, least)
        for key, bucket, sign in zip(hot, *_places(hot, workers, per_partition), strict=True):
            buckets.remove(int(bucket), int(sign), key)
        natural = buckets.work(work, workers)
    return JoinCounts(natural, hot, buckets.nulls, buckets.totals)


_ROWS_OF_A_BUCKET = "CASE WHEN part >= 0 THEN (part * {m} + CAST(pmod(shiftright(fp, 1), {m}) AS INT)) * 2 + "
_SIGN = "CAST(fp & 1L AS INT) ELSE -1 END"


def _hashed(df: DataFrame, side: str, keys: JoinKeys, workers: int) -> DataFrame:
    """Return the partition of each row, -1 for rows without a partner, and the fingerprint of its key."""
    part = f"pmod(hash({', '.join(keys.sql_of(side))}, 0), {workers})"
    return df.selectExpr(
        f"CASE WHEN {keys.has_null(side)} THEN -1 ELSE {part} END AS part",
        f"{fingerprint(keys, side)} AS fp",
        f"{SIDES.index(side)} AS side",
    )


def fingerprint(keys: JoinKeys, side: str) -> str:
    """Return the hash by which the hot key of a row is found, as SQL."""
    return f"xxhash64({', '.join(keys.hash_parts(side))})"


@dataclass(frozen=True)
class _Buckets:
    """Rows of either side in each half of each bucket, and those without a partner."""

    halves: npt.NDArray[np.int64]  # by side, bucket and sign
    nulls: tuple[int, int]

    @classmethod
    def counted(cls, hashed: list[DataFrame], workers: int, per_partition: int) -> "_Buckets":
        group = _ROWS_OF_A_BUCKET.format(m=per_partition) + _SIGN
        size = workers * per_partition * 2
        # One number is the group, so that Spark hashes and stores as little as possible per row.
        groups = [df.selectExpr(f"({group}) * 2 + side AS group") for df in hashed]
        found = to_arrow(groups[0].union(groups[1]).groupBy("group").agg(F.count(F.lit(1)).alias("rows")))
        number, rows = np.asarray(found["group"], np.int64), np.asarray(found["rows"], np.int64)
        counts = np.zeros((2, size + 1), np.int64)
        counts[number & 1, number >> 1] = rows  # group -1 is the last one
        nulls = int(counts[0, -1]), int(counts[1, -1])
        return cls(counts[:, :-1].reshape(2, workers * per_partition, 2), nulls)

    @property
    def rows(self) -> tuple[Floats, Floats]:
        """The rows of either side in each bucket."""
        left, right = self.halves.sum(axis=2).astype(float)
        return left, right

    @property
    def totals(self) -> tuple[int, int]:
        """The rows of either side that may have a partner."""
        left, right = self.halves.sum(axis=(1, 2)).tolist()
        return left, right

    def work(self, work: Work, workers: int) -> Floats:
        """Return the estimated work of each partition, with whole keys."""
        signed = (self.halves[:, :, 0] - self.halves[:, :, 1]).astype(float)
        # Only sums are clipped: a single bucket is off by as much as it has, in both directions.
        pairs, most, left, right = (
            values.reshape(workers, -1).sum(axis=1)
            for values in (signed[0] * signed[1], self.rows[0] * self.rows[1], *self.rows)
        )
        found: Floats = work.of_input(left, right) + work.of_output(np.clip(pairs, 0, most), left, right)
        return found

    def may_contain(self, work: Work, least: float) -> npt.NDArray[np.bool_]:
        """Return the buckets that stick out so far that one of their keys may have this much work."""
        own = [np.minimum(rows, rows - _usual(rows)).clip(0) for rows in self.rows]
        found: npt.NDArray[np.bool_] = work.of_key(*own) >= least
        return found

    def remove(self, bucket: int, sign: int, key: HotCount) -> None:
        """Take the rows of a hot key out of its bucket."""
        self.halves[:, bucket, sign] -= np.minimum(self.halves[:, bucket, sign], [key.left, key.right])


def _usual(rows: Floats) -> float:
    """Return the rows that a bucket without a hot key has at least: the median less a few deviations."""
    middle = float(np.median(rows))
    return max(middle - _DEVIATIONS * 1.5 * float(np.median(np.abs(rows - middle))), 0.0)


def _places(
    hot: tuple[HotCount, ...], workers: int, per_partition: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the bucket and the half of each key, as the SQL of the first scan computes them."""

    prints = np.array([key.fingerprint for key in hot], np.int64)
    part = partitions_of(np.array([key.hash for key in hot], np.int64), np.zeros(len(hot), np.int64), workers)
    return part * per_partition + (prints >> 1) % per_partition, prints & 1


def _hot_keys(
    left: DataFrame,
    right: DataFrame,
    keys: JoinKeys,
    work: Work,
    workers: int,
    suspicious: npt.NDArray[np.bool_],
    least: float,
) -> tuple[HotCount, ...]:
    """Return the keys in these buckets that have this much work, those with most work first."""
    per_partition = suspicious.size // workers
    names = [f"key_{number}" for number in range(len(keys.pairs))]
    sides = []
    for df, side in zip((left, right), SIDES, strict=True):
        hashed = df.selectExpr(
            f"CASE WHEN {keys.has_null(side)} THEN -1 ELSE "
            f"pmod(hash({', '.join(keys.sql_of(side))}, 0), {workers}) END AS part",
            f"{fingerprint(keys, side)} AS fp",
            f"hash({', '.join(keys.sql_of(side))}) AS hash",
            f"{POSITION} AS position",
            *(f"{value} AS {name}" for value, name in zip(keys.values(side), names, strict=True)),
        )
        bucket = f"part * {per_partition} + CAST(pmod(shiftright(fp, 1), {per_partition}) AS INT)"
        chosen = look_up(df.sparkSession, suspicious.astype(np.int64), f"CASE WHEN part >= 0 THEN {bucket} END")
        cell = F.expr(f"CAST(shiftright({slot_of('position')}, {SLOT_BITS - _CELL_BITS}) AS INT)").alias("cell")
        own = hashed.where(as_column(chosen) == 1).groupBy("fp", "hash", *names, cell)
        counted = own.agg(F.count(F.lit(1)).alias("rows"))
        fields = ", ".join(f"'{name}', {name}" for name in names)
        sides.append(
            counted.selectExpr(
                "fp",
                "hash",
                f"to_json(named_struct({fields})) AS value",
                f"{'rows' if side == 'left' else '0L'} AS l",
                f"{'rows' if side == 'right' else '0L'} AS r",
                "cell",
            )
        )
    summed = (
        sides[0]
        .union(sides[1])
        .groupBy("fp", "hash")
        .agg(
            F.min("value").alias("value"),
            F.sum("l").alias("l"),
            F.sum("r").alias("r"),
            F.collect_list(F.struct("cell", "l", "r")).alias("cells"),
        )
    )
    found = (
        summed.withColumn("work", F.expr(work.sql("l", "r")))
        .where(F.col("work") >= least)
        .orderBy(F.desc("work"), "fp")
        .limit(_MOST_HOT * workers)
    )
    return tuple(HotCount(row.value, row.fp, row.hash, row.l, row.r, _cells(row.cells)) for row in found.collect())


def _cells(counted: list[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rows = np.zeros((2, 1 << _CELL_BITS), np.int64)
    for cell, left, right in counted:
        rows[:, cell] += left, right
    return tuple(rows[0].tolist()), tuple(rows[1].tolist())
