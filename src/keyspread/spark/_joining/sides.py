"""The rows of one side of a join with their salts, in Spark SQL: no Python per row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import and_

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.kernels.planned_routing import RoutingTable
from keyspread.planned.plan import Head, Plan
from keyspread.spark._joining.counting import SIDES, fingerprint, partitions_of, salts_of
from keyspread.spark._joining.grid import ends_of
from keyspread.spark._joining.keys import JoinKeys
from keyspread.spark._joining.numbering import Numbers
from keyspread.spark._joining.plan import HotJoinKey, JoinPlan
from keyspread.spark._routing.planned_sql import Steps, bucket_of, hot_key, piece_of, slot_of, whole_table

_NO_SALT = np.zeros(1, np.int64)
_BUCKETS_PER_KEY = 16  # then one bucket in sixteen has a hot key, and hardly one has two


@dataclass(frozen=True)
class HotTable:
    """The hot keys of a plan that are cut or moved, and the salt of each piece."""

    keys: tuple[HotJoinKey, ...]
    salts: tuple[npt.NDArray[np.int64], ...]  # of each key: left parts × right parts

    @classmethod
    def of(cls, plan: JoinPlan) -> "HotTable":
        """Return the table of a plan. A whole key on the worker of its hash needs no entry."""
        own = partitions_of(np.array([key.hash for key in plan.hot], np.int64), _NO_SALT, plan.workers)
        keys = [
            key
            for key, worker in zip(plan.hot, own.tolist(), strict=True)
            if key.pieces != (1, 1) or key.workers[0] != worker
        ]
        sizes = [len(key.workers) for key in keys]
        hashes = np.repeat(np.array([key.hash for key in keys], np.int64), sizes)
        workers = np.array([worker for key in keys for worker in key.workers], np.int64)
        salts = np.split(salts_of(hashes, workers, plan.workers), np.cumsum(sizes)[:-1]) if keys else []
        return cls(tuple(keys), tuple(own.reshape(key.pieces) for own, key in zip(salts, keys, strict=True)))

    def ends(self, side: str, as_counted: bool) -> list[Sequence[int]]:
        """Return the slots at which the parts of each key end on one side; positions are cut `as_counted`."""
        of_side = [
            (key.left_ends, key.left_shares) if side == "left" else (key.right_ends, key.right_shares)
            for key in self.keys
        ]
        return [ends if ends and as_counted else ends_of(shares) for ends, shares in of_side]

    def salts_of_parts(self, side: str) -> list[list[int]]:
        """Return the salts of each part of each key: those of the pieces that its rows go to."""
        return [row for salts in self.salts for row in (salts if side == "left" else salts.T).tolist()]


def with_salts(
    df: DataFrame,
    side: str,
    keys: JoinKeys,
    plan: JoinPlan,
    numbers: Numbers,
    salt: str,
    mark: str | None = None,
    partner: str | None = None,
) -> DataFrame:
    """Return the rows with a salt, once for each piece that they go to.

    With `mark` there is another column: 1 in rows that are copied and surely have a partner, else 0. `partner` is a
    column of `with_partners`: rows without a partner are not copied, whatever the plan expected.

    Rows of a hot key are cut by their `numbers`.
    """
    table = HotTable.of(plan)
    parts, salts = table.ends(side, numbers.are_positions), table.salts_of_parts(side)
    is_cut, copies = any(len(ends) > 1 for ends in parts), any(len(own) > 1 for own in salts)
    spread = plan.spread_nulls[SIDES.index(side)] and not plan.null_safe
    if (is_cut or spread) and numbers.order is not None:
        df = df.sortWithinPartitions(numbers.order)
    steps = Steps(df)
    has_null = steps.add("has_null", keys.has_null(side))
    # A row without a partner may go anywhere.
    anywhere = f"-1 - CAST({slot_of(steps.add('null_at', numbers.by))} AS INT)" if spread else "0"
    if not table.keys:
        marks = {} if mark is None else {mark: "0"}
        # Always 0, but Spark must not know: it would take a constant out of the keys of the join.
        zero = f"coalesce(CAST(pmod({fingerprint(keys, side)}, 1) AS INT), 0)"
        return steps.result(salt, f"CASE WHEN {has_null} THEN {anywhere} ELSE {zero} END", **marks)
    routing = _routing_table(table, parts)
    hash_ = steps.add("fingerprint", fingerprint(keys, side))
    hot, _ = hot_key(steps, hash_, steps.add("bucket", bucket_of(hash_, routing.buckets.size)), routing)
    part = piece_of(steps, hot, routing, numbers.by) if is_cut else steps.look_up("part", routing.first[:-1], hot)
    marks = {} if mark is None else {mark: _mark(steps, hot, table, side, partner)}
    if not copies:
        own = steps.look_up("own", np.array([row[0] for row in salts]), part)
        # Never null, so that Spark need not compute it once more to check that.
        cases = f"CASE WHEN {has_null} THEN {anywhere} WHEN {hot} IS NULL THEN 0 ELSE {own} END"
        return steps.result(salt, f"coalesce({cases}, 0)", **marks)
    sizes = [len(own) for own in salts]
    first = steps.look_up("first_salt", np.array([0, *accumulate(sizes)][:-1]), part)
    size = steps.look_up("size", np.array(sizes), part)
    all_salts = steps.add("all_salts", whole_table(df.sparkSession, np.concatenate(salts)))
    own = f"slice({all_salts}, {first} + 1, {size if partner is None else f'IF({partner}, {size}, 1)'})"
    several = f"{salt}_several"
    cases = f"CASE WHEN {has_null} THEN array({anywhere}) WHEN {hot} IS NULL THEN array(0) ELSE {own} END"
    found = steps.result(several, cases, **marks)
    # Not `explode`: Spark would infer that the array is not empty, and compute it once more to check that.
    return found.withColumn(salt, F.explode_outer(several)).drop(several)


def _routing_table(table: HotTable, parts: list[Sequence[int]]) -> RoutingTable:
    sizes = [len(ends) for ends in parts]
    head = Head(
        hashes=np.array([key.fingerprint for key in table.keys], np.int64),
        first=np.array([0, *accumulate(sizes)], np.int64),
        workers=np.zeros(sum(sizes), np.int32),
        weights=np.ones(sum(sizes), np.int64),
        ends=np.array([end for ends in parts for end in ends], np.int64),
    )
    buckets = _BUCKETS_PER_KEY * max(len(table.keys), 4)
    return Plan(1, np.zeros(buckets, np.int32), head, np.zeros(1, np.int64)).table


def with_partners(df: DataFrame, other: DataFrame, side: str, keys: JoinKeys, plan: JoinPlan, name: str) -> DataFrame:
    """Return the rows with a column: whether the other side has rows with their hot key, when the query runs.

    Counts alone cannot tell: a partition may have been dropped since, or a filter may depend on the time. The keys of
    the other side are therefore read within the query, and those that are hot are broadcast. Keys are compared, not
    their fingerprints: a row that takes the fingerprint of another key for its own would lose its copies.
    """
    # As text: a Column of thousands of numbers takes a second of round trips to the JVM.
    hot = ", ".join(f"{key.fingerprint}L" for key in plan.hot)
    of_other = SIDES[1 - SIDES.index(side)]
    names = [f"{name}_{number}" for number in range(len(keys.pairs))]
    of_hot = other.where(f"{fingerprint(keys, of_other)} IN ({hot}) AND NOT ({keys.has_null(of_other)})")
    there = of_hot.select(*(F.expr(sql).alias(one) for sql, one in zip(keys.sql_of(of_other), names, strict=True)))
    there = there.distinct().withColumn(name, F.lit(True))
    equal = [F.expr(sql) == F.col(one) for sql, one in zip(keys.sql_of(side), names, strict=True)]
    found = df.join(F.broadcast(there), reduce(and_, equal), "left")
    return found.withColumn(name, F.coalesce(name, F.lit(False))).drop(*names)


def _mark(steps: Steps, hot: str, table: HotTable, side: str, partner: str | None) -> str:
    """Return 1 for copied rows that surely have a partner, as SQL. Without a `partner` column, the counts tell that."""
    marks = [
        int(len(key.right_shares if side == "left" else key.left_shares) > 1)
        * int(partner is not None or (key.left > 0 and key.right > 0))
        for key in table.keys
    ]
    mark = f"coalesce({steps.look_up('mark', np.array(marks), hot)}, 0)"
    return mark if partner is None else f"IF({partner}, {mark}, 0)"
