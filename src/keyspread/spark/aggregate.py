"""`aggregate`: partial states on the workers, merged by key, equal to the plain answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField

from keyspread.errors import InputError
from keyspread.operators import Operator
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.routing.keys import Key, key_columns
from keyspread.spark.spread import with_worker
from keyspread.spark.streaming.stream_aggregate import aggregate_stream
from keyspread.spark.streaming.windows import Windows

Aggregates = Mapping[str, str | Column] | Sequence[Column] | Column | Operator[Any]


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
    **options: Any,
) -> DataFrame:
    """Give what `df.groupBy(key).agg(…)` gives, computed in balance: equal if exact, else within the sketch's bound.

    `aggregates` maps names of the result to SQL calls, {"total": "sum(amount)", "n": "count(*)"}, or columns to
    functions as Spark's own `agg` does, {"amount": "sum"}; or it is an `Operator` of your own. `scheme` and options
    are those of `spread`.

    With `window` ("10 minutes") it gives what `df.groupBy(window(time, window, slide), key)` gives; `time` is the
    column of the event time, in a stream by default the one with a watermark.

    Of a stream it gives running totals, a row of a key whenever it has changed (`mode` "update"), or with `window`
    every window once it is over (`mode` "append"; "update" gives windows as they change). Write it in that mode.
    The session needs the settings that `stream_settings(workers)` gives. `checkpoint=` is the query's, as in `spread`.

    >>> from keyspread.spark import aggregate, session
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> aggregate(rows, "k", {"n": "count(*)", "most": "max(v)"}, workers=4).orderBy("k").collect()
    [Row(k='cold', n=666, most=998), Row(k='hot', n=334, most=999)]
    """
    windows = Windows.of(df, window, slide, time)
    names = key_columns(df, key)
    if df.isStreaming:
        parts = parts_of(df, names, aggregates, windows.bounds if windows is not None else ())
        return aggregate_stream(df, names, parts, workers, scheme, windows, mode, **options)
    if mode is not None:
        raise InputError(
            f"mode= is for streams, got {mode!r} for a bounded DataFrame, which has one answer; leave it out"
        )
    if windows is not None:
        df, names = windows.on(df), [windows.name, *names]
    parts = parts_of(df, names, aggregates)
    return parts.result(partial(df, names, parts, workers, scheme, **options))


def parts_of(
    df: DataFrame, names: Sequence[str], aggregates: Aggregates, first: Sequence[StructField] = ()
) -> SqlParts | OperatorParts:
    """Take aggregates apart; both kinds have the same methods."""
    if isinstance(aggregates, Operator):
        return OperatorParts(df, names, aggregates, first)
    return SqlParts(df, names, aggregates, first)


def partial(
    df: DataFrame,
    names: Sequence[str],
    parts: SqlParts | OperatorParts,
    workers: int,
    scheme: str | None,
    **options: Any,
) -> DataFrame:
    """Give the partial states that the workers make: a row for each key on each worker."""
    routed, worker = with_worker(df, names, workers, scheme, **options)
    return parts.partial(routed.repartitionById(workers, worker), worker)
