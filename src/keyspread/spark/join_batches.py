"""`join_batches`: a stream joined with a table, each micro-batch by a plan of its own."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.join import check_null_safe, check_plan_and_watch, check_purpose, checked_cost, join
from keyspread.spark.joining.assembly import check_condition
from keyspread.spark.joining.keys import On, pairs_of
from keyspread.spark.joining.kinds import Kind, kind_of
from keyspread.spark.routing.keys import key_columns
from keyspread.threshold import checked_threshold

_OPTIONS = [
    name for name, one in inspect.signature(join).parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY
]
Sink = Callable[[DataFrame, int], Any]
Table = DataFrame | Callable[[SparkSession], DataFrame]


def join_batches(right: Table, on: On, how: str = "inner", *, then: Sink, **options: Any) -> Sink:
    """Return a function for `foreachBatch` that joins each micro-batch with a table and passes the rows to `then`.

    The batch is the left side of `keyspread.spark.join`, and `options` are those of `join`. Each batch is counted and
    planned by itself, so a key that becomes hot is cut from its next batch on. With `plan=` nothing is counted. The
    batch is kept in memory (`persist`) while it is counted and joined, unless it is kept already.

    `right` is a DataFrame, or a function of the session that returns one. Over Spark Connect it must be a function,
    because a batch runs in a session of its own there: `lambda spark: spark.table("customers")`.

    `how` is inner, left, semi or anti. A right or full join would repeat the rows of the table that have no partner in
    every batch.

    Args:
        right: The table, or a function of the session that returns it.
        on: The key: a name, names, or pairs of names.
        how: The type of the join: inner, left, semi or anti.
        then: A function of the joined rows and the number of the batch.
        options: Those of `join`.

    Returns:
        A function of a micro-batch and its number.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import join_batches, session
    >>> users = session().range(10).selectExpr("id AS user", "id % 3 AS country")
    >>> sizes = []
    >>> work = join_batches(users, "user", then=lambda rows, batch: sizes.append(rows.count()))
    >>> work(session().range(30).selectExpr("id % 5 AS user"), 0)  # as the query does: writeStream.foreachBatch(work)
    >>> sizes
    [30]
    """
    kind = kind_of(how)
    if kind.preserves_right:
        raise InputError(
            f"how={how!r} would repeat the rows of the table that have no partner in every batch; "
            "use inner, left, semi or anti"
        )
    pairs, _ = pairs_of(on)
    for name in options:
        if name not in _OPTIONS:
            raise InputError(f"join has no option {name!r}; its options are {', '.join(_OPTIONS)}")
    _check_options(kind, options)
    if not callable(right):
        _check(right)
        key_columns(right, [other for _, other in pairs])
    if not callable(then):
        raise InputError(f"then must be a function of the joined rows and the number of the batch, got {then!r}")

    def work(batch: DataFrame, number: int) -> None:
        level = batch.storageLevel
        kept = level.useMemory or level.useDisk
        if not kept:
            batch.persist()
        try:
            table = right(batch.sparkSession) if callable(right) else right
            then(join(batch, table, on, how, **options), number)
        finally:
            if not kept:
                batch.unpersist()

    return work


def _check_options(kind: Kind, options: Mapping[str, Any]) -> None:
    """Refuse what every batch would refuse."""
    condition, plan, null_safe = options.get("condition"), options.get("plan"), options.get("null_safe", False)
    workers, threshold, cost = (options.get(name) for name in ("workers", "threshold", "output_cost"))
    check_condition(condition)
    check_null_safe(null_safe)
    check_plan_and_watch(plan, options.get("watch"), threshold=threshold, output_cost=cost)
    checked_cost(cost)
    many = None if workers is None else checks.whole_number("workers", workers)
    checked_threshold(threshold, many or 1)
    if plan is not None:
        check_purpose(plan, how=kind.value, null_safe=null_safe, has_condition=condition is not None)
        check_purpose(plan, workers=plan.workers if many is None else many)


def _check(right: DataFrame) -> None:
    if not hasattr(right, "isStreaming"):
        raise InputError(
            f"right must be a DataFrame, or a function of the session that returns one, got {right!r:.100}"
        )
    if right.isStreaming:
        raise InputError("right is a stream; use keyspread.spark.join_streams for two streams")
    if type(right).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "over Spark Connect a batch runs in a session of its own: pass right as a function of the session, such as "
            'lambda spark: spark.table("customers")'
        )
