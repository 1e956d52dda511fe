"""`spread`: the same rows, each in the partition of its worker."""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame

from keyspread.errors import InputError
from keyspread.planned.plan import Plan
from keyspread.sender.registry import LOOK_AHEAD, PLANNED, Kind
from keyspread.sender.settings import Settings
from keyspread.spark._routing.exchange import move, tags_of
from keyspread.spark._routing.keys import Key, KeyColumn, free_name, in_sql, key_columns, key_hash
from keyspread.spark._routing.options import Routing, Weight, weight_column
from keyspread.spark._routing.planned_sql import as_column, bucket_of, look_up, with_planned_worker
from keyspread.spark._routing.repeatable import repeatable_order
from keyspread.spark._routing.senders import python_worker
from keyspread.spark.plan import count_rows
from keyspread.spark.realtime.records import DEFAULT_SCHEME, spread_records
from keyspread.spark.stream_watch import StreamWatch
from keyspread.spark.watch import Watch

_BY_KEY_ALONE = "key"  # the only online scheme for which the order of rows does not matter


def spread(
    df: DataFrame,
    key: Key,
    workers: int,
    scheme: str | None = None,
    *,
    plan: Plan | None = None,
    weight: Weight | None = None,
    threshold: float | None = None,
    tolerance: float | None = None,
    sender: Settings | None = None,
    watch: Watch | StreamWatch | None = None,
    realtime: bool = False,
    record: str | Sequence[str] | None = None,
) -> DataFrame:
    """Return the same rows and columns in `workers` partitions: partition w holds exactly the rows of worker w.

    `key` is the name of a column, a Column (also an expression such as `F.lower("customer")`), or a list of them, of
    any type that Spark can hash. A null key is a key like any other.

    `scheme` is one of these, by default "planned" for a bounded DataFrame and "look-ahead" for a stream:

    - "planned": the rows are counted and planned first, or routed by a `plan` that you made before with
      `keyspread.spark.plan`, which has more options.
    - "look-ahead": each input partition plans its own rows.
    - one of `keyspread.SCHEMES`: each input partition has a `keyspread.Sender` that decides row by row; `sender` has
      its settings. Partition p is the sender with `source=p`.

    In a stream every micro-batch is balanced by itself, and nothing is kept between batches. A batch that is retried,
    also on another executor or after a restart, is routed the same.

    `realtime=True` (experimental) is for a stream with `trigger(realTime=…)`, which Spark can exchange from 4.3 on:
    every row is routed as it arrives, and none waits for another one. Schemes are those of `keyspread.SCHEMES` (by
    default "per-key"), or `plan` with a Plan of earlier rows, which needs no Python. The session needs the settings of
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
        plan: A plan for these workers, from `keyspread.spark.plan` or `keyspread.plan`.
        weight: A column of whole numbers (bytes or cost of a row); the load of a worker is then their sum.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        tolerance: The imbalance that d-choices and per-key allow, by default 1e-4.
        sender: The `keyspread.Settings` of online schemes: seed, counters, choices, half-life.
        watch: A `Watch`, or a `StreamWatch` for a stream, which counts the rows on their way.
        realtime: Whether the stream runs in real-time mode.
        record: In real-time mode with a plan, the columns that tell records apart; by default Kafka's.

    Returns:
        The same rows and columns; partition w holds the rows of worker w.

    Raises:
        InputError: An argument is wrong, or has no effect; the message names it, the value and the remedy.

    >>> from keyspread.spark import balance, session, spread
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', string(id)) AS k", "id AS v")
    >>> loads = balance(spread(rows, "k", workers=4), workers=4).loads
    >>> int(loads.sum()), bool(abs(loads - 250).max() <= 5)
    (1000, True)
    """
    default = DEFAULT_SCHEME if realtime else LOOK_AHEAD if df.isStreaming else PLANNED
    routing = Routing.of(
        workers,
        scheme,
        default,
        plan=plan,
        weight=weight,
        threshold=threshold,
        tolerance=tolerance,
        sender=sender,
        watch=watch,
    )
    if realtime:
        return spread_records(df, key, routing, record)
    if record is not None:
        raise InputError(f"record={record!r} is for realtime=True; leave it out")
    columns = key_columns(df, key)
    if routing.kind is Kind.PLANNED and watch is None:
        return _spread_by_plan(df, columns, routing.workers, _plan_of(df, columns, routing))
    routed, worker = with_worker(df, columns, routing)
    return move(routed, routing.workers, worker).drop(worker)


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


def with_worker(df: DataFrame, columns: list[KeyColumn], routing: Routing) -> tuple[DataFrame, str]:
    """Return the rows with their worker in a column at the end, not yet moved, and the name of that column."""
    worker = free_name(df, "worker")
    if routing.kind is Kind.PLANNED:
        plan = _plan_of(df, columns, routing)
        routed = with_planned_worker(_in_repeatable_order(df, plan), key_hash(df, columns), plan, worker)
    else:
        weight = None if routing.weight is None else weight_column(df, routing.weight)
        order = None if routing.scheme == _BY_KEY_ALONE else repeatable_order(df)
        routed = df.withColumn(worker, python_worker(key_hash(df, columns), routing, weight, order))
    return routed if routing.watch is None else routing.watch.on(routed, columns, worker, routing), worker


def _plan_of(df: DataFrame, columns: list[KeyColumn], routing: Routing) -> Plan:
    """Return the plan that was passed, or count the rows for one."""
    if routing.plan is None:
        return count_rows(df, columns, routing.workers, threshold=routing.threshold, weight=routing.weight).plan()
    if routing.plan.head and df.isStreaming:
        raise InputError(
            "this plan cuts hot keys by the position of a row, which rows of a stream do not have: spread the batch "
            "inside foreachBatch, or leave out plan= and scheme="
        )
    return routing.plan
