"""Routing by a plan in Spark SQL: no Python per row.

The expressions compute the same as `kernels/planned_routing.py`, step by step. Change both or none. The position of a
row is Spark's `monotonically_increasing_id`: partition * 2^33 + row.
"""

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.kernels.planned_routing import SCATTER, SLOTS, RoutingTable
from keyspread.planned.plan import Plan
from keyspread.spark.routing.keys import free_name
from keyspread.spark.routing.tables import element, table_column


def with_planned_worker(
    df: DataFrame, hash_: Column, plan: Plan, worker: str, labels: npt.NDArray[np.int64] | None = None
) -> DataFrame:
    """Return the rows with a column `worker`: looked up by bucket for most rows, by position for hot keys.

    With `labels`, numbers of 0 or more, the column holds the label of the worker, at no further cost.

    Each step is a column of its own, because Spark computes a column once but an expression wherever it is used.
    """
    spark = df.sparkSession
    if not plan.head:
        return df.withColumn(worker, owner(spark, hash_, plan, labels))
    table = plan.table if labels is None else _labelled(plan.table, labels)
    step = {name: free_name(df, name) for name in ("hash", "bucket", "entry", "hot", "slot", "piece")}
    done = {name: F.col(column) for name, column in step.items()}
    out = df.withColumn(step["hash"], hash_)
    out = out.withColumn(step["bucket"], bucket_of(done["hash"], plan.buckets.size))
    entry = done["entry"]
    out = out.withColumn(step["entry"], element(table_column(spark, table.buckets), done["bucket"]))
    out = out.withColumn(step["hot"], hot_key(spark, entry, done["hash"], table))
    out = out.withColumn(step["slot"], slot_of(F.monotonically_increasing_id()))
    out = out.withColumn(step["piece"], F.when(done["hot"] >= 0, _cell(spark, done["hot"], done["slot"], table)))
    cut = element(table_column(spark, table.workers), _piece(spark, done["piece"], done["slot"], table))
    chosen = (
        F.when(entry >= 0, entry)
        .when(done["hot"] >= 0, cut)
        .otherwise(element(table_column(spark, table.owners), done["bucket"]))
    )
    return out.withColumn(worker, chosen).drop(*step.values())


def _labelled(table: RoutingTable, labels: npt.NDArray[np.int64]) -> RoutingTable:
    buckets = table.buckets.copy()  # negative ones are hot keys
    buckets[buckets >= 0] = labels[buckets[buckets >= 0]]
    return table._replace(buckets=buckets, owners=labels[table.owners], workers=labels[table.workers])


def owner(spark: SparkSession, hash_: Column, plan: Plan, labels: npt.NDArray[np.int64] | None = None) -> Column:
    """Return the worker of a key that is not hot, or its label: that of the owner of its bucket."""
    owners = plan.buckets if labels is None else labels[plan.buckets]
    return element(table_column(spark, owners), bucket_of(hash_, plan.buckets.size))


def hot_key(spark: SparkSession, entry: Column, hash_: Column, table: RoutingTable) -> Column:
    """Return the number of the row's hot key, or -1. `entry` is that of the row's bucket in `table.buckets`.

    It is the first hot key of the bucket, or one that follows it.
    """
    first, keys, following = -1 - entry, table_column(spark, table.keys, "bigint"), table.chain
    found = F.when(element(keys, first) == hash_, first)
    while (following >= 0).any():  # `following` maps the first key to the next one, then to the one after it, …
        hot = element(table_column(spark, following), first)
        found = found.when(element(keys, hot) == hash_, hot)  # key number -1 does not exist: null, which equals nothing
        following = np.where(following >= 0, table.chain[following], -1)
    return F.when(entry < 0, found.otherwise(-1)).otherwise(-1)


def _cell(spark: SparkSession, hot: Column, slot: Column, table: RoutingTable) -> Column:
    within = shifted(slot, element(table_column(spark, table.shift), hot))
    first = element(table_column(spark, table.first_cell), hot)
    return element(table_column(spark, table.cells), (first + within).cast("int"))


def _piece(spark: SparkSession, cell: Column, slot: Column, table: RoutingTable) -> Column:
    """Return the piece of a slot from its cell; if several share the cell, skip those that end before the slot."""
    ends = table_column(spark, table.ends, "bigint")
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


def shifted(value: Column, by: Column) -> Column:
    """Return a number shifted to the right by a number of bits that is a column."""
    return F.call_function("shiftright", value, by)


def _scatter(x: Column) -> Column:
    mask = F.lit(SLOTS - 1).cast("bigint")
    folded = x.bitwiseXOR(F.shiftright(x, 32)).bitwiseAND(mask)
    return (folded * F.lit(SCATTER).cast("bigint")).bitwiseAND(
        mask
    )  # below 2^62: no overflow, so ANSI mode does not matter
