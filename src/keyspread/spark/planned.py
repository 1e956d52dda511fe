"""Planned dealing on Spark: count in SQL, plan on the driver, deal in SQL. No Python touches a row.

`with_planned_worker` is `kernels.dealing.deal_out` written as SQL expressions, step by step: change both or none.
A row's position is Spark's `monotonically_increasing_id`: partition * 2^33 + row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels.dealing import SCATTER, TURNS, Deal
from keyspread.metrics import hot_from
from keyspread.placing import Aim, Counts, place
from keyspread.planning import bucket_count, sharpened
from keyspread.plans import Plan, buckets_of
from keyspread.settings import default_threshold
from keyspread.spark.keys import Key, free_name, key_columns, key_hash
from keyspread.spark.summarised import summarised
from keyspread.spark.weights import Weight, weight_column

CELL_BITS = 7  # hot keys are counted in 128 cells of turns: fine enough to cut them to well below 1 % of a worker


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

    All rows are counted, so no hot key is missed: a first pass counts buckets, and if one of them is heavy enough
    to hold a hot key, a second looks at the rows of those buckets only. With `sample` (a share of the rows, say
    0.05) that share is counted; the load of a worker is then off by a few times sqrt(1 / (rows sampled a worker)),
    relative to its share. With `exact=False` all rows are read once instead of twice: hot keys then come from
    SpaceSaving summaries of the partitions, merged, which know a key's share to a tenth of `threshold`.

    `weight` is a column of whole numbers: the load of a worker is then their sum. `capacities`, `tolerance` and
    `most_moved` are those of `keyspread.plan`. Store the plan with `to_json`, pass it as `previous` to stay close to
    it.

    >>> from keyspread.spark import plan, session
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> plan(rows, "k", workers=4).loads.tolist()
    [250, 250, 250, 250]
    """
    if df.isStreaming:
        raise InputError("a plan needs a bounded DataFrame, got a stream; use an online scheme such as d-choices")
    workers = checks.whole_number("workers", workers)
    threshold = default_threshold(workers) if threshold is None else checks.share("threshold", threshold)
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a keyspread.Plan, got {previous!r}; Plan.from_json reads a stored one")
    count = bucket_count(workers, previous, buckets)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    if sample is not None:
        df = df.sample(fraction=checks.share("sample", sample), seed=seed)
    aim = Aim.of(workers, capacities, tolerance, most_moved)
    own = F.lit(1).cast("bigint") if weight is None else weight_column(df, weight)
    rows = df.select(key_hash(df, key_columns(df, key)).alias("hash"), own.alias("weight"))
    if not exact:
        return place(summarised(rows, count, threshold), aim, previous)
    bucket_loads = _count_buckets(rows, count)
    hot, cells = _count_hot(rows, bucket_loads, threshold)
    tail = bucket_loads.copy()
    np.subtract.at(tail, buckets_of(np.array([h for h, _ in hot], np.int64), count), [messages for _, messages in hot])
    placed = place(Counts(tail, hot), aim, previous)
    # Rows have other positions in a sample than in the whole: where they lie in it would only add noise.
    return placed if sample is not None else sharpened(placed, cells)


def _count_buckets(rows: DataFrame, buckets: int) -> npt.NDArray[np.int64]:
    bucket = bucket_of(F.col("hash"), buckets).alias("bucket")
    found = rows.groupBy(bucket).agg(F.sum("weight").alias("load"), F.min("weight").alias("least")).toArrow()
    if found.num_rows and (least := pc.min(found["least"]).as_py()) < 0:
        raise InputError(f"a weight must not be negative, got {least}; leave such rows out, or give them 0")
    loads = np.zeros(buckets, np.int64)
    loads[np.asarray(found["bucket"])] = np.asarray(found["load"])
    return loads


def _count_hot(
    rows: DataFrame, bucket_loads: npt.NDArray[np.int64], threshold: float
) -> tuple[tuple[tuple[int, int], ...], dict[int, npt.NDArray[np.int64]]]:
    """Give the hot keys with their rows, and how those rows are spread over the cells of turns.

    A key is in one bucket, so a bucket below the threshold has no hot key.
    """
    at_least = hot_from(threshold, int(bucket_loads.sum()))
    heavy = bucket_loads >= max(at_least, 1)
    if not heavy.any():
        return (), {}
    cell = F.shiftright(turn_of(F.monotonically_increasing_id()), 31 - CELL_BITS)
    found = (
        rows.withColumn("cell", cell)
        .where(_at(_array(heavy.astype(np.int64)), bucket_of(F.col("hash"), heavy.size)) == 1)
        .groupBy("hash", "cell")
        .agg(F.sum("weight").alias("rows"))
        # Only hot keys come to the driver: beside them, a heavy bucket may hold any number of others.
        .groupBy("hash")
        .agg(F.sum("rows").alias("messages"), F.collect_list(F.struct("cell", "rows")).alias("cells"))
        .where(F.col("messages") >= at_least)
        .toArrow()
    )
    hot, cells = [], {}
    for row in found.to_pylist():
        hot.append((row["hash"], row["messages"]))
        counted = cells[row["hash"]] = np.zeros(1 << CELL_BITS, np.int64)
        for one in row["cells"]:
            counted[one["cell"]] = one["rows"]
    return tuple(sorted(hot, key=lambda one: (-one[1], one[0]))), cells


def with_planned_worker(df: DataFrame, key: Key, plan: Plan, worker: str) -> DataFrame:
    """Add a column `worker`: a look-up by bucket for most rows, a cut by position for those of hot keys.

    It is built in steps, one column each, because Spark computes a column once and an expression wherever it stands.
    """
    if not plan.head:
        return df.withColumn(worker, owner(key_hash(df, key_columns(df, key)), plan))
    deal = plan._deal
    step = {name: free_name(df, name) for name in ("hash", "bucket", "entry", "hot", "turn", "piece")}
    done = {name: F.col(column) for name, column in step.items()}
    out = df.withColumn(step["hash"], key_hash(df, key_columns(df, key)))
    out = out.withColumn(step["bucket"], bucket_of(done["hash"], plan.buckets.size))
    entry = done["entry"]
    out = out.withColumn(step["entry"], _at(_array(deal.buckets), done["bucket"]))
    out = out.withColumn(step["hot"], F.when(entry < 0, _hot_key(-1 - entry, done["hash"], deal)).otherwise(-1))
    out = out.withColumn(step["turn"], turn_of(F.monotonically_increasing_id()))
    out = out.withColumn(step["piece"], F.when(done["hot"] >= 0, _cell(done["hot"], done["turn"], deal)))
    cut = _at(_array(deal.workers), _piece(done["piece"], done["turn"], deal))
    chosen = F.when(entry >= 0, entry).when(done["hot"] >= 0, cut).otherwise(_at(_array(deal.owners), done["bucket"]))
    return out.withColumn(worker, chosen).drop(*step.values())


def owner(hash_: Column, plan: Plan) -> Column:
    """Give the worker of a key that is not hot: the owner of its bucket."""
    return _at(_array(plan.buckets), bucket_of(hash_, plan.buckets.size))


def _hot_key(first: Column, hash_: Column, deal: Deal) -> Column:
    """Give the number of the row's hot key, -1 if it has none: the first of its bucket or one that follows it."""
    keys, following = _array(deal.keys, "bigint"), deal.chain
    found = F.when(_at(keys, first) == hash_, first)
    while (following >= 0).any():  # the next of each, then the one after it: looked up from the first, not in turn
        hot = _at(_array(following), first)
        found = found.when(_at(keys, hot) == hash_, hot)  # there is no key number -1: null, which equals nothing
        following = np.where(following >= 0, deal.chain[following], -1)
    return found.otherwise(-1)


def _cell(hot: Column, turn: Column, deal: Deal) -> Column:
    within = F.call_function("shiftright", turn, _at(_array(deal.shift), hot))
    return _at(_array(deal.cells), (_at(_array(deal.first_cell), hot) + within).cast("int"))


def _piece(cell: Column, turn: Column, deal: Deal) -> Column:
    """Give the piece of a turn from its cell; where several share the cell, pass over those that end before it."""
    ends = _array(deal.ends, "bigint")
    piece = F.when(cell >= 0, cell)
    for further in range(_most_in_a_cell(deal) - 1):
        piece = piece.when(turn < _at(ends, further - 1 - cell), further - 1 - cell)
    return piece.otherwise(_most_in_a_cell(deal) - 2 - cell)


def _most_in_a_cell(deal: Deal) -> int:
    """Give the largest number of pieces that share one cell."""
    most = 1
    for hot, shift in enumerate(deal.shift.tolist()):
        ends = deal.ends[deal.first[hot] : deal.first[hot + 1]]
        most = max(most, 1 + int(np.bincount(ends[:-1] >> shift, minlength=1).max()))
    return most


def bucket_of(hash_: Column, buckets: int) -> Column:
    """Give the bucket of a key, as `kernels.dealing.bucket_of`."""
    return F.shiftright(_scatter(hash_) * F.lit(buckets).cast("bigint"), 31).cast("int")


def turn_of(position: Column) -> Column:
    """Give the turn of a position, as `kernels.dealing.turn_of`."""
    return _scatter(position)


def _scatter(x: Column) -> Column:
    mask = F.lit(TURNS - 1).cast("bigint")
    folded = x.bitwiseXOR(F.shiftright(x, 32)).bitwiseAND(mask)
    return (folded * F.lit(SCATTER).cast("bigint")).bitwiseAND(mask)  # below 2^62: no overflow under ANSI either


def _array(values: npt.NDArray[Any], kind: str = "int") -> Column:
    """Give a constant array. As one string it is one expression, however long; Spark turns it into an array once."""
    return F.split(F.lit(",".join(map(str, values.tolist()))), ",").cast(f"array<{kind}>")


def _at(array: Column, index: Column) -> Column:
    return F.get(array, index)
