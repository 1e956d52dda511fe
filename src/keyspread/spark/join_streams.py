"""`join_streams`: two streams joined by Spark's own stateful join, with the hot keys of a plan from history cut."""

import warnings

from pyspark.sql import DataFrame

from keyspread.errors import InputError
from keyspread.spark._joining.assembly import Condition, Join, check_condition
from keyspread.spark._joining.counting import SIDES
from keyspread.spark._joining.keys import Kind, On, join_keys, kind_of
from keyspread.spark._joining.plan import JoinPlan
from keyspread.spark._routing.keys import check_frame
from keyspread.spark._routing.options import shuffle_partitions
from keyspread.spark.join import check_purpose


def join_streams(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    plan: JoinPlan,
    condition: Condition | None = None,
) -> DataFrame:
    """Return the rows of `left.join(right, on, how)` for two streams; hot keys of the plan have several partitions.

    `plan` comes from `plan_join` of bounded history, with the same `on` and `how` and with as many workers as the query
    has state partitions (`spark.sql.shuffle.partitions` at its first start). Keep the plan, and the version of
    keyspread, as long as the checkpoint: rows in the state are found by the pieces that both gave them.

    One side of a hot key is cut and the other is copied to all of its pieces, in the
    state too: the preserved side is cut, of an inner join the one that has more rows of hot keys. Rows are cut by a
    hash of the row, so identical rows stay together. A key that becomes hot later is joined correctly, and not cut.

    Watermarks, and the condition on time that an outer join needs, are those of Spark: pass them as without keyspread.

    Args:
        left: The left side.
        right: The right side.
        on: The key: a name, names, or pairs of names.
        how: The type of the join: inner, left or right.
        plan: What `plan_join` of bounded history returned.
        condition: A further condition, SQL text or a Column.

    Returns:
        The joined stream.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import JoinPlan, join_streams
    >>> plan = JoinPlan.from_json(open("plan.json").read())  # doctest: +SKIP
    >>> joined = join_streams(clicks, orders, "user", plan=plan)  # doctest: +SKIP
    """
    kind = kind_of(how)
    if kind not in (Kind.INNER, Kind.LEFT, Kind.RIGHT):
        raise InputError(f"how must be inner, left or right for two streams, got {how!r}: other rows would be copied")
    for side, df in zip(SIDES, (left, right), strict=True):
        check_frame(side, df)
        if not df.isStreaming:
            raise InputError(f"the {side} side is not a stream; use keyspread.spark.join_batches or join")
    if not isinstance(plan, JoinPlan):
        raise InputError(f"plan must be a JoinPlan made from history by plan_join, got {plan!r:.100}")
    keys = join_keys(left, right, on, plan.null_safe)
    check_purpose(plan, how=kind.value, on=[*keys.names])
    partitions = shuffle_partitions(left.sparkSession)
    if plan.workers != partitions:
        raise InputError(
            f"the plan is for {plan.workers} workers, but spark.sql.shuffle.partitions is {partitions}; "
            "set it to the workers of the plan before the query starts"
        )
    check_condition(condition)
    whole = Join(left, right, keys, kind, condition)
    uncut = whole.plain()  # what cannot be joined is refused here
    if plan.plain_because is not None or keys.whole_because is not None or not plan.hot:
        return uncut
    cut = kind.value
    if kind is Kind.INNER:
        cut = "left" if sum(key.left for key in plan.hot) >= sum(key.right for key in plan.hot) else "right"
    missing = whole.numbers(cut).missing_because
    if missing is not None:
        warnings.warn(f"the join is left to Spark, its hot keys cannot be cut: {cut} side: {missing}", stacklevel=2)
        return uncut
    return whole.by_plan(plan.placed(for_any_rows=True, cut=(cut,)), repartition=False)
