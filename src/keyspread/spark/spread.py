"""`spread`: rows in, rows out, each in the partition of its worker."""

import inspect
from typing import Any

from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.errors import InputError
from keyspread.planned.plan import Plan
from keyspread.schemes import PLANNED, Kind, resolve
from keyspread.spark.plan import plan as plan_rows
from keyspread.spark.routing.keys import Key, free_name, key_columns, key_hash
from keyspread.spark.routing.look_ahead import look_ahead_worker
from keyspread.spark.routing.planned_sql import owner, with_planned_worker
from keyspread.spark.routing.senders import online_worker
from keyspread.spark.routing.weights import weight_column
from keyspread.spark.streaming.listener import StreamWatch
from keyspread.spark.streaming.remembered import Remembered
from keyspread.spark.watch import Watch

_PLAN_OPTIONS = [name for name, p in inspect.signature(plan_rows).parameters.items() if p.kind is p.KEYWORD_ONLY]


def spread(df: DataFrame, key: Key, workers: int, scheme: str | None = None, **options: Any) -> DataFrame:
    """Give the same rows and columns in `workers` partitions: partition w holds exactly the rows of worker w.

    `key` is one column or several, of any type that Spark can hash; a null key is a key. `scheme` is one of
    `keyspread.SCHEMES`, with the options of `keyspread.Sender`, or "planned", with those of `keyspread.spark.plan` or
    `plan=` a Plan made before, or "look-ahead", where each partition plans its own part of a batch. By default a
    bounded DataFrame is planned and a stream looks ahead.

    `weight=` a column of whole numbers (bytes or cost of a row) makes the load of a worker their sum; `capacities=` one
    number a worker gives each its share by them. `watch=` a `Watch`, of a stream a `StreamWatch`, counts what passes.

    In a stream every micro-batch is balanced. `checkpoint=` the folder that the query has as its checkpointLocation
    lets partitions remember: they leave small files under it from which the next batch plans, so that keys stay on
    their workers. A batch that is run again, on whatever executor, or after a restart, is dealt alike.

    Put the work per worker directly behind it (mapInArrow, mapInPandas, foreachPartition, groupBy of the key): a
    further exchange moves the rows again. Nothing is set on the session.

    >>> from keyspread.spark import balance, session, spread
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', string(id)) AS k", "id AS v")
    >>> loads = balance(spread(rows, "k", workers=4), workers=4).loads
    >>> int(loads.sum()), bool(abs(loads - 250).max() <= 5)
    (1000, True)
    """
    if _is_planned(df, scheme) and "watch" not in options:
        made = _plan(df, key, checks.whole_number("workers", workers), **options)
        if not made.head:  # then the worker is an expression of the key, and need not travel as a column
            return df.repartitionById(workers, owner(key_hash(df, key_columns(df, key)), made))
        scheme, options = PLANNED, {"plan": made}
    routed, worker = with_worker(df, key, workers, scheme, **options)
    if options.get("checkpoint") is not None:  # workers and scheme may change
        Remembered.check(options["checkpoint"], {"kind": "spread", "key": key_columns(df, key)})
    return routed.repartitionById(workers, worker).drop(worker)


def with_worker(
    df: DataFrame,
    key: Key,
    workers: int,
    scheme: str | None = None,
    watch: Watch | StreamWatch | None = None,
    **options: Any,
) -> tuple[DataFrame, str]:
    """Give the rows with their worker in a column at the end, not yet moved, and the name of that column."""
    workers = checks.whole_number("workers", workers)
    names = key_columns(df, key)
    worker = free_name(df, "worker")
    if _is_planned(df, scheme):
        routed = with_planned_worker(df, key, _plan(df, key, workers, **options), worker)
    else:
        told = _checked(df, options)
        if told.get("weight") is not None:
            told["weight"] = weight_column(df, told["weight"])
        if scheme is None or resolve(scheme).kind is Kind.LOOK_AHEAD:
            routed = df.withColumn(worker, look_ahead_worker(key_hash(df, names), workers, **told))
        else:
            routed = df.withColumn(worker, online_worker(key_hash(df, names), scheme, workers, **told))
    return routed if watch is None else watch.on(routed, names, workers, worker, options), worker


def _checked(df: DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    checkpoint = options.get("checkpoint")
    if checkpoint is not None and not df.isStreaming:
        raise InputError("checkpoint= is for streams, got a bounded DataFrame, which remembers nothing; leave it out")
    if checkpoint is not None and not (isinstance(checkpoint, str) and checkpoint.strip()):
        raise InputError(f"checkpoint must be the folder of the query's checkpoint, got {checkpoint!r}")
    return dict(options)


def _is_planned(df: DataFrame, scheme: str | None) -> bool:
    return not df.isStreaming if scheme is None else resolve(scheme).kind is Kind.PLANNED


def _plan(df: DataFrame, key: Key, workers: int, *, plan: Plan | None = None, **options: Any) -> Plan:
    used = resolve(PLANNED).accept(options, also=_PLAN_OPTIONS)
    if plan is None:
        return plan_rows(df, key, workers, **used)
    if used:
        raise InputError(f"plan= is given, so {min(used)!r} has nothing to do; leave one of them out")
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be a keyspread.Plan, got {plan!r}; Plan.from_json reads one that was stored")
    if plan.workers != workers:
        raise InputError(f"the plan is for {plan.workers} workers, asked are {workers}; plan anew with previous=")
    return plan
