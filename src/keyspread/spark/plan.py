"""`plan`: count a bounded DataFrame in Spark SQL, and plan it on the driver."""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.errors import InputError
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import Plan, buckets_of
from keyspread.planned.planner import bucket_count, cut_by_cells
from keyspread.spark.routing.counting import count_buckets, count_by_summaries, count_hot
from keyspread.spark.routing.keys import Key, key_columns, key_hash
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
    capacities: Sequence[float] | None = None,
    tolerance: float = 0.0,
    most_moved: float | None = None,
    exact: bool = True,
) -> Plan:
    """Count a bounded DataFrame in Spark and plan it: `keyspread.plan` for rows that are not in this process.

    `key` is the name of a column, a Column, or a list of them. All rows are counted, so no hot key is missed. A first
    pass counts buckets. If one of them is heavy enough to contain a hot key, a second pass reads the rows of those
    buckets only. With `sample` (a share of the rows, such as 0.05) only that share is counted. The load of a worker is
    then off by a few times sqrt(1 / (sampled rows per worker)), relative to its share. With `exact=False` all rows are
    read once instead of twice. Hot keys then come from merged SpaceSaving summaries of the partitions, which know the
    share of a key to a tenth of `threshold`.

    If the rows are not the same when they are computed again (`limit` without an order, `rand()` behind a shuffle), the
    counts are not those of the rows that are routed later. Then workers are less balanced, but no row is lost.

    `weight` is a column of whole numbers; the load of a worker is then their sum. `capacities`, `tolerance` and
    `most_moved` are those of `keyspread.plan`. Store the plan with `to_json`, and pass it as `previous` to stay close
    to it the next time.

    >>> from keyspread.spark import plan, session
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> plan(rows, "k", workers=4).loads.tolist()
    [250, 250, 250, 250]
    """
    if df.isStreaming:
        raise InputError("a plan needs a bounded DataFrame, got a stream; use an online scheme such as d-choices")
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a keyspread.Plan, got {previous!r}; Plan.from_json reads a stored one")
    count = bucket_count(workers, previous, buckets)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    if sample is not None:
        df = df.sample(fraction=checks.share("sample", sample), seed=seed)
    aim = Aim.of(workers, capacities, tolerance, most_moved)
    row_weight = F.lit(1).cast("bigint") if weight is None else weight_column(df, weight)
    rows = df.select(key_hash(df, key_columns(df, key)).alias("hash"), row_weight.alias("weight"))
    if not exact:
        return place(count_by_summaries(rows, count, threshold), aim, previous)
    bucket_loads = count_buckets(rows, count)
    hot, cells = count_hot(rows, bucket_loads, threshold)
    tail = bucket_loads.copy()
    np.subtract.at(tail, buckets_of(np.array([h for h, _ in hot], np.int64), count), [messages for _, messages in hot])
    placed = place(Counts(tail, hot), aim, previous)
    # A row has another position in a sample than in the whole, so counts by position would only add noise.
    return placed if sample is not None else cut_by_cells(placed, cells)
