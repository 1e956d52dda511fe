"""`aggregate`: the result of `groupBy`, computed the best way: by Spark alone, or spread over workers and merged."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from keyspread import checks
from keyspread.errors import InputError
from keyspread.operators import OPERATORS, AnyOperator
from keyspread.planned.plan import Plan
from keyspread.schemes import LOOK_AHEAD, PLANNED, resolve
from keyspread.spark.aggregation import way
from keyspread.spark.aggregation.group_by import group_by
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.plan import count_rows, plan_options
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns
from keyspread.spark.spread import spread, with_worker
from keyspread.spark.streaming.stream_aggregate import aggregate_stream
from keyspread.spark.streaming.stream_watch import StreamWatch
from keyspread.spark.streaming.windows import Windows
from keyspread.spark.watch import Watch

Aggregates = Mapping[str, str | Column] | Sequence[Column] | Column | AnyOperator


def aggregate(
    df: DataFrame,
    key: Key,
    aggregates: Aggregates,
    workers: int,
    scheme: str | None = None,
    *,
    window: str | None = None,
    slide: str | None = None,
    time: str | None = None,
    mode: str | None = None,
    watch: Watch | StreamWatch | None = None,
    **options: Any,
) -> DataFrame:
    """Return the result of `df.groupBy(key).agg(…)`, never slower than Spark alone where Spark is enough.

    SQL aggregates without a `scheme` *are* Spark's own `groupBy(key).agg(…)`, in batch and in a stream, because Spark
    folds the rows of a key before they move: a hot key does no harm, and every aggregate that Spark knows works.
    An `Operator` of your own is Python, which Spark cannot fold. Its keys are counted first. If the busiest worker has
    at most 1.1 times the even load with whole keys, every key goes to one worker, which computes its result: one
    exchange and nothing to merge. Otherwise hot keys are cut: rows are spread evenly over `workers`, each worker makes
    a state per key, and the states of a key are merged. With an explicit `scheme` rows are always spread by it and
    merged, also those of SQL aggregates of a bounded DataFrame; exact ones are equal to Spark's, and sketches are
    within their bound.

    `key` is the name of a column, a Column, or a list of them; its columns are named as `groupBy` names them.
    `aggregates` maps names of the result to SQL calls or Columns, {"total": "sum(amount)", "n": F.count("*")}, or
    columns to functions as Spark's own `agg` does, {"amount": "sum"}. It may also be a list of Columns, named as `agg`
    names them, [F.sum("amount").alias("total"), F.count("*")], or an `Operator` or a `ColumnOperator`, which works on
    whole tables instead of key by key. `scheme` and options are those of
    `spread`; `workers` is used only if rows are spread. `watch.way` says which way was taken, and why.

    With `window` ("10 minutes") it returns the result of `df.groupBy(window(time, window, slide), key)`. `time` is the
    column of the event time; in a stream, by default the one with a watermark.

    An operator on a stream returns running totals: a row per key whenever it changes (`mode` "update"). With `window`
    it returns every window once, when it is over (`mode` "append"), or windows as they change ("update"). Write the
    stream in the same mode. The session needs the settings that `stream_settings(workers)` returns. For SQL aggregates
    of a stream, no setting is needed, and `mode` is only checked: that of `writeStream` counts.

    Args:
        df: The rows, bounded or a stream.
        key: The name of a column, a Column, or a list of them.
        aggregates: SQL calls, Columns, or an operator.
        workers: The number of workers, used if rows are spread.
        scheme: The rule that picks the worker of a row; None lets the library decide.
        window: The length of a window, such as "10 minutes".
        slide: The time between the starts of two windows; by default they do not overlap.
        time: The column of the event time.
        mode: "append" or "update", for a stream.
        watch: A `Watch`, or a `StreamWatch` for a stream: it says which way was taken, and counts the rows.
        options: Those of the scheme, as in `spread`.

    Returns:
        A row per key, or per window and key, with the columns of the key and of the aggregates.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import Watch, aggregate, session
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> watch = Watch()
    >>> found = aggregate(rows, "k", {"n": "count(*)", "most": "max(v)"}, workers=4, watch=watch)
    >>> found.orderBy("k").collect()
    [Row(k='cold', n=666, most=998), Row(k='hot', n=334, most=999)]
    >>> print(watch.way)
    groupBy: Spark folds SQL aggregates before rows move, so a hot key does no harm
    """
    workers = checks.whole_number("workers", workers)
    if mode is not None and not df.isStreaming:
        raise InputError(
            f"mode= is for streams, got {mode!r} for a bounded DataFrame, which has one result; leave it out"
        )
    windows = Windows.of(df, window, slide, time)
    if not isinstance(aggregates, OPERATORS):
        if scheme is None:
            _refuse_options(options, df)
            _say(watch, way.GROUP_BY, df)
            return group_by(df, key, aggregates, windows, mode)
        if df.isStreaming:
            raise InputError(
                f"scheme={scheme!r} does not work with SQL aggregates of a stream, which are Spark's own groupBy (it "
                "folds rows before they move): leave it out, or pass an Operator"
            )
    columns = key_columns(df, key)
    if df.isStreaming and isinstance(aggregates, OPERATORS):
        found = aggregate_stream(df, columns, aggregates, workers, scheme, windows, mode, watch=watch, **options)
        _say(watch, _way(df, scheme), df)
        return found
    if windows is not None:
        df = windows.on(df)
    parts = parts_of(df, columns, aggregates, windows)
    if windows is not None:
        columns = [windows.name, *columns]
    if isinstance(parts, OperatorParts) and scheme is None:
        return _by_plan(df, columns, parts, workers, watch, **options)
    return parts.result(partial(df, columns, parts, workers, scheme, watch=watch, **options))


def _by_plan(
    df: DataFrame,
    key: Sequence[KeyColumn],
    parts: OperatorParts,
    workers: int,
    watch: Watch | StreamWatch | None,
    *,
    plan: Plan | None = None,
    **options: Any,
) -> DataFrame:
    """Return the result of an operator: with whole keys if that is even enough, otherwise cut by a plan and merged."""
    used = plan_options(plan, workers, options)
    found = way.of_given_plan()
    if plan is None:
        counted = count_rows(df, key, workers, **used)
        plan = counted.plan_of_whole_keys()
        busiest = 1 + plan.imbalance * workers
        if busiest <= way.MOST_OF_WHOLE_KEYS:
            found = way.of_whole_keys(busiest)
        else:
            found, plan = way.of_cut_keys(busiest), counted.plan()
    if (plan.pieces.sizes > 1).any():
        result = parts.result(partial(df, key, parts, workers, PLANNED, watch=watch, plan=plan))
    else:
        result = parts.result_of_whole_keys(spread(df, key, workers, PLANNED, watch=watch, plan=plan))
    _say(watch, found, df)
    return result


def parts_of(
    df: DataFrame, key: Sequence[KeyColumn], aggregates: Aggregates, windows: Windows | None = None
) -> SqlParts | OperatorParts:
    """Split aggregates into partial states and their merge; both kinds have the same methods."""
    if isinstance(aggregates, OPERATORS):
        return OperatorParts(df, key, aggregates, windows)
    return SqlParts(df, key if windows is None else [windows.name, *key], aggregates)


def partial(
    df: DataFrame,
    key: Sequence[KeyColumn],
    parts: SqlParts | OperatorParts,
    workers: int,
    scheme: str | None,
    *,
    watch: Watch | StreamWatch | None = None,
    **options: Any,
) -> DataFrame:
    """Return the partial states of a bounded DataFrame: a row for each key, or for each key on each worker.

    Those of SQL aggregates without a scheme are computed by Spark's own `groupBy`, all others by workers.
    """
    if isinstance(parts, SqlParts) and scheme is None:
        _refuse_options(options, df)
        _say(watch, way.GROUP_BY, df)
        return parts.partial(df)
    routed, worker = with_worker(df, key, workers, scheme, watch=watch, **options)
    _say(watch, _way(df, scheme), df)
    return parts.partial(move(routed, workers, worker), worker)


def _refuse_options(options: Mapping[str, Any], df: DataFrame) -> None:
    for name in sorted(options):
        remedy = "leave it out" if df.isStreaming else f'leave it out, or pass scheme="{PLANNED}" to spread the rows'
        raise InputError(
            f"option {name!r} has no effect, because SQL aggregates are Spark's own groupBy, which routes no row: "
            f"{remedy}"
        )


def _way(df: DataFrame, scheme: str | None) -> way.Way:
    if scheme is not None:
        return way.by_scheme(resolve(scheme).name)
    return way.of_operator(LOOK_AHEAD if df.isStreaming else PLANNED)


def _say(watch: Watch | StreamWatch | None, found: way.Way, df: DataFrame) -> None:
    if watch is not None:
        watch.take(found, df)
