"""`aggregate`: one row per key, computed by an operator on all workers, whatever keys are hot."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import isfunction
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from keyspread.errors import InputError
from keyspread.operators import OPERATORS, AnyOperator
from keyspread.planned.plan import Plan
from keyspread.sender.registry import LOOK_AHEAD, PLANNED
from keyspread.sender.settings import Settings
from keyspread.spark._engine.capabilities import has_python_state, is_column, transform_with_state
from keyspread.spark._folding.input_splits import slots_of, tasks_of
from keyspread.spark._folding.operator_parts import WATERMARK, OperatorParts, Windows
from keyspread.spark._routing.exchange import move
from keyspread.spark._routing.keys import Key, KeyColumn, column, free_name, key_columns, key_texts
from keyspread.spark._routing.options import Routing, Watching, Way, Weight, checked_workers
from keyspread.spark._routing.repeatable import repeatable_order
from keyspread.spark._streaming.state import StateRules, check_settings, packer, processor, unpacker
from keyspread.spark.spread import with_worker
from keyspread.spark.stream_watch import StreamWatch
from keyspread.spark.watch import Watch

_CALLERS_SCHEME = "the caller chose this scheme"
_SKELETON = (
    "write class Mine(keyspread.Operator): schema = 'total double'; def zero(self): …; "
    "def update(self, state, rows): …; def merge(self, state, other): …; "
    "def finish(self, state): return {'total': …}, and pass Mine()"
)


def aggregate(
    df: DataFrame,
    key: Key,
    operator: AnyOperator,
    workers: int | None = None,
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

    Without a `scheme`, the rows of a bounded DataFrame are folded where they are: every task makes states of the keys
    that it has often, and only states and the rows of rare keys move, by the hash of the key. It is one job, which
    computes `df` once. If the input is uneven, or it is not known how even it is, Spark's own `repartition` spreads the
    rows first. With a `scheme` or a `plan`, rows are routed by it, made into states by their workers, and merged.
    `watch.way` says which way was taken, and why.

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
        workers: The number of workers, by default `spark.sql.shuffle.partitions`.
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
    >>> rows = session().range(0, 1000, 1, 4).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> watch = Watch()
    >>> counts = aggregate(rows, "k", Count(), workers=4, watch=watch)
    >>> counts.orderBy("k").collect()
    [Row(k='cold', count=666), Row(k='hot', count=334)]
    >>> print(watch.way)
    fold: every task folds its own rows
    """
    if not hasattr(df, "sparkSession"):
        raise InputError(f"df must be a DataFrame of Spark, got {type(df).__name__}: spark.createDataFrame makes one")
    check_operator(operator, key, window)
    default = plan.workers if workers is None and isinstance(plan, Plan) else workers
    routing = Routing.of(
        checked_workers(df.sparkSession, default),
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
    chosen = None if scheme is None and plan is None else Way(routing.scheme, _CALLERS_SCHEME)
    if chosen is None and not df.isStreaming:
        for name, value in {"weight": weight, "threshold": threshold}.items():
            if value is not None:
                raise InputError(
                    f"{name}= has no effect without a scheme, because rows are folded first: leave it out, or "
                    f'pass scheme="{PLANNED}"'
                )
    if df.isStreaming:
        result = aggregate_stream(df, columns, operator, routing, windows, mode)
        _say(watch, chosen or Way(routing.scheme, "Spark cannot fold the rows of an Operator before they move"), df)
        return result
    rows = df if windows is None else windows.on(df)
    parts = OperatorParts(rows, columns, operator, windows)
    if chosen is None:
        slots = slots_of(df.sparkSession) if workers is None else None
        return _folded(df, columns, parts, windows, routing, min(slots or routing.workers, routing.workers))
    return parts.result(partial(rows, [*([] if windows is None else [windows.name]), *columns], parts, routing))


def _folded(
    df: DataFrame, key: list[KeyColumn], parts: OperatorParts, windows: Windows | None, routing: Routing, enough: int
) -> DataFrame:
    """Return the result of rows that are folded before they move by key, in at least `enough` tasks if it is known."""
    workers, watch = routing.workers, routing.watch
    tasks, uneven = tasks_of(df, enough)
    # A watch counts the rows of each task, so it needs to know how many tasks there are.
    how = "every task folds its own rows"
    if uneven is not None and _is_repeatable(df, refuse=watch is not None):
        df, tasks = df.repartition(workers), workers
        how = f"rows were spread evenly first, because {uneven}"
    if watch is not None:  # a worker is a task that folds
        worker = free_name(df, "worker")
        seen = df.withColumn(worker, F.spark_partition_id())
        df = watch.on(seen, key, worker, replace(routing, workers=tasks)).drop(worker)
    _say(watch, Way("fold", how), df)
    return parts.folded(df if windows is None else windows.on(df), workers)


def _is_repeatable(df: DataFrame, refuse: bool) -> bool:
    """Return whether an even exchange loses no row if a task runs again; rows that are folded in place need none."""
    try:
        repeatable_order(df)
    except InputError:
        if refuse:
            raise
        return False
    return True


def partial(
    df: DataFrame, key: list[KeyColumn], parts: OperatorParts, routing: Routing, chosen: Way | None = None
) -> DataFrame:
    """Return the partial states of a bounded DataFrame: a row for each key on each worker."""
    routed, worker = with_worker(df, key, routing)
    _say(routing.watch, chosen or Way(routing.scheme, _CALLERS_SCHEME), df)
    return parts.partial(move(routed, routing.workers, worker), worker)


def _say(watch: Watching | None, chosen: Way, df: DataFrame) -> None:
    if watch is not None:
        watch.take(chosen, df)


def check_operator(operator: Any, key: Any, window: str | None = None) -> None:
    """Refuse what is no operator. For SQL aggregates, show the call of Spark to write instead."""
    if isinstance(operator, OPERATORS):
        return
    if isinstance(operator, type) and issubclass(operator, OPERATORS):
        raise InputError(f"operator must be an Operator, got the class: write {operator.__name__}()")
    if not isinstance(operator, (str, Mapping, list, tuple)) and not is_column(operator):
        what = f"the function {operator.__name__}" if isfunction(operator) else f"{operator!r:.60}".splitlines()[0]
        raise InputError(f"operator must be an Operator or a ColumnOperator, got {what}: {_SKELETON}")
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


# `aggregate` of a stream by an operator: running totals, or windows.
#
#     rows → worker → partial states of the batch → blobs → state partition of the key's owner → rows of the result
#          with_worker           packer                           StateMerger                unpacker
#
# The workers process the rows, evenly in every batch. The owner of a key keeps its state between batches.


_MODES = {"append": "every window once, when it is over", "update": "changed rows, after every batch"}


def aggregate_stream(
    df: DataFrame,
    key: list[KeyColumn],
    operator: AnyOperator,
    routing: Routing,
    windows: Windows | None,
    mode: str | None,
) -> DataFrame:
    """Return running totals, or windows, of a stream; see `keyspread.spark.aggregate`."""
    if not has_python_state(df):
        raise InputError(
            "an Operator on a stream needs Spark's transformWithState for Python, which this Spark does not have (4.0 "
            "and newer do, over Connect 4.1 and newer): pass keyspread.spark.Totals to foreachBatch, which takes every "
            "Operator"
        )
    parts, workers = OperatorParts(df, key, operator, windows), routing.workers
    mode = _checked_mode(mode, windows)
    check_settings(df.sparkSession, workers)
    # The scheme may change from run to run: it only decides where partial states are computed. Types are those of
    # Spark, without what may be null: the Arrow types of a state depend on the session.
    keys = df.select(*(column(df, part) for part in key)).schema
    identity = {
        "key": key_texts(key),
        "key types": [field.dataType.simpleString() for field in keys],
        "rows": df.schema.simpleString(),
        "aggregates": parts.identity,
        "window": None if windows is None else [windows.window, windows.slide, windows.time],
        "workers": workers,
        "mode": mode,
    }
    routed, worker = with_worker(df, key, routing)
    moved = move(routed, workers, worker).drop(worker)
    if windows is not None:  # only now, so that a row is moved once, however many windows it is in
        moved = windows.on(moved)
    rows = parts.rows(moved)
    bounds = None if windows is None else pa.timestamp("us", "UTC" if isinstance(windows.kind, TimestampType) else None)
    rules = StateRules(parts.states.fold, identity, workers, mode, bounds)
    blobs = rows.mapInArrow(packer(rules, parts.states.make), _blob_schema(moved, windows))
    state = transform_with_state(
        blobs.groupBy("tag"),
        processor(rules),
        "blob binary",
        mode.capitalize(),
        "None" if windows is None else "EventTime",
    )
    return parts.unpacked(state, unpacker(parts.states.finish))


def _blob_schema(rows: DataFrame, windows: Windows | None) -> StructType:
    tag, blob = StructField("tag", IntegerType()), StructField("blob", BinaryType())
    if windows is None:
        return StructType([tag, blob])
    field = rows.schema[windows.name]
    # By this metadata Spark knows the event time of a blob, and drops those of windows that are over: the late rows.
    window = StructField("window", field.dataType, True, {WATERMARK: field.metadata[WATERMARK]})
    return StructType([tag, StructField("start", LongType()), StructField("end", LongType()), blob, window])


def _checked_mode(mode: str | None, windows: Windows | None) -> str:
    if mode is None:
        return "update" if windows is None else "append"
    modes = "; ".join(f"{name} ({what})" for name, what in _MODES.items())
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise InputError(f"mode {mode!r} is not supported; use {modes}")
    if mode.lower() == "append" and windows is None:
        raise InputError("mode 'append' needs window=, because a running total is never final; use 'update'")
    return mode.lower()
