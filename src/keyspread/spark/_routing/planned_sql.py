"""Tables of whole numbers in Spark SQL: short ones are literals, long ones are data that a plan does not print."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.kernels.planned_routing import SCATTER, SLOTS, RoutingTable
from keyspread.planned.plan import Plan, buckets_of
from keyspread.spark._engine.capabilities import has_lateral_aliases
from keyspread.spark._routing.keys import free_name, quoted

LONGEST_LITERAL = 20_000
"""Characters of a table that is part of the text of a plan. A plan has two tables that may be long."""

_ARROW = {"int": pa.int32(), "bigint": pa.int64()}
_HAS_SUBQUERIES = hasattr(DataFrame, "scalar")  # from Spark 4.0 on


def look_up(spark: SparkSession, values: npt.NDArray[Any], index: str, kind: str = "int") -> Column | str:
    """Return the element of a table at `index`, an expression in SQL, or null outside of the table; as text if it can.

    A literal is repeated in every text of the plan, and every action writes several of them to the event log. A
    subquery that reads a local relation is printed as one short line. Spark evaluates it once per action, on the
    driver and without a job. It moves no rows, as a join would, so their order stays. Spark 3.5 has no subqueries for
    DataFrames, there every table is a literal.
    """
    found = whole_table(spark, values, kind)
    return f"get({found}, {index})" if isinstance(found, str) else F.get(found, F.expr(index))


def whole_table(spark: SparkSession, values: npt.NDArray[Any], kind: str = "int") -> Column | str:
    """Return a table as an array; as text if it can. See `look_up`."""
    text = ",".join(map(str, values.tolist()))
    if len(text) <= LONGEST_LITERAL or not _HAS_SUBQUERIES:
        # As one string it is one expression, however long; Spark turns it into an array once.
        return f"CAST(split('{text}', ',') AS ARRAY<{kind}>)"
    whole = pa.array([values], pa.list_(_ARROW[kind]))
    return spark.createDataFrame(pa.table({"table": whole})).scalar()


def as_column(value: Column | str) -> Column:
    """Return an expression as a Column."""
    return F.expr(value) if isinstance(value, str) else value


# Columns that are computed one from the other, as SQL text, in one `select` if the session allows it.
#
# A call of a function of pyspark takes up to sixteen round trips to the JVM, and an expression of fifty calls took
# longer than a small job. Spark parses a text in one.


class Steps:
    """Steps of a computation for each row. Later ones use the names of earlier ones.

    Spark computes a column once, but an expression wherever it is used. So what is used twice is a step.
    """

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._columns: dict[str, Column | str] = {}

    def add(self, name: str, value: Column | str) -> str:
        """Add a step and return its name, which no column of the DataFrame has."""
        name = free_name(self._df, name)
        self._columns[name] = value
        return name

    def look_up(self, name: str, table: npt.NDArray[Any], index: str, kind: str = "int") -> str:
        """Add a step that is an element of a table, or null outside of it."""
        return self.add(name, look_up(self._df.sparkSession, table, index, kind))

    def result(self, name: str, value: Column | str, **more: Column | str) -> DataFrame:
        """Return the rows with one more column, or several."""
        columns = [_named(*step) for step in [*self._columns.items(), (name, value), *more.items()]]
        found = self._df
        # In one select a step may use another of the same select, unless the session forbids it.
        for together in [columns] if has_lateral_aliases(found.sparkSession) else [[one] for one in columns]:
            found = found.select("*", *together)
        return found.drop(*self._columns)


def _named(name: str, value: Column | str) -> Column:
    return F.expr(f"{value} AS {quoted(name)}") if isinstance(value, str) else value.alias(name)


# Routing by a plan in Spark SQL: no Python per row.
#
# The expressions compute the same as `kernels/planned_routing.py`, step by step. Change both or none. The position of a
# row is Spark's `monotonically_increasing_id`: partition * 2^33 + row.


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
