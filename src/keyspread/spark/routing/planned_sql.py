"""Routing by a plan in Spark SQL: no Python per row.

The expressions compute the same as `kernels/planned_routing.py`, step by step. Change both or none. The position of a
row is Spark's `monotonically_increasing_id`: partition * 2^33 + row.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.kernels.planned_routing import SCATTER, SLOTS, RoutingTable
from keyspread.planned.plan import Plan
from keyspread.spark.routing.keys import free_name


def with_planned_worker(df: DataFrame, hash_: Column, plan: Plan, worker: str) -> DataFrame:
    """Return the rows with a column `worker`: looked up by bucket for most rows, by position for hot keys.

    Each step is a column of its own, because Spark computes a column once but an expression wherever it is used.
    """
    if not plan.head:
        return df.withColumn(worker, owner(hash_, plan))
    table = plan.table
    step = {name: free_name(df, name) for name in ("hash", "bucket", "entry", "hot", "slot", "piece")}
    done = {name: F.col(column) for name, column in step.items()}
    out = df.withColumn(step["hash"], hash_)
    out = out.withColumn(step["bucket"], bucket_of(done["hash"], plan.buckets.size))
    entry = done["entry"]
    out = out.withColumn(step["entry"], element(constant_array(table.buckets), done["bucket"]))
    out = out.withColumn(step["hot"], F.when(entry < 0, _hot_key(-1 - entry, done["hash"], table)).otherwise(-1))
    out = out.withColumn(step["slot"], slot_of(F.monotonically_increasing_id()))
    out = out.withColumn(step["piece"], F.when(done["hot"] >= 0, _cell(done["hot"], done["slot"], table)))
    cut = element(constant_array(table.workers), _piece(done["piece"], done["slot"], table))
    chosen = (
        F.when(entry >= 0, entry)
        .when(done["hot"] >= 0, cut)
        .otherwise(element(constant_array(table.owners), done["bucket"]))
    )
    return out.withColumn(worker, chosen).drop(*step.values())


def owner(hash_: Column, plan: Plan) -> Column:
    """Return the worker of a key that is not hot: the owner of its bucket."""
    return element(constant_array(plan.buckets), bucket_of(hash_, plan.buckets.size))


def _hot_key(first: Column, hash_: Column, table: RoutingTable) -> Column:
    """Return the number of the row's hot key, or -1: the first one of its bucket or one that follows it."""
    keys, following = constant_array(table.keys, "bigint"), table.chain
    found = F.when(element(keys, first) == hash_, first)
    while (following >= 0).any():  # `following` maps the first key to the next one, then to the one after it, …
        hot = element(constant_array(following), first)
        found = found.when(element(keys, hot) == hash_, hot)  # key number -1 does not exist: null, which equals nothing
        following = np.where(following >= 0, table.chain[following], -1)
    return found.otherwise(-1)


def _cell(hot: Column, slot: Column, table: RoutingTable) -> Column:
    within = F.call_function("shiftright", slot, element(constant_array(table.shift), hot))
    return element(constant_array(table.cells), (element(constant_array(table.first_cell), hot) + within).cast("int"))


def _piece(cell: Column, slot: Column, table: RoutingTable) -> Column:
    """Return the piece of a slot from its cell; if several share the cell, skip those that end before the slot."""
    ends = constant_array(table.ends, "bigint")
    piece = F.when(cell >= 0, cell)
    most = _most_in_a_cell(table)
    for further in range(most - 1):
        piece = piece.when(slot < element(ends, further - 1 - cell), further - 1 - cell)
    return piece.otherwise(most - 2 - cell)


def _most_in_a_cell(table: RoutingTable) -> int:
    """Return the largest number of pieces that share one cell."""
    most = 1
    for hot, shift in enumerate(table.shift.tolist()):
        ends = table.ends[table.first[hot] : table.first[hot + 1]]
        most = max(most, 1 + int(np.bincount(ends[:-1] >> shift, minlength=1).max()))
    return most


def bucket_of(hash_: Column, buckets: int) -> Column:
    """Return the bucket of a key, as `kernels.planned_routing.bucket_of`."""
    return F.shiftright(_scatter(hash_) * F.lit(buckets).cast("bigint"), 31).cast("int")


def slot_of(position: Column) -> Column:
    """Return the slot of a position, as `kernels.planned_routing.slot_of`."""
    return _scatter(position)


def _scatter(x: Column) -> Column:
    mask = F.lit(SLOTS - 1).cast("bigint")
    folded = x.bitwiseXOR(F.shiftright(x, 32)).bitwiseAND(mask)
    return (folded * F.lit(SCATTER).cast("bigint")).bitwiseAND(
        mask
    )  # below 2^62: no overflow, so ANSI mode does not matter


def constant_array(values: npt.NDArray[Any], kind: str = "int") -> Column:
    """Return a constant array. As one string it is one expression, however long; Spark turns it into an array once."""
    return F.split(F.lit(",".join(map(str, values.tolist()))), ",").cast(f"array<{kind}>")


def element(array: Column, index: Column) -> Column:
    """Return an element of an array column, or null outside of it."""
    return F.get(array, index)
