"""`cogroup`: a Python function of the rows of a key on both sides, with hot keys cut into pieces."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import described, schema_of_ddl
from keyspread.spark._engine.failures import why
from keyspread.spark._joining.counting import SIDES, Work, count_sides
from keyspread.spark._joining.keys import Kind, On, join_keys
from keyspread.spark._joining.numbering import Numbers, numbers_of
from keyspread.spark._joining.plan import JoinPlan, plan_of_counts
from keyspread.spark._joining.sides import with_salts
from keyspread.spark._routing.keys import check_frame, free_name, type_of
from keyspread.spark._routing.options import checked_workers


def cogroup(
    left: DataFrame,
    right: DataFrame,
    on: On,
    function: Callable[..., Any],
    schema: Any,
    *,
    per_left: bool,
    workers: int | None = None,
    threshold: float | None = None,
    output_cost: float = 1.0,
) -> DataFrame:
    """Return `left.groupBy(on).cogroup(right.groupBy(on)).applyInPandas(function, schema)`, with hot keys in pieces.

    Spark loads all rows of a key into the memory of one Python process. If the function handles each left row by
    itself, `per_left=True`, the left rows of a hot key can be cut into pieces: each piece is passed to the function
    with all right rows of the key. What the function returns for several left rows must be what it returns for each of
    them, together; for no left rows that is nothing.

    As in Spark's `cogroup`, null is a key like any other.

    Args:
        left: The left side.
        right: The right side.
        on: The key: a name, or names.
        function: A function of the left and the right rows of a key as pandas.DataFrames, and of the key before them if
            it has three parameters.
        schema: The columns that the function returns.
        per_left: Whether the function handles each left row by itself.
        workers: The number of partitions, by default `spark.sql.shuffle.partitions`.
        threshold: The minimum share of the work of a hot key, by default 1/(5·workers).
        output_cost: The cost of a row that comes out, relative to a row that goes in.

    Returns:
        What the function returns, for all keys.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import cogroup, session
    >>> clicks = session().range(100).selectExpr("id % 2 AS user", "id AS click")
    >>> prices = session().range(20).selectExpr("id % 2 AS user", "id AS price")
    >>> def cheapest(clicks, prices):
    ...     return clicks.assign(price=prices["price"].min())
    >>> cogroup(clicks, prices, "user", cheapest, "user long, click long, price long", per_left=True).count()
    100
    """
    if per_left is not True:
        raise InputError(
            f"per_left must be True, got {per_left!r}: only a function that handles each left row by itself can get "
            "the rows of a key in pieces; use Spark's own cogroup for others"
        )
    _check_function(function)
    for side, df in zip(SIDES, (left, right), strict=True):
        check_frame(side, df)
        if df.isStreaming:
            raise InputError(f"the {side} side is a stream; use cogroup within foreachBatch")
    _check_schema(schema)
    for side, df in zip(SIDES, (left, right), strict=True):
        for name in df.columns:
            if {".", "`"} & {*name}:
                raise InputError(
                    f"column {name!r} of the {side} side has a dot or a backtick in its name, which Spark's cogroup "
                    "does not take; rename it with toDF"
                )
    keys = join_keys(left, right, on, null_safe=True)
    if not keys.by_name:
        raise InputError(f"on must be a name or names, got {on!r}; rename the keys of one side")
    for pair in keys.pairs:
        kinds = [type_of(left, pair.left).simpleString(), type_of(right, pair.right).simpleString()]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"{pair.left!r} has type {kinds[0]} on the left side and {kinds[1]} on the right side, and Spark's "
                "cogroup would not bring equal keys together; cast one of them"
            )
    workers = checked_workers(left.sparkSession, workers)
    threshold = checked_threshold(threshold, workers)
    # Only the left side may be cut, as in a left join with a condition.
    work = Work(Kind.LEFT, checks.not_negative("output_cost", output_cost), has_condition=True)
    names = [pair.left for pair in keys.pairs]
    plan: JoinPlan | None = None
    if keys.whole_because is None and workers > 1:
        with described(left.sparkSession, f"counting {', '.join(names)} of both sides"):
            plan = plan_of_counts(
                count_sides(left, right, keys, work, workers, threshold), keys, work, workers, threshold, True
            )
    numbers = Numbers()
    if plan is not None and plan.plain_because is None:
        numbers = numbers_of(left, names)
        if numbers.missing_because is not None:
            warnings.warn(f"hot keys cannot be cut: left side: {numbers.missing_because}", stacklevel=2)
            plan = None
    if plan is None or plan.plain_because is not None:
        rights = [pair.right for pair in keys.pairs]
        return left.groupBy(*names).cogroup(right.groupBy(*rights)).applyInPandas(function, schema)
    salt = max(free_name(left, "salt"), free_name(right, "salt"), key=len)
    sides = []
    for df, side in ((left, "left"), (right, "right")):
        own = [pair.left if side == "left" else pair.right for pair in keys.pairs]
        salted = with_salts(df, side, keys, plan, numbers, salt).repartition(workers, *own, salt)
        sides.append(salted.groupBy(*own, salt))
    return sides[0].cogroup(sides[1]).applyInPandas(_without(salt, function), schema)


def _check_function(function: Any) -> None:
    try:
        taken = len(inspect.getfullargspec(function).args)
    except TypeError:  # not a function, or one of C
        taken = 0
    if taken not in (2, 3):
        raise InputError(
            "function must be a Python function of the left and the right rows, and of the key before them if it has "
            f"three parameters, got {function!r:.100}"
        )


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, (str, StructType)) or schema == "":
        raise InputError(f"schema must be a StructType or text such as 'key string, n long', got {schema!r:.100}")
    try:
        if isinstance(schema, str):
            schema_of_ddl(schema)
    except PySparkException as problem:
        raise InputError(f"schema {schema!r} cannot be read: {why(str(problem))}") from None


def _without(salt: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for rows and keys with a salt. It travels by value: executors need no keyspread for it."""

    # Spark decides in the same way whether the function takes the key.
    takes_key = len(inspect.getfullargspec(function).args) == 3

    def of_key(key: Any, left: Any, right: Any) -> Any:
        if not len(left):  # a piece without left rows, although the key has some
            import pandas as pd

            return pd.DataFrame()
        rows = left.drop(columns=salt), right.drop(columns=salt)
        return function(key[:-1], *rows) if takes_key else function(*rows)

    return of_key
