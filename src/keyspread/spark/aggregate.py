"""`aggregate`: one row per key, computed by an operator on all workers, whatever keys are hot."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from keyspread.errors import InputError
from keyspread.online.settings import Settings
from keyspread.operators import OPERATORS, AnyOperator
from keyspread.planned.plan import Plan
from keyspread.schemes import LOOK_AHEAD, PLANNED
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.way import Way
from keyspread.spark.plan import count_rows
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.weights import Weight
from keyspread.spark.spread import spread, with_worker
from keyspread.spark.streaming.stream_aggregate import aggregate_stream
from keyspread.spark.streaming.stream_watch import StreamWatch
from keyspread.spark.streaming.windows import Windows
from keyspread.spark.watch import Watch

_MOST_OF_WHOLE_KEYS = 1.1
"""The busiest worker, as a multiple of the even load, up to which the keys of an operator stay whole."""
_CALLERS_SCHEME = "the caller chose this scheme"


def aggregate(
    df: DataFrame,
    key: Key,
    operator: AnyOperator,
    workers: int,
    scheme: str | None = None,
    *,
    window: str | None = None,
    slide: str | None = None,
    time: str | None = None,
    mode: str | None = None,
    plan: Plan | None = None,
    weight: Weight | None = None,
    threshold: float | None = None,
    tolerance: float | None = None,
    sender: Settings | None = None,
    watch: Watch | StreamWatch | None = None,
) -> DataFrame:
    """Return the result of an operator for each key: what `df.groupBy(key)` and a Python function would return.

    The operator is Python, which Spark cannot fold. Without a `scheme`, the keys of a bounded DataFrame are counted
    first. If the busiest worker has at most 1.1 times the even load with whole keys, every key goes to one worker,
    which computes its result: one exchange and nothing to merge. Otherwise hot keys are cut: rows are spread evenly
    over `workers`, each worker makes a state per key, and the states of a key are merged. With a `scheme`, rows are
    always spread by it and merged. `watch.way` says which way was taken, and why.

    SQL aggregates are Spark's business: `df.groupBy(key).agg(…)` folds the rows of a key before they move, so a hot key
    does no harm.

    `key` is the name of a column, a Column, or a list of them; its columns are named as `groupBy` names them. An
    `Operator` is called key by key, a `ColumnOperator` works on whole tables; `keyspread.operators.Count` is one.

    With `window` ("10 minutes") there is a row per window and key, as from `df.groupBy(F.window(time, window), key)`.
    `time` is the column of the event time; in a stream, by default the one with a watermark.

    A stream returns running totals: a row per key whenever it changes (`mode` "update"). With `window` it returns
    every window once, when it is over (`mode` "append"), or windows as they change ("update"). Write the stream in the
    same mode. The session needs the settings that `stream_settings(workers)` returns.

    Args:
        df: The rows, bounded or a stream.
        key: The name of a column, a Column, or a list of them.
        operator: An `Operator` or a `ColumnOperator`.
        workers: The number of workers.
        scheme: The rule that picks the worker of a row, as in `spread`; None lets the library decide.
        window: The length of a window, such as "10 minutes".
        slide: The time between the starts of two windows; by default they do not overlap.
        time: The column of the event time.
        mode: "append" or "update", for a stream.
        plan: A plan for these workers, as in `spread`.
        weight: A column of whole numbers, as in `spread`.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        tolerance: The imbalance that d-choices and per-key allow.
        sender: The `keyspread.Settings` of online schemes.
        watch: A `Watch`, or a `StreamWatch` for a stream: it says which way was taken, and counts the rows.

    Returns:
        A row per key, or per window and key, with the columns of the key and of the operator's schema.

    Raises:
        InputError: An argument is wrong, or has no effect; the message names it, the value and the remedy.

    >>> from keyspread.operators import Count
    >>> from keyspread.spark import Watch, aggregate, session
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> watch = Watch()
    >>> counts = aggregate(rows, "k", Count(), workers=4, watch=watch)
    >>> counts.orderBy("k").collect()
    [Row(k='cold', count=666), Row(k='hot', count=334)]
    >>> print(watch.way)
    planned: with whole keys the busiest worker would have 2.66 x the even load
    """
    check_operator(operator, key, window)
    routing = Routing.of(
        workers,
        scheme,
        LOOK_AHEAD if df.isStreaming else PLANNED,
        plan=plan,
        weight=weight,
        threshold=threshold,
        tolerance=tolerance,
        sender=sender,
        watch=watch,
    )
    if mode is not None and not df.isStreaming:
        raise InputError(
            f"mode= is for streams, got {mode!r} for a bounded DataFrame, which has one result; leave it out"
        )
    windows = Windows.of(df, window, slide, time)
    columns = key_columns(df, key)
    chosen = None if scheme is None else Way(routing.scheme, _CALLERS_SCHEME)
    if df.isStreaming:
        result = aggregate_stream(df, columns, operator, routing, windows, mode)
        _say(watch, chosen or Way(routing.scheme, "Spark cannot fold the rows of an Operator before they move"), df)
        return result
    if windows is not None:
        df = windows.on(df)
    parts = OperatorParts(df, columns, operator, windows)
    if windows is not None:
        columns = [windows.name, *columns]
    if chosen is None:
        return _by_plan(df, columns, parts, routing)
    return parts.result(partial(df, columns, parts, routing))


def _by_plan(df: DataFrame, key: list[KeyColumn], parts: OperatorParts, routing: Routing) -> DataFrame:
    """Return the result of an operator: with whole keys if that is even enough, otherwise cut by a plan and merged."""
    plan, workers, watch = routing.plan, routing.workers, routing.watch
    chosen = Way(PLANNED, "the caller passed a plan")
    if plan is None:
        counted = count_rows(df, key, workers, threshold=routing.threshold, weight=routing.weight)
        plan = counted.plan_of_whole_keys()
        busiest = 1 + plan.imbalance * workers
        load = f"{busiest:.2f} x the even load"
        if busiest <= _MOST_OF_WHOLE_KEYS:
            chosen = Way("key", f"no key is hot enough to matter, with whole keys the busiest worker has {load}")
        else:
            chosen = Way(PLANNED, f"with whole keys the busiest worker would have {load}")
            plan = counted.plan()
    if (plan.pieces.sizes > 1).any():
        result = parts.result(partial(df, key, parts, replace(routing, plan=plan), chosen))
    else:
        result = parts.result_of_whole_keys(spread(df, key, workers, plan=plan, watch=watch))
        _say(watch, chosen, df)
    return result


def partial(
    df: DataFrame, key: list[KeyColumn], parts: OperatorParts, routing: Routing, chosen: Way | None = None
) -> DataFrame:
    """Return the partial states of a bounded DataFrame: a row for each key on each worker."""
    routed, worker = with_worker(df, key, routing)
    _say(routing.watch, chosen or Way(routing.scheme, _CALLERS_SCHEME), df)
    return parts.partial(move(routed, routing.workers, worker), worker)


def _say(watch: Watch | StreamWatch | None, chosen: Way, df: DataFrame) -> None:
    if watch is not None:
        watch.take(chosen, df)


def check_operator(operator: Any, key: Any, window: str | None = None) -> None:
    """Refuse what is no operator. For SQL aggregates, show the call of Spark to write instead."""
    if isinstance(operator, OPERATORS):
        return
    if isinstance(operator, type) and issubclass(operator, OPERATORS):
        raise InputError(f"operator must be an Operator, got the class: write {operator.__name__}()")
    keys = [*([] if window is None else [f"F.window(…, {window!r})"]), _in_python(key)]
    if isinstance(operator, Mapping) and any("(" in str(call) for call in operator.values()):
        calls = ", ".join(f"{_in_python(call, 'F.expr({!r})')}.alias({name!r})" for name, call in operator.items())
    else:
        calls = ", ".join(map(_in_python, operator)) if isinstance(operator, (list, tuple)) else _in_python(operator)
    raise InputError(
        "operator must be an Operator or a ColumnOperator; SQL aggregates are Spark's own: write "
        f"df.groupBy({', '.join(keys)}).agg({calls})"
    )


def _in_python(value: Any, text: str = "{!r}") -> str:
    """Return how a value was written; a Column does not know that exactly."""
    return text.format(value) if isinstance(value, (str, Mapping)) else f"{value}"
