"""Route by a plan in Spark SQL: no Python per row.

The expressions compute what `kernels/planned_routing.py` computes, step by step: change both or none. The position of a
row is Spark's `monotonically_increasing_id`: partition * 2^33 + row.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.kernels.planned_routing import SCATTER, TURNS, Deal
from keyspread.planned.plan import Plan
from keyspread.spark.routing.keys import Key, free_name, key_columns, key_hash


def with_planned_worker(df: DataFrame, key: Key, plan: Plan, worker: str) -> DataFrame:
    """Add a column `worker`: a look-up by bucket for most rows, a cut by position for those of hot keys.

    It is built in steps, one column each, because Spark computes a column once and an expression wherever it stands.
    """
    if not plan.head:
        return df.withColumn(worker, owner(key_hash(df, key_columns(df, key)), plan))
    deal = plan.table
    step = {name: free_name(df, name) for name in ("hash", "bucket", "entry", "hot", "turn", "piece")}
    done = {name: F.col(column) for name, column in step.items()}
    out = df.withColumn(step["hash"], key_hash(df, key_columns(df, key)))
    out = out.withColumn(step["bucket"], bucket_of(done["hash"], plan.buckets.size))
    entry = done["entry"]
    out = out.withColumn(step["entry"], element(constant_array(deal.buckets), done["bucket"]))
    out = out.withColumn(step["hot"], F.when(entry < 0, _hot_key(-1 - entry, done["hash"], deal)).otherwise(-1))
    out = out.withColumn(step["turn"], turn_of(F.monotonically_increasing_id()))
    out = out.withColumn(step["piece"], F.when(done["hot"] >= 0, _cell(done["hot"], done["turn"], deal)))
    cut = element(constant_array(deal.workers), _piece(done["piece"], done["turn"], deal))
    chosen = (
        F.when(entry >= 0, entry)
        .when(done["hot"] >= 0, cut)
        .otherwise(element(constant_array(deal.owners), done["bucket"]))
    )
    return out.withColumn(worker, chosen).drop(*step.values())


def owner(hash_: Column, plan: Plan) -> Column:
    """Give the worker of a key that is not hot: the owner of its bucket."""
    return element(constant_array(plan.buckets), bucket_of(hash_, plan.buckets.size))


def _hot_key(first: Column, hash_: Column, deal: Deal) -> Column:
    """Give the number of the row's hot key, -1 if it has none: the first of its bucket or one that follows it."""
    keys, following = constant_array(deal.keys, "bigint"), deal.chain
    found = F.when(element(keys, first) == hash_, first)
    while (following >= 0).any():  # the next of each, then the one after it: looked up from the first, not in turn
        hot = element(constant_array(following), first)
        found = found.when(element(keys, hot) == hash_, hot)  # there is no key number -1: null, which equals nothing
        following = np.where(following >= 0, deal.chain[following], -1)
    return found.otherwise(-1)


def _cell(hot: Column, turn: Column, deal: Deal) -> Column:
    within = F.call_function("shiftright", turn, element(constant_array(deal.shift), hot))
    return element(constant_array(deal.cells), (element(constant_array(deal.first_cell), hot) + within).cast("int"))


def _piece(cell: Column, turn: Column, deal: Deal) -> Column:
    """Give the piece of a turn from its cell; where several share the cell, pass over those that end before it."""
    ends = constant_array(deal.ends, "bigint")
    piece = F.when(cell >= 0, cell)
    for further in range(_most_in_a_cell(deal) - 1):
        piece = piece.when(turn < element(ends, further - 1 - cell), further - 1 - cell)
    return piece.otherwise(_most_in_a_cell(deal) - 2 - cell)


def _most_in_a_cell(deal: Deal) -> int:
    """Give the largest number of pieces that share one cell."""
    most = 1
    for hot, shift in enumerate(deal.shift.tolist()):
        ends = deal.ends[deal.first[hot] : deal.first[hot + 1]]
        most = max(most, 1 + int(np.bincount(ends[:-1] >> shift, minlength=1).max()))
    return most


def bucket_of(hash_: Column, buckets: int) -> Column:
    """Give the bucket of a key, as `kernels.planned_routing.bucket_of`."""
    return F.shiftright(_scatter(hash_) * F.lit(buckets).cast("bigint"), 31).cast("int")


def turn_of(position: Column) -> Column:
    """Give the turn of a position, as `kernels.planned_routing.turn_of`."""
    return _scatter(position)


def _scatter(x: Column) -> Column:
    mask = F.lit(TURNS - 1).cast("bigint")
    folded = x.bitwiseXOR(F.shiftright(x, 32)).bitwiseAND(mask)
    return (folded * F.lit(SCATTER).cast("bigint")).bitwiseAND(mask)  # below 2^62: no overflow under ANSI either


def constant_array(values: npt.NDArray[Any], kind: str = "int") -> Column:
    """Give a constant array. As one string it is one expression, however long; Spark turns it into an array once."""
    return F.split(F.lit(",".join(map(str, values.tolist()))), ",").cast(f"array<{kind}>")


def element(array: Column, index: Column) -> Column:
    """Return an element of an array column, null outside of it."""
    return F.get(array, index)
