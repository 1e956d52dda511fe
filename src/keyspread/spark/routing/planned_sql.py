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

MOST_COMPARED = 16
"""Hot keys up to which a row's key is compared with each of them."""


def with_planned_worker(
    df: DataFrame,
    hash_: Column,
    plan: Plan,
    worker: str,
    labels: npt.NDArray[np.int64] | None = None,
    position: Column | str = POSITION,
) -> DataFrame:
    """Return the rows with a column `worker`: looked up by bucket for most rows, by position for hot keys.

    With `labels`, numbers of 0 or more, the column holds the label of the worker, at no further cost. `position` may be
    any whole number that differs from row to row, such as a hash of what identifies the row.
    """
    table = plan.table if labels is None else _labelled(plan.table, labels)
    steps = Steps(df)
    hash_name = steps.add("hash", hash_)
    bucket = steps.add("bucket", bucket_of(hash_name, plan.buckets.size))
    if not plan.head:
        return steps.result(worker, look_up(df.sparkSession, table.owners, bucket))
    hot, owner = hot_key(steps, hash_name, bucket, table)
    cut = steps.look_up("cut", table.workers, piece_of(steps, hot, table, position))
    return steps.result(worker, f"CASE WHEN {hot} IS NULL THEN {owner} ELSE {cut} END")


def _labelled(table: RoutingTable, labels: npt.NDArray[np.int64]) -> RoutingTable:
    buckets = table.buckets.copy()  # negative ones are hot keys
    buckets[buckets >= 0] = labels[buckets[buckets >= 0]]
    return table._replace(buckets=buckets, owners=labels[table.owners], workers=labels[table.workers])


def hot_key(steps: Steps, hash_: str, bucket: str, table: RoutingTable) -> tuple[str, str]:
    """Add the number of the row's hot key, or null. Return its name, and an expression: the worker of any other key."""
    hot, entry, first = hot_number(steps, hash_, bucket, table.keys, table.buckets, table.chain)
    if entry is None:
        return hot, steps.look_up("owner", table.owners, bucket)
    # Only a key that shares its bucket with a hot one needs the owner of the bucket.
    owners = table.owners[buckets_of(table.keys, table.buckets.size)]
    owner = steps.look_up("owner", owners, f"CASE WHEN {hot} IS NULL THEN {first} END")
    return hot, f"CASE WHEN {entry} >= 0 THEN {entry} ELSE {owner} END"


def hot_number(
    steps: Steps,
    hash_: str,
    bucket: str,
    keys: npt.NDArray[np.int64],
    buckets: npt.NDArray[np.int64],
    chain: npt.NDArray[np.int64],
) -> tuple[str, str | None, str | None]:
    """Add the number of the row's hot key, or null. Return its name, and those of the bucket's entry and its first key.

    A few hot keys are compared with one by one, which is cheaper than a look at the row's bucket: then there is no
    entry. `buckets` and `chain` are those of `keyspread.planned.plan.chained`.
    """
    if keys.size <= MOST_COMPARED:
        matches = [(_literal(key), str(number)) for number, key in enumerate(keys)]
        return steps.add("hot", _first_match(hash_, matches)), None, None
    entry = steps.look_up("entry", buckets, bucket)
    first = steps.add("first", f"CASE WHEN {entry} < 0 THEN -1 - {entry} END")
    # The key is the first hot key of the bucket, or one that follows it.
    candidates, following = [first], chain
    while (following >= 0).any():  # `following` maps the first key to the next one, then to the one after it, …
        candidates.append(steps.look_up(f"next_{len(candidates)}", following, first))
        following = np.where(following >= 0, chain[following], -1)
    # Key number -1 does not exist: null, which equals nothing.
    named = [steps.look_up(f"key_{i}", keys, number, "bigint") for i, number in enumerate(candidates)]
    return steps.add("hot", _first_match(hash_, list(zip(named, candidates, strict=True)))), entry, first


def _first_match(value: str, found: list[tuple[str, str]]) -> str:
    return f"CASE {' '.join(f'WHEN {key} = {value} THEN {result}' for key, result in found)} END"


def _literal(number: int) -> str:
    return f"CAST('{number}' AS BIGINT)"  # the smallest number has no other literal


def piece_of(steps: Steps, hot: str, table: RoutingTable, position: Column | str = POSITION) -> str:
    """Add the piece of a row, from its cell; if several share the cell, skip those that end before its slot."""
    slot = steps.add("slot", slot_of(steps.add("position", position)))
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
