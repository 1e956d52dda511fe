"""`spread`: the same rows, each in the partition of its worker."""

from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.errors import InputError
from keyspread.planned.plan import Plan
from keyspread.schemes import Kind, resolve
from keyspread.spark.plan import plan as plan_rows
from keyspread.spark.plan import plan_options
from keyspread.spark.realtime.spread_records import spread_records
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import Key, KeyColumn, free_name, in_sql, key_columns, key_hash
from keyspread.spark.routing.look_ahead import look_ahead_worker
from keyspread.spark.routing.planned_sql import bucket_of, with_planned_worker
from keyspread.spark.routing.row_order import repeatable_order
from keyspread.spark.routing.senders import online_worker
from keyspread.spark.routing.tables import as_column, look_up
from keyspread.spark.routing.tags import tags_of
from keyspread.spark.routing.weights import weight_column
from keyspread.spark.streaming.stream_watch import StreamWatch
from keyspread.spark.watch import Watch

_BY_KEY_ALONE = "key"  # the only online scheme for which the order of rows does not matter


def spread(
    df: DataFrame, key: Key, workers: int, scheme: str | None = None, *, realtime: bool = False, **options: Any
) -> DataFrame:
    """Return the same rows and columns in `workers` partitions: partition w holds exactly the rows of worker w.

    `key` is the name of a column, a Column (also an expression such as `F.lower("customer")`), or a list of them, of
    any type that Spark can hash. A null key is a key like any other.

    `scheme` is one of these, by default "planned" for a bounded DataFrame and "look-ahead" for a stream:

    - "planned": the rows are counted and planned first. Options are those of `keyspread.spark.plan`, or `plan=` with
      a Plan that you made before.
    - "look-ahead": each input partition plans its own rows. The option is `threshold`.
    - one of `keyspread.SCHEMES`: each input partition has a `keyspread.Sender` that decides row by row. Options are
      those of the Sender.

    `weight=` names a column of whole numbers (bytes or cost of a row); the load of a worker is then their sum.
    `watch=` takes a `Watch`, or a `StreamWatch` for a stream, which counts the rows on their way.

    In a stream every micro-batch is balanced by itself, and nothing is kept between batches. A batch that is retried,
    also on another executor or after a restart, is routed the same.

    `realtime=True` (experimental) is for a stream with `trigger(realTime=…)`, which Spark can exchange from 4.3 on:
    every row is routed as it arrives, and none waits for another one. Schemes are those of `keyspread.SCHEMES` (by
    default "per-key"), or `plan=` with a Plan of earlier rows, which needs no Python. The session needs the settings of
    `realtime_settings`. See docs/realtime.md.

    A task that is retried routes its rows the same, in any order that they arrive in. If Spark does not protect retried
    tasks (its order-independent checksums are off, as by default in 4.1), rows behind a shuffle are therefore routed in
    the order of a hash of the row, and rows that change when they are computed again (`rand()` behind a shuffle) are
    refused. See "If a task runs again" in the documentation.

    Put the work per worker directly behind it (mapInArrow, mapInPandas, foreachPartition, groupBy of the key). Another
    exchange would move the rows again. No setting of the session is changed.

    Args:
        df: The rows, bounded or a stream.
        key: The name of a column, a Column, or a list of them.
        workers: The number of workers, which is the number of partitions.
        scheme: The rule that picks the worker of a row.
        options: Those of the scheme, and `weight`, `watch`.

    Returns:
        The same rows and columns; partition w holds the rows of worker w.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import balance, session, spread
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', string(id)) AS k", "id AS v")
    >>> loads = balance(spread(rows, "k", workers=4), workers=4).loads
    >>> int(loads.sum()), bool(abs(loads - 250).max() <= 5)
    (1000, True)
    """
    _refuse_checkpoint(options)
    if realtime:
        return spread_records(df, key, workers, scheme, **options)
    if _is_planned(df, scheme) and options.get("watch") is None:
        options.pop("watch", None)
        found = _plan(df, key, checks.whole_number("workers", workers), **options)
        return _spread_by_plan(df, key_columns(df, key), workers, found)
    routed, worker = with_worker(df, key, workers, scheme, **options)
    return move(routed, workers, worker).drop(worker)


def _spread_by_plan(df: DataFrame, columns: list[KeyColumn], workers: int, plan: Plan) -> DataFrame:
    """Return the rows on the workers of a plan. Its tables hold the tags of the workers, which saves a look-up."""
    tags, names = np.array(tags_of(workers)), [part for part in columns if isinstance(part, str)]
    if not plan.head and len(names) == len(columns):  # then the tag need not be a column of the shuffle
        hash_ = f"xxhash64({', '.join(in_sql(df, name) for name in names)})"
        tag = look_up(df.sparkSession, tags[plan.buckets], bucket_of(hash_, plan.buckets.size))
        return df.repartition(workers, as_column(tag))
    worker = free_name(df, "worker")
    routed = with_planned_worker(_in_repeatable_order(df, plan), key_hash(df, columns), plan, worker, tags)
    return routed.repartition(workers, worker).drop(worker)


def _in_repeatable_order(df: DataFrame, plan: Plan) -> DataFrame:
    """Return the rows in an order that a retried task repeats, if it matters: only keys in pieces go by position."""
    order = repeatable_order(df) if (plan.pieces.sizes > 1).any() else None
    return df if order is None else df.sortWithinPartitions(order)


def with_worker(
    df: DataFrame,
    key: Key,
    workers: int,
    scheme: str | None = None,
    watch: Watch | StreamWatch | None = None,
    **options: Any,
) -> tuple[DataFrame, str]:
    """Return the rows with their worker in a column at the end, not yet moved, and the name of that column."""
    _refuse_checkpoint(options)
    workers = checks.whole_number("workers", workers)
    columns = key_columns(df, key)
    worker = free_name(df, "worker")
    if _is_planned(df, scheme):
        found = _plan(df, columns, workers, **options)
        routed = with_planned_worker(_in_repeatable_order(df, found), key_hash(df, columns), found, worker)
    else:
        if options.get("weight") is not None:
            options["weight"] = weight_column(df, options["weight"])
        by_key = scheme is not None and resolve(scheme).name == _BY_KEY_ALONE
        order = None if by_key else repeatable_order(df)
        if scheme is None or resolve(scheme).kind is Kind.LOOK_AHEAD:
            routed = df.withColumn(worker, look_ahead_worker(key_hash(df, columns), workers, order, **options))
        else:
            routed = df.withColumn(worker, online_worker(key_hash(df, columns), scheme, workers, order, **options))
    return routed if watch is None else watch.on(routed, columns, workers, worker, options), worker


def _refuse_checkpoint(options: dict[str, Any]) -> None:
    if "checkpoint" in options:
        raise InputError(
            "unknown option 'checkpoint'; it is no longer needed, because senders keep nothing between batches: "
            "set checkpointLocation on the query only"
        )


def _is_planned(df: DataFrame, scheme: str | None) -> bool:
    return not df.isStreaming if scheme is None else resolve(scheme).kind is Kind.PLANNED


def _plan(df: DataFrame, key: Key, workers: int, *, plan: Plan | None = None, **options: Any) -> Plan:
    used = plan_options(plan, workers, options)
    if plan is not None and plan.head and df.isStreaming:
        raise InputError(
            "this plan cuts hot keys by the position of a row, which rows of a stream do not have: spread the batch "
            "inside foreachBatch, or leave out plan= and scheme="
        )
    return plan_rows(df, key, workers, **used) if plan is None else plan
