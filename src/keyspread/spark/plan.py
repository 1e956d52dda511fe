"""`plan`: count a bounded DataFrame in Spark SQL, and plan it on the driver."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.errors import InputError
from keyspread.planned.packing import Aim, place
from keyspread.planned.plan import Plan
from keyspread.planned.planner import bucket_count, cut_by_cells
from keyspread.schemes import PLANNED, resolve
from keyspread.spark.job_description import described
from keyspread.spark.routing.counting import HASH, WEIGHT, Counted, count, look
from keyspread.spark.routing.file_sample import sample_files
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns, key_hash, key_texts
from keyspread.spark.routing.weights import Weight, weight_column
from keyspread.threshold import checked_threshold


def plan(
    df: DataFrame,
    key: Key,
    workers: int,
    *,
    previous: Plan | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    weight: Weight | None = None,
    tolerance: float = 0.0,
    most_moved: float | None = None,
) -> Plan:
    """Count a bounded DataFrame in Spark and plan it: `keyspread.plan` for rows that are not in this process.

    `key` is the name of a column, a Column, or a list of them. All rows are counted, in one scan of the key column and
    exactly, so no hot key is missed. A look at a few thousand rows comes first, to know which keys to count by
    themselves. If it missed a hot key (rows sorted by key, for example), a second scan reads the rows of the buckets
    that are heavy enough to contain one.

    With `sample` (a share of the rows, such as 0.05) only that share is counted. Of rows that are read from files, only
    as many files are read as that takes, chosen by `seed`; otherwise all rows are read. The load of a worker is then
    off by a few times sqrt(1 / (sampled rows per worker)), relative to its share, if all files have the same mix of
    keys.

    If the rows are not the same when they are computed again (`limit` without an order, `rand()` behind a shuffle), the
    counts are not those of the rows that are routed later. Then workers are less balanced, but no row is lost.

    `weight` is a column of whole numbers; the load of a worker is then their sum. `tolerance` and `most_moved` are
    those of `keyspread.plan`. Store the plan with `to_json`, and pass it as `previous` to stay close to it the next
    time.

    Args:
        df: The rows, bounded.
        key: The name of a column, a Column, or a list of them.
        workers: The number of workers, which is the number of partitions.
        previous: A plan to stay close to.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        buckets: The number of hash buckets, by default 64 per worker.
        sample: The share of the rows that is counted, by default all.
        seed: Chooses the sample.
        weight: A column of whole numbers to balance instead of rows.
        tolerance: How far above its share a worker may be to move fewer keys.
        most_moved: The largest share of the rows that may move to another worker than in `previous`.

    Returns:
        The plan, which routes rows by their key and position.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import plan, session
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> plan(rows, "k", workers=4).loads.tolist()
    [250, 250, 250, 250]
    """
    return count_rows(
        df,
        key,
        workers,
        previous=previous,
        threshold=threshold,
        buckets=buckets,
        sample=sample,
        seed=seed,
        weight=weight,
        tolerance=tolerance,
        most_moved=most_moved,
    ).plan()


@dataclass(frozen=True)
class CountedRows:
    """The counts of a DataFrame and the goal of its plan."""

    counted: Counted
    aim: Aim
    previous: Plan | None
    is_sample: bool

    def plan(self) -> Plan:
        """Return the plan that cuts hot keys where balance needs it."""
        placed = place(self.counted.counts, self.aim, self.previous)
        # A row has another position in a sample than in the whole, so counts by position would only add noise.
        return placed if self.is_sample else cut_by_cells(placed, self.counted.cells)

    def plan_of_whole_keys(self) -> Plan:
        """Return the plan that cuts no key: partitions by the hash of the key, buckets packed evenly."""
        return place(self.counted.whole, self.aim, self.previous)


def count_rows(
    df: DataFrame,
    key: Key,
    workers: int,
    *,
    previous: Plan | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    weight: Weight | None = None,
    tolerance: float = 0.0,
    most_moved: float | None = None,
) -> CountedRows:
    """Check the arguments of `plan` and count the rows."""
    if df.isStreaming:
        raise InputError("a plan needs a bounded DataFrame, got a stream; use an online scheme such as d-choices")
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a keyspread.Plan, got {previous!r}; Plan.from_json reads a stored one")
    size = bucket_count(workers, previous, buckets)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    share = None if sample is None else checks.share("sample", sample)
    aim = Aim.of(workers, tolerance, most_moved)
    columns = key_columns(df, key)

    def counted(df: DataFrame, candidates: Mapping[int, float]) -> Counted:
        return count(_hashed(df, columns, weight), size, threshold, workers, candidates)

    with described(df.sparkSession, f"counting {', '.join(key_texts(columns))}"):
        if share is None:
            candidates = _hot_before(previous) | look(_hashed(df, columns, weight), threshold)
            return CountedRows(counted(df, candidates), aim, previous, is_sample=False)
        files = sample_files(df, share, seed)
        found = None if files is None else counted(files, {})
        if found is None or not found.counts.total:  # the rows may be those of other files
            found = counted(df.sample(fraction=share, seed=seed), {})
        return CountedRows(found, aim, previous, is_sample=True)


def _hashed(df: DataFrame, columns: Sequence[KeyColumn], weight: Weight | None) -> DataFrame:
    weights = [] if weight is None else [weight_column(df, weight).alias(WEIGHT)]
    return df.select(key_hash(df, columns).alias(HASH), *weights)


def _hot_before(previous: Plan | None) -> dict[int, float]:
    """Return the hot keys of the previous plan with their shares: they may still be hot."""
    if previous is None:
        return {}
    shares = previous.pieces.messages / max(int(previous.loads.sum()), 1)
    return dict(zip(previous.pieces.hashes.tolist(), shares.tolist(), strict=True))


_OPTIONS = [name for name, p in inspect.signature(plan).parameters.items() if p.kind is p.KEYWORD_ONLY]


def plan_options(plan: Plan | None, workers: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `plan`; check the plan if there is one, which takes no options."""
    used = resolve(PLANNED).accept(options, also=_OPTIONS)
    if plan is None:
        return used
    if used:
        raise InputError(f"plan= is given, so {min(used)!r} has no effect; leave one of them out")
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be a keyspread.Plan, got {plan!r}; Plan.from_json reads a stored one")
    if plan.workers != workers:
        raise InputError(f"the plan is for {plan.workers} workers, not for {workers}; make a new one with previous=")
    return {}
