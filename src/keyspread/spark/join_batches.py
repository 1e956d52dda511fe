"""`join_batches`: a stream joined with a table, each micro-batch by a plan of its own."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keyspread.errors import InputError
from keyspread.spark._joining.assembly import Condition
from keyspread.spark._joining.keys import On, pairs_of
from keyspread.spark._joining.plan import JoinPlan
from keyspread.spark._routing.keys import key_columns
from keyspread.spark.join import JoinOptions, join
from keyspread.spark.watch import Watch

Sink = Callable[[DataFrame, int], Any]
Table = DataFrame | Callable[[SparkSession], DataFrame]


def join_batches(
    right: Table,
    on: On,
    how: str = "inner",
    *,
    then: Sink,
    workers: int | None = None,
    condition: Condition | None = None,
    plan: JoinPlan | None = None,
    null_safe: bool = False,
    threshold: float | None = None,
    output_cost: float | None = None,
    watch: Watch | None = None,
) -> Sink:
    """Return a function for `foreachBatch` that joins each micro-batch with a table and passes the rows to `then`.

    The batch is the left side of `keyspread.spark.join`, and the parameters are those of `join`. Each batch is counted
    and planned by itself, so a key that becomes hot is cut from its next batch on. With `plan=` nothing is counted. The
    batch is kept in memory (`persist`) while it is counted and joined, unless it is kept already.

    Args:
        right: The table, or a function of the session that returns it. Over Spark Connect it must be a function,
            because a batch runs in a session of its own there: `lambda spark: spark.table("customers")`.
        on: The key: a name, a list of names, or a list of pairs of names.
        how: The type of the join: inner, left, semi or anti. A right or full join would repeat the rows of the table
            that have no partner in every batch.
        then: A function of the joined rows and the number of the batch.
        workers: The number of partitions, by default `spark.sql.shuffle.partitions`.
        condition: A further condition, SQL text or a Column.
        plan: What `plan_join` returned; it takes no `threshold` and no `output_cost`.
        null_safe: Whether null equals null.
        threshold: The minimum share of the work of a hot key, by default 1/(5·workers).
        output_cost: The cost of a row that comes out, relative to a row that goes in, by default 1.
        watch: A `Watch`: its `way` says which way the last batch took.

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
    options = JoinOptions(how, workers, condition, plan, null_safe, threshold, output_cost, watch)
    if options.work.kind.preserves_right:
        raise InputError(
            f"how={how!r} would repeat the rows of the table that have no partner in every batch; "
            "use inner, left, semi or anti"
        )
    pairs, _ = pairs_of(on)
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
            then(join(batch, table, on, **vars(options)), number)
        finally:
            if not kept:
                batch.unpersist()

    return work


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
