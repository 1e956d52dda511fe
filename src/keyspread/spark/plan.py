"""`plan`: count a bounded DataFrame in Spark SQL, and plan it on the driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.planned.packing import Aim, place
from keyspread.planned.plan import Plan
from keyspread.planned.planner import bucket_count, cut_by_cells
from keyspread.spark._engine.capabilities import described
from keyspread.spark._routing.counting import HASH, WEIGHT, Counted, count, look, sample_files
from keyspread.spark._routing.keys import Key, KeyColumn, key_columns, key_hash, key_texts
from keyspread.spark._routing.options import Weight, weight_column


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
    slack: float = 0.0,
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

    `weight` is a column of whole numbers; the load of a worker is then their sum. Store the plan with `to_json`, and
    pass it as `previous` to stay close to it the next time: buckets and hot keys keep their workers as far as balance
    allows, and `slack` and `most_moved` say how much balance that may cost.

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
        slack: The imbalance that is allowed to move fewer keys.
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
    workers = checks.whole_number("workers", workers)
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a keyspread.Plan, got {previous!r}; Plan.from_json reads a stored one")
    slack = checks.not_negative("slack", slack)
    most = None if most_moved is None else checks.not_negative("most_moved", most_moved)
    size = bucket_count(workers, previous, buckets)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    share = None if sample is None else checks.share("sample", sample)
    counted = count_rows(
        df,
        key,
        workers,
        threshold=threshold,
        weight=weight,
        buckets=size,
        known=_hot_before(previous),
        sample=None if share is None else (share, seed),
    )
    return counted.plan(previous, Aim(workers, slack=slack, most_moved=most))


@dataclass(frozen=True)
class CountedRows:
    """The counts of a DataFrame, and what is planned from them."""

    counted: Counted
    workers: int
    is_sample: bool

    def plan(self, previous: Plan | None = None, aim: Aim | None = None) -> Plan:
        """Return the plan that cuts hot keys where balance needs it."""
        placed = place(self.counted.counts, aim or Aim(self.workers), previous)
        # A row has another position in a sample than in the whole, so counts by position would only add noise.
        return placed if self.is_sample else cut_by_cells(placed, self.counted.cells)


def count_rows(
    df: DataFrame,
    key: Key,
    workers: int,
    *,
    threshold: float | None = None,
    weight: Weight | None = None,
    buckets: int | None = None,
    known: Mapping[int, float] = MappingProxyType({}),
    sample: tuple[float, int] | None = None,
) -> CountedRows:
    """Count the rows of each bucket and hot key. The caller has checked workers, buckets and sample.

    `known` are keys that may be hot, with their share. `sample` is a share of the rows and the seed that picks them.
    """
    if df.isStreaming:
        raise InputError("a plan needs a bounded DataFrame, got a stream; use an online scheme such as d-choices")
    columns, share_of_hot = key_columns(df, key), checked_threshold(threshold, workers)
    size = buckets or bucket_count(workers, None, None)

    def counted(df: DataFrame, candidates: Mapping[int, float]) -> Counted:
        return count(_hashed(df, columns, weight), size, share_of_hot, workers, candidates)

    with described(df.sparkSession, f"counting {', '.join(key_texts(columns))}"):
        if sample is None:
            candidates = {**known, **look(_hashed(df, columns, weight), share_of_hot)}
            return CountedRows(counted(df, candidates), workers, is_sample=False)
        share, seed = sample
        files = sample_files(df, share, seed)
        of_files = None if files is None else counted(files, {})
        if of_files is not None and of_files.counts.total:  # otherwise the rows may be those of other files
            return CountedRows(of_files, workers, is_sample=True)
        return CountedRows(counted(df.sample(fraction=share, seed=seed), {}), workers, is_sample=True)


def _hashed(df: DataFrame, columns: Sequence[KeyColumn], weight: Weight | None) -> DataFrame:
    weights = [] if weight is None else [weight_column(df, weight).alias(WEIGHT)]
    return df.select(key_hash(df, columns).alias(HASH), *weights)


def _hot_before(previous: Plan | None) -> dict[int, float]:
    """Return the hot keys of the previous plan with their shares: they may still be hot."""
    if previous is None:
        return {}
    shares = previous.pieces.messages / max(int(previous.loads.sum()), 1)
    return dict(zip(previous.pieces.hashes.tolist(), shares.tolist(), strict=True))
