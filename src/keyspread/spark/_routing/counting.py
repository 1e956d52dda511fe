"""A sample of the rows that reads a share of the input files, where Spark can leave files out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.checks import least_hot_count
from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.kernels.planned_routing import SLOT_BITS
from keyspread.planned.packing import Counts
from keyspread.planned.plan import buckets_of, chained
from keyspread.spark._engine.capabilities import quiet_analysis, to_arrow
from keyspread.spark._routing.plan_text import is_read_row_by_row
from keyspread.spark._routing.planned_sql import (
    POSITION,
    Steps,
    as_column,
    bucket_of,
    cell_of,
    hot_number,
    look_up,
    slot_of,
)

_NAME = "_metadata.file_name"


def sample_files(df: DataFrame, share: float, seed: int) -> DataFrame | None:
    """Return about this share of the rows from as few files as that takes, or None if the rows are not those of files.

    The share is rounded up to whole files, and of their rows a part is taken at random. Spark knows the name of a file
    before it reads it, so it does not open the others.
    """
    names = [file.rsplit("/", 1)[-1] for file in df.inputFiles()]  # a space is "%20" here and in the metadata
    if not names or _NAME.split(".")[0] in df.columns:
        return None
    # Files are chosen by a hash of seed and name, which Spark computes as we do. So no list of files is in the plan.
    hashes = np.sort(hash_keys([f"{seed}:{name}" for name in names]))
    last = hashes[ceil(share * hashes.size) - 1]
    chosen = int((hashes <= last).sum())  # more if files in several folders have the same name
    try:
        with quiet_analysis():
            some = df.where(F.xxhash64(F.concat(F.lit(f"{seed}:"), F.col(_NAME))) <= int(last))
            some.schema  # noqa: B018
    except AnalysisException:
        return None
    rate = share * hashes.size / chosen
    return some if rate >= 1 else some.sample(fraction=rate, seed=seed)


# Counting for a plan: the load of every bucket and of the hot keys, exactly, in one scan of the key column.
#
#     look: a few thousand rows tell which keys may be hot (candidates)
#     → count: one scan counts every candidate by itself, and all other rows by bucket
#     → look again, only if needed: a bucket whose other rows are many enough for a hot key may contain one
#
# A key is in one bucket. So a bucket below the threshold contains no hot key, and the counts are exact whatever the
# candidates are. Good candidates only make the second look needless.


Cells = Mapping[int, npt.NDArray[np.int64]]
"""How the rows of each key are spread over equal cells of slots."""

HASH, WEIGHT = "hash", "weight"
"""The columns of the rows that are counted. Without weights there is only the first."""

_ROWS_OF_A_LOOK = 20_000  # at most
_SEEN = 20  # rows of a key with a share of the threshold that a look finds on average
_SEEN_OF_CANDIDATE = 1 / 3  # of that: a hot key is missed once in 3,000 times
_CELLS_PER_WORKER = 16  # a hot key is cut to a sixteenth of a worker's load, and evenly within a cell
_CELL_BITS = (3, 10)
_CELL_BITS_OF_SECOND_LOOK = 7


@dataclass(frozen=True)
class Counted:
    """What a plan is made from: the counts, and the cells of each hot key."""

    counts: Counts
    cells: Cells


def look(rows: DataFrame, threshold: float) -> dict[int, float]:
    """Return keys that may be hot, with their share of the first rows; none if a look would cost a whole pass.

    Only rows that are read from storage and computed one by one are looked at: behind a shuffle, the first row needs
    all of the work that comes before the shuffle.
    """
    if not is_read_row_by_row(rows):
        return {}
    read = min(_ROWS_OF_A_LOOK, int(np.ceil(_SEEN / threshold)))
    seen = rows.limit(read).collect()
    hashes, of_row = np.unique(np.array([row[0] for row in seen], np.int64), return_inverse=True)
    weights = np.array([row[1] for row in seen], float).clip(0) if WEIGHT in rows.columns else np.ones(len(seen))
    total = weights.sum() or 1.0
    shares = np.bincount(of_row, weights, minlength=hashes.size) / total
    often = (shares >= threshold * _SEEN_OF_CANDIDATE) & (np.bincount(of_row, minlength=hashes.size) > 1)
    return dict(zip(hashes[often].tolist(), shares[often].tolist(), strict=True))


def count(
    rows: DataFrame, buckets: int, threshold: float, workers: int, candidates: Mapping[int, float] | None = None
) -> Counted:
    """Return exact counts. `candidates` are keys that may be hot, with their share as far as it is known."""
    grouping = _Grouping.of(buckets, workers, candidates or {})
    group = grouping.on(rows)
    sums = to_arrow(group.groupBy("group").agg(*_sums(rows)))
    _check_weights(sums)
    loads = np.zeros(grouping.size, np.int64)
    loads[np.asarray(sums["group"])] = np.asarray(sums["load"])
    tail, cells = loads[:buckets], grouping.cells_of(loads)
    least = max(least_hot_count(threshold, int(loads.sum())), 1)
    uncertain = tail >= least
    if uncertain.any():
        missed = _look_again(rows, uncertain, least, grouping.hashes)
        _add(tail, missed, -1)
        cells |= missed
    cold = {key: counted for key, counted in cells.items() if counted.sum() < least}
    _add(tail, cold, 1)
    cells = {key: counted for key, counted in cells.items() if key not in cold}
    hot = ((key, int(counted.sum())) for key, counted in cells.items())
    return Counted(Counts(tail, tuple(sorted(hot, key=lambda one: (-one[1], one[0])))), cells)


def _add(loads: npt.NDArray[np.int64], cells: Cells, sign: int) -> None:
    """Add the rows of these keys to the loads of their buckets, or take them away."""
    keys = np.fromiter(cells, np.int64, len(cells))
    messages = np.fromiter((counted.sum() for counted in cells.values()), np.int64, len(cells))
    np.add.at(loads, buckets_of(keys, loads.size), sign * messages)


@dataclass(frozen=True)
class _Grouping:
    """The groups that rows are counted in: the buckets, then the cells of each candidate."""

    buckets: int
    hashes: tuple[int, ...]
    bits: npt.NDArray[np.int64]  # candidate k has 2^bits[k] cells

    @classmethod
    def of(cls, buckets: int, workers: int, candidates: Mapping[int, float]) -> "_Grouping":
        shares = np.fromiter(candidates.values(), float, len(candidates))
        needed = np.ceil(np.log2(np.maximum(_CELLS_PER_WORKER * workers * shares, 1)))
        return cls(buckets, tuple(candidates), needed.clip(*_CELL_BITS).astype(np.int64))

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """The first group of each candidate, and the number of groups."""
        return self.buckets + np.concatenate([[0], np.cumsum(1 << self.bits)]).astype(np.int64)

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self.first[-1])

    def on(self, rows: DataFrame) -> DataFrame:
        """Return the rows with their group."""
        steps, in_bucket = Steps(rows), bucket_of(HASH, self.buckets)
        if not self.hashes:
            return steps.result("group", in_bucket)
        keys = np.array(self.hashes, np.int64)
        bucket = steps.add("bucket", in_bucket)
        hot, _, _ = hot_number(steps, HASH, bucket, keys, *chained(keys, np.zeros(self.buckets, np.int64)))
        slot = steps.add("slot", slot_of(steps.add("position", POSITION)))
        cell = cell_of(steps, hot, slot, self.first[:-1], SLOT_BITS - self.bits)
        return steps.result("group", f"CASE WHEN {hot} IS NULL THEN {bucket} ELSE {cell} END")

    def cells_of(self, loads: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[np.int64]]:
        """Return the loads of the cells of each candidate that has any."""
        parts = np.split(loads[self.buckets :], self.first[1:-1] - self.buckets)
        return {key: part for key, part in zip(self.hashes, parts, strict=False) if part.any()}


def _look_again(
    rows: DataFrame, uncertain: npt.NDArray[np.bool_], least: float, known: Iterable[int]
) -> dict[int, npt.NDArray[np.int64]]:
    """Return the cells of all hot keys in these buckets that are not known yet. Reads the rows of the buckets only."""
    cells = 1 << _CELL_BITS_OF_SECOND_LOOK
    steps = Steps(rows)
    slot = slot_of(steps.add("position", POSITION))
    chosen = look_up(rows.sparkSession, uncertain.astype(np.int64), bucket_of(HASH, uncertain.size))
    hot_cells = to_arrow(
        steps.result("cell", f"shiftright({slot}, {SLOT_BITS - _CELL_BITS_OF_SECOND_LOOK})")
        .where(as_column(chosen) == 1)
        .groupBy(HASH, "cell")
        .agg(_load(rows))
        # Only hot keys are collected: a bucket may contain any number of other keys.
        .groupBy(HASH)
        .agg(F.sum("load").alias("messages"), F.collect_list(F.struct("cell", "load")).alias("cells"))
        .where(F.col("messages") >= least)
    )
    hot, already = {}, set(known)
    for row in hot_cells.to_pylist():
        if row[HASH] not in already:
            counted = hot[row[HASH]] = np.zeros(cells, np.int64)
            for one in row["cells"]:
                counted[one["cell"]] = one["load"]
    return hot


def _sums(rows: DataFrame) -> list[Column]:
    return [_load(rows), *([F.min(WEIGHT).alias("least")] if WEIGHT in rows.columns else [])]


def _load(rows: DataFrame) -> Column:
    # A count is cheaper than a sum of ones. A sum that 64 bits cannot hold is null.
    return (F.expr(f"try_sum({WEIGHT})") if WEIGHT in rows.columns else F.count(F.lit(1))).alias("load")


def _check_weights(sums: pa.Table) -> None:
    """Refuse negative weights, and a total that cannot be counted with."""
    if "least" not in sums.column_names or not sums.num_rows:
        return
    least: Any = pc.min(sums["least"]).as_py()
    if least < 0:
        raise InputError(f"a weight must not be negative, got {least}; drop such rows, or set their weight to 0")
    if sums["load"].null_count or np.asarray(sums["load"], np.float64).sum() > checks.LARGEST_TOTAL:
        raise InputError(
            f"the total of all weights must be at most {checks.LARGEST_TOTAL}, it is more; use a larger unit of weight"
        )
