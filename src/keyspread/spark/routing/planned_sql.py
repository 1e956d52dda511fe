"""Routing by a plan in Spark SQL: no Python per row.

The expressions compute the same as `kernels/planned_routing.py`, step by step. Change both or none. The position of a
row is Spark's `monotonically_increasing_id`: partition * 2^33 + row.
"""

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame

from keyspread.kernels.planned_routing import SCATTER, SLOTS, RoutingTable
from keyspread.planned.plan import Plan, buckets_of
from keyspread.spark.routing.steps import Steps
from keyspread.spark.routing.tables import look_up

POSITION = "monotonically_increasing_id()"


def with_planned_worker(
    df: DataFrame, hash_: Column, plan: Plan, worker: str, labels: npt.NDArray[np.int64] | None = None
) -> DataFrame:
    """Return the rows with a column `worker`: looked up by bucket for most rows, by position for hot keys.

    With `labels`, numbers of 0 or more, the column holds the label of the worker, at no further cost.
    """
    table = plan.table if labels is None else _labelled(plan.table, labels)
    steps = Steps(df)
    hash_name = steps.add("hash", hash_)
    bucket = steps.add("bucket", bucket_of(hash_name, plan.buckets.size))
    if not plan.head:
        return steps.result(worker, look_up(df.sparkSession, table.owners, bucket))
    entry = steps.look_up("entry", table.buckets, bucket)
    hot, first = hot_key(steps, entry, hash_name, table)
    cut = steps.look_up("cut", table.workers, _piece(steps, hot, table))
    # Only a key that shares its bucket with a hot one needs the owner of the bucket.
    owners = table.owners[buckets_of(table.keys, table.buckets.size)]
    owner = steps.look_up("owner", owners, f"CASE WHEN {hot} IS NULL THEN {first} END")
    return steps.result(worker, f"CASE WHEN {entry} >= 0 THEN {entry} WHEN {hot} IS NULL THEN {owner} ELSE {cut} END")


def _labelled(table: RoutingTable, labels: npt.NDArray[np.int64]) -> RoutingTable:
    buckets = table.buckets.copy()  # negative ones are hot keys
    buckets[buckets >= 0] = labels[buckets[buckets >= 0]]
    return table._replace(buckets=buckets, owners=labels[table.owners], workers=labels[table.workers])


def hot_key(steps: Steps, entry: str, hash_: str, table: RoutingTable) -> tuple[str, str]:
    """Add the number of the row's hot key, or null, and that of the first hot key of its bucket, or null.

    `entry` is that of the row's bucket in `table.buckets`. The key is the first hot key of the bucket, or one that
    follows it.
    """
    first = steps.add("first", f"CASE WHEN {entry} < 0 THEN -1 - {entry} END")
    candidates, following = [first], table.chain
    while (following >= 0).any():  # `following` maps the first key to the next one, then to the one after it, …
        candidates.append(steps.look_up(f"next_{len(candidates)}", following, first))
        following = np.where(following >= 0, table.chain[following], -1)
    found = ""
    for number, hot in enumerate(candidates):  # key number -1 does not exist: null, which equals nothing
        key = steps.look_up(f"key_{number}", table.keys, hot, "bigint")
        found += f" WHEN {key} = {hash_} THEN {hot}"
    return steps.add("hot", f"CASE{found} END"), first


def _piece(steps: Steps, hot: str, table: RoutingTable) -> str:
    """Add the piece of a row, from its cell; if several share the cell, skip those that end before its slot."""
    slot = steps.add("slot", slot_of(steps.add("position", POSITION)))
    cell = steps.look_up("cell", table.cells, cell_of(steps, hot, slot, table.first_cell, table.shift))
    most = _most_in_a_cell(table)
    found = f"CASE WHEN {cell} >= 0 THEN {cell}"
    for further in range(most - 1):
        end = steps.look_up(f"end_{further}", table.ends, f"{further - 1} - {cell}", "bigint")
        found += f" WHEN {slot} < {end} THEN {further - 1} - {cell}"
    return steps.add("piece", f"{found} ELSE {most - 2} - {cell} END")


def cell_of(steps: Steps, hot: str, slot: str, first: npt.NDArray[np.int64], shift: npt.NDArray[np.int64]) -> str:
    """Return the cell of a slot of a hot key: `first` has the first cell of each, `shift` the bits within a cell."""
    first_cell = steps.look_up("first_cell", first, hot)
    return f"{first_cell} + CAST(shiftright({slot}, {steps.look_up('shift', shift, hot)}) AS INT)"


def _most_in_a_cell(table: RoutingTable) -> int:
    """Return the largest number of pieces that share one cell."""
    most = 1
    for hot, shift in enumerate(table.shift.tolist()):
        ends = table.ends[table.first[hot] : table.first[hot + 1]]
        most = max(most, 1 + int(np.bincount(ends[:-1] >> shift, minlength=1).max()))
    return most


def bucket_of(hash_: str, buckets: int) -> str:
    """Return the bucket of a key, as `kernels.planned_routing.bucket_of`."""
    return f"CAST(shiftright({_scatter(hash_)} * {buckets}L, 31) AS INT)"


def slot_of(position: str) -> str:
    """Return the slot of a position, as `kernels.planned_routing.slot_of`."""
    return _scatter(position)


def _scatter(x: str) -> str:
    # The product is below 2^62: no overflow, so ANSI mode does not matter.
    mask = f"{SLOTS - 1}L"
    return f"(((({x} ^ shiftright({x}, 32)) & {mask}) * {SCATTER}L) & {mask})"
