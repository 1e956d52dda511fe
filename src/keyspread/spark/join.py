"""`join` and `plan_join`: Spark's own join, with hot keys cut so that no worker gets more than its share."""

import warnings
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import described
from keyspread.spark._joining.assembly import Condition, Join, check_condition
from keyspread.spark._joining.counting import SIDES, Work, count_sides
from keyspread.spark._joining.keys import Kind, On, join_keys, kind_of
from keyspread.spark._joining.plan import JoinPlan, plan_of_counts
from keyspread.spark._routing.keys import check_frame, column
from keyspread.spark._routing.options import Way, checked_workers, shuffle_partitions
from keyspread.spark._routing.plan_text import Operator, operators_of, physical_plan, reads_live_rows
from keyspread.spark._routing.repeatable import unrepeatable
from keyspread.spark.watch import Watch


def join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    workers: int | None = None,
    condition: Condition | None = None,
    plan: JoinPlan | None = None,
    null_safe: bool = False,
    threshold: float | None = None,
    output_cost: float | None = None,
    watch: Watch | None = None,
) -> DataFrame:
    """Return the rows and columns of `left.join(right, on, how)`, joined by `workers` partitions with even work.

    Both sides are counted first, in one scan of their key columns; keys with much work (rows in and rows out) are cut
    into pieces. The rows of a hot key go to their pieces by position, those of the other side are copied to all pieces.
    Spark's own exchange moves them, and Spark's own join joins them. If no key is hot enough to matter, or if Spark
    broadcasts a side, the result is Spark's own join and nothing else. No setting of the session is changed.

    Args:
        left: The left side.
        right: The right side.
        on: The key: a name, a list of names, or a list of pairs of names `[("left column", "right column")]`.
        how: Any of Spark's names for inner, left, right, full, semi and anti joins.
        workers: The number of partitions, by default `spark.sql.shuffle.partitions`.
        condition: A further condition, SQL text or a Column.
        plan: What `plan_join` returned: nothing is counted again. It takes no `threshold` and no `output_cost`.
        null_safe: Whether null equals null.
        threshold: The minimum share of the work of a hot key, by default 1/(5·workers).
        output_cost: The cost of a row that comes out, relative to a row that goes in, by default 1.
        watch: A `Watch`: its `way` says which way was taken.

    Returns:
        The rows and columns of `left.join(right, on, how)`.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import join, session
    >>> clicks = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS user", "id AS click")
    >>> users = session().range(1000).selectExpr("id AS user", "id % 7 AS country")
    >>> joined = join(clicks, users, "user", workers=4)
    >>> joined.columns, joined.count()
    (['user', 'click', 'country'], 1000)
    """
    options = JoinOptions(how, workers, condition, plan, null_safe, threshold, output_cost, watch)
    request = _Request(left, right, on, options)
    plan = request.plan() if plan is None else request.fitted(plan)
    if watch is not None:
        watch.take(Way("join", plan.plain_because) if plan.plain_because is not None else _way(plan), left)
    return request.join.plain() if plan.plain_because is not None else request.join.by_plan(plan)


def plan_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    workers: int | None = None,
    condition: Condition | None = None,
    null_safe: bool = False,
    threshold: float | None = None,
    output_cost: float | None = None,
) -> JoinPlan:
    """Count both sides of a join and return how `join` would cut it; the parameters are those of `join`.

    `print` shows the hot keys as values, with their rows on either side, their pieces, the copies that are made, and
    the expected work of the busiest worker with and without the plan. Store it with `to_json`.

    The work of a key with l left and r right rows is l + r + output_cost · l · r. A key is hot if its share of all work
    is at least `threshold`. The rows of hot keys are exact. The work of all other keys is estimated for each partition.

    A plan that is stored and used for other rows stays exact: rows that an outer join preserves are then never copied,
    and a full join is not cut.

    Args:
        left: The left side.
        right: The right side.
        on: The key: a name, a list of names, or a list of pairs of names.
        how: Any of Spark's names for inner, left, right, full, semi and anti joins.
        workers: The number of partitions, by default `spark.sql.shuffle.partitions`.
        condition: A further condition, SQL text or a Column.
        null_safe: Whether null equals null.
        threshold: The minimum share of the work of a hot key, by default 1/(5·workers).
        output_cost: The cost of a row that comes out, relative to a row that goes in, by default 1.

    Returns:
        The plan of the join.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import plan_join, session
    >>> clicks = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS user", "id AS click")
    >>> users = session().range(1000).selectExpr("id AS user", "id % 7 AS country").repartition(2)
    >>> plan = plan_join(clicks.hint("merge"), users, "user", workers=4)
    >>> plan.hot[0].value, plan.hot[0].left, plan.hot[0].right, plan.busiest < 1.1 < plan.busiest_of_whole_keys
    (0, 500, 1, True)
    """
    options = JoinOptions(how, workers, condition, None, null_safe, threshold, output_cost)
    return _Request(left, right, on, options).plan()


@dataclass(frozen=True)
class JoinOptions:
    """What `join` takes beside the sides and the key; what is wrong for any sides is refused."""

    how: str
    workers: int | None
    condition: Condition | None
    plan: JoinPlan | None
    null_safe: bool
    threshold: float | None
    output_cost: float | None
    watch: Watch | None = None

    def __post_init__(self) -> None:
        """Refuse values that do not fit, and options of planning beside a plan."""
        plan = self.plan
        if plan is not None and not isinstance(plan, JoinPlan):
            raise InputError(f"plan must be a JoinPlan, got {plan!r:.100}; JoinPlan.from_json reads a stored one")
        if self.watch is not None and not isinstance(self.watch, Watch):
            raise InputError(f"watch must be a Watch, got {self.watch!r:.100}")
        if not isinstance(self.null_safe, bool):
            raise InputError(f"null_safe must be True or False, got {self.null_safe!r}")
        check_condition(self.condition)
        workers = None if self.workers is None else checks.whole_number("workers", self.workers)
        checked_threshold(self.threshold, workers or 1)
        work = self.work
        if plan is None:
            return
        for name, value in (("threshold", self.threshold), ("output_cost", self.output_cost)):
            if value is not None:
                raise InputError(f"plan= is given, so {name!r} has no effect; pass it to plan_join")
        check_purpose(plan, how=work.kind.value, null_safe=self.null_safe, has_condition=work.has_condition)
        if workers is not None:
            check_purpose(plan, workers=workers)

    @property
    def work(self) -> Work:
        """How the work of a key is computed."""
        cost = 1.0 if self.output_cost is None else checks.not_negative("output_cost", self.output_cost)
        return Work(kind_of(self.how), cost, self.condition is not None)


def check_purpose(plan: JoinPlan, **asked: object) -> None:
    """Refuse a plan that was made for something else than what is asked for."""
    for name, value in asked.items():
        planned = [*plan.on] if name == "on" else getattr(plan, name)
        if planned != value:
            called = "a condition" if name == "has_condition" else name
            raise InputError(f"the plan is for {called} {planned!r}, got {value!r}; plan this join with plan_join")


class _Request:
    """What a caller asked for: the join that it is, and the numbers that a plan of it needs."""

    def __init__(self, left: DataFrame, right: DataFrame, on: On, options: JoinOptions) -> None:
        for side, df in zip(SIDES, (left, right), strict=True):
            check_frame(side, df)
            if df.isStreaming:
                raise InputError(
                    f"the {side} side is a stream, which cannot be counted: use keyspread.spark.join_batches for a "
                    "stream and a table, keyspread.spark.join_streams for two streams"
                )
        self.workers = checked_workers(left.sparkSession, options.workers)
        self.threshold = checked_threshold(options.threshold, self.workers)
        self.work = options.work
        if self.work.kind.has_left_columns_only and self.work.has_condition:
            needed = shuffle_partitions(left.sparkSession)
            if self.workers != needed:
                raise InputError(
                    f"workers of a semi or anti join with a condition must be spark.sql.shuffle.partitions ({needed}), "
                    f"got {self.workers}: Spark moves such a join below any other exchange"
                )
        keys = join_keys(left, right, on, options.null_safe)
        self.join = Join(left, right, keys, self.work.kind, options.condition)
        self.uncut = self.join.plain()  # what cannot be joined is refused here

    def plan(self) -> JoinPlan:
        """Count the sides, unless Spark's own join is best anyway, and plan."""
        join, keys = self.join, self.join.keys
        because = keys.whole_because or self._why_plain()
        if because is None:
            names = ", ".join(pair.left for pair in keys.pairs)
            with described(join.left.sparkSession, f"counting {names} of both sides"):
                counts = count_sides(join.left, join.right, keys, self.work, self.workers, self.threshold)
            plan = plan_of_counts(counts, keys, self.work, self.workers, self.threshold, self._rows_may_change())
            plan = self._repeatable(plan)
        else:
            how, has_condition = self.work.kind.value, self.work.has_condition
            plan = JoinPlan(self.workers, how, keys.names, keys.null_safe, has_condition, plain_because=because)
        _warn_of_whole_keys(plan, "of rows that may be others when they are computed again (limit, rand, a database)")
        return replace(plan, counted=(join.left, join.right))

    def _why_plain(self) -> str | None:
        """Return why the join is better left to Spark, as far as its physical plan tells."""
        if self.workers == 1:
            return "one worker has all the work"
        operators = _operators(self.uncut)
        if operators is None:
            return None
        joins = [operator.name for operator in operators if "Join" in operator.name or "Cartesian" in operator.name]
        if not joins:
            return "Spark needs no join for it"
        if joins[0].startswith("Broadcast"):
            return "it broadcasts a side, so no key is moved"
        if joins[0].startswith("Cartesian"):
            return "it compares all rows with all others, so no key is moved"
        return None

    def _rows_may_change(self) -> bool:
        """Return whether the rows may differ between the job that counts them and the one that joins them.

        Or between two scans of the latter: copies of preserved rows need one more scan of the keys of the other side.
        Only outer joins need to know: the others are cut in ways that are exact for any rows.
        """
        if self.work.kind not in (Kind.LEFT, Kind.RIGHT, Kind.FULL):
            return True
        pairs = self.join.keys.pairs
        return _keys_may_change(self.join.left, [pair.left for pair in pairs]) or _keys_may_change(
            self.join.right, [pair.right for pair in pairs]
        )

    def _repeatable(self, plan: JoinPlan) -> JoinPlan:
        """Return the plan without cuts that a retried task might not repeat; a warning says so if that leaves hot keys.

        Where Spark protects retried tasks, any cut may be used.
        """
        if plan.plain_because is not None:
            return plan
        numbers = {side: self.join.numbers(side) for side in SIDES}
        missing = {side: own for side, own in numbers.items() if own.missing_because is not None}
        in_the_way = [side for side, own in missing.items() if plan.cuts(side) or own.rows_may_change]
        if not in_the_way:
            return plan
        rows_may_change = any(own.rows_may_change for own in missing.values())
        sides = () if rows_may_change else tuple(side for side in SIDES if side not in missing)
        cut = plan.cut_only(sides, f"{in_the_way[0]} side: {missing[in_the_way[0]].missing_because}")
        if cut.plain_because is not None:
            warnings.warn(f"the join is left to Spark, {cut.plain_because}", stacklevel=4)
        return cut

    def fitted(self, plan: JoinPlan) -> JoinPlan:
        """Return the plan as it is for the rows that were counted, and cut for any rows otherwise."""
        check_purpose(plan, workers=self.workers, on=[*self.join.keys.names])
        counted = plan.counted
        is_counted = counted is not None and counted[0] is self.join.left and counted[1] is self.join.right
        if plan.for_any_rows or plan.plain_because is not None or is_counted:
            return self._repeatable(plan)
        again = plan.placed(for_any_rows=True)
        _warn_of_whole_keys(again, "by a plan that was made for other DataFrames")
        return self._repeatable(again)


def _keys_may_change(df: DataFrame, names: list[str]) -> bool:
    keys = df.select(*(column(df, name).alias(f"key_{number}") for number, name in enumerate(names)))
    try:
        return unrepeatable(keys) is not None or reads_live_rows(operators_of(physical_plan(keys)))
    except InputError:  # Spark does not print all of the plan
        return True


def _operators(df: DataFrame) -> list[Operator] | None:
    """Return the operators of the physical plan, or None if Spark does not print all of it."""
    try:
        return operators_of(physical_plan(df))
    except InputError:
        return None


def _way(plan: JoinPlan) -> Way:
    cut = sum(key.pieces != (1, 1) for key in plan.hot)
    return Way(
        "planned",
        f"of {len(plan.hot)} hot keys {cut} cut, {plan.copies:,} rows copied; the busiest worker has "
        f"{plan.busiest:.2f} x the even work, with whole keys {plan.busiest_of_whole_keys:.2f} x",
    )


def _warn_of_whole_keys(plan: JoinPlan, for_any_rows: str) -> None:
    """Say so if a full join has hot keys that must stay whole."""
    if plan.kind is not Kind.FULL or not plan.hot or not (plan.has_condition or plan.for_any_rows):
        return
    if any(key.left and key.right and key.pieces == (1, 1) for key in plan.hot) and plan.busiest > 1.1:
        reason = "with a condition" if plan.has_condition else for_any_rows
        warnings.warn(
            f"hot keys of a full join {reason} stay whole: the busiest worker has {plan.busiest:.2f} x the even work",
            stacklevel=4,
        )
