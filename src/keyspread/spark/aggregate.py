"""`aggregate`: partial states on the workers, merged by key, equal to the result of `groupBy`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField

from keyspread.errors import InputError
from keyspread.operators import Operator
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns
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
    """Return the result of `df.groupBy(key).agg(…)`, computed evenly on all workers.

    Exact aggregates are equal to Spark's. Sketches are within their bound.

    `key` is the name of a column, a Column, or a list of them; its columns are named as `groupBy` names them.
    `aggregates` maps names of the result to SQL calls or Columns, {"total": "sum(amount)", "n": F.count("*")}, or
    columns to functions as Spark's own `agg` does, {"amount": "sum"}. It may also be a list of Columns, named as `agg`
    names them, [F.sum("amount").alias("total"), F.count("*")], or an `Operator` of your own. `scheme` and options are
    those of `spread`.

    With `window` ("10 minutes") it returns the result of `df.groupBy(window(time, window, slide), key)`. `time` is the
    column of the event time; in a stream, by default the one with a watermark.

    For a stream it returns running totals: a row per key whenever it changes (`mode` "update"). With `window` it
    returns every window once, when it is over (`mode` "append"), or windows as they change ("update"). Write the
    stream in the same mode. The session needs the settings that `stream_settings(workers)` returns.

    >>> from keyspread.spark import aggregate, session
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> aggregate(rows, "k", {"n": "count(*)", "most": "max(v)"}, workers=4).orderBy("k").collect()
    [Row(k='cold', n=666, most=998), Row(k='hot', n=334, most=999)]
    """
    windows = Windows.of(df, window, slide, time)
    columns = key_columns(df, key)
    if df.isStreaming:
        parts = parts_of(df, columns, aggregates, windows.bounds if windows is not None else ())
        return aggregate_stream(df, columns, parts, workers, scheme, windows, mode, **options)
    if mode is not None:
        raise InputError(
            f"mode= is for streams, got {mode!r} for a bounded DataFrame, which has one result; leave it out"
        )
    if windows is not None:
        df, columns = windows.on(df), [windows.name, *columns]
    parts = parts_of(df, columns, aggregates)
    return parts.result(partial(df, columns, parts, workers, scheme, **options))


def parts_of(
    df: DataFrame, key: Sequence[KeyColumn], aggregates: Aggregates, first: Sequence[StructField] = ()
) -> SqlParts | OperatorParts:
    """Split aggregates into partial states and their merge; both kinds have the same methods."""
    if isinstance(aggregates, Operator):
        return OperatorParts(df, key, aggregates, first)
    return SqlParts(df, key, aggregates, first)


def partial(
    df: DataFrame,
    key: Sequence[KeyColumn],
    parts: SqlParts | OperatorParts,
    workers: int,
    scheme: str | None,
    **options: Any,
) -> DataFrame:
    """Return the partial states that the workers compute: a row for each key on each worker."""
    routed, worker = with_worker(df, key, workers, scheme, **options)
    return parts.partial(move(routed, workers, worker), worker)
