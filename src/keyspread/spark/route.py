"""`spread`: rows in, rows out, each in the partition of its worker."""

from typing import Any

from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.errors import InputError
from keyspread.plan import Plan
from keyspread.schemes import PLANNED
from keyspread.spark.keys import Key, free_name, key_columns, key_hash
from keyspread.spark.online import online_worker
from keyspread.spark.planned import plan as plan_rows
from keyspread.spark.planned import with_planned_worker
from keyspread.spark.watch import Watch


def spread(df: DataFrame, key: Key, workers: int, scheme: str | None = None, **options: Any) -> DataFrame:
    """Give the same rows and columns in `workers` partitions: partition w holds exactly the rows of worker w.

    `key` is one column or several, of any type that Spark can hash; a null key is a key. `scheme` is one of
    `keyspread.SCHEMES`, with the options of `keyspread.Sender`, or "planned", with those of `keyspread.spark.plan` or
    `plan=` a Plan made before. By default a bounded DataFrame is planned and a stream gets d-choices. `watch=` a
    `Watch` counts what passes.

    Put the work per worker directly behind it (mapInArrow, mapInPandas, foreachPartition, groupBy of the key): a
    further exchange moves the rows again. Nothing is set on the session.

    >>> from keyspread.spark import balance, session, spread
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', string(id)) AS k", "id AS v")
    >>> loads = balance(spread(rows, "k", workers=4), workers=4).loads
    >>> int(loads.sum()), bool(abs(loads - 250).max() <= 5)
    (1000, True)
    """
    routed, worker = with_worker(df, key, workers, scheme, **options)
    return routed.repartitionById(workers, worker).drop(worker)


def with_worker(
    df: DataFrame, key: Key, workers: int, scheme: str | None = None, watch: Watch | None = None, **options: Any
) -> tuple[DataFrame, str]:
    """Give the rows with their worker in a column at the end, not yet moved, and the name of that column."""
    workers = checks.whole_number("workers", workers)
    if scheme is None:
        scheme = "d-choices" if df.isStreaming else PLANNED
    names = key_columns(df, key)
    worker = free_name(df, "worker")
    if isinstance(scheme, str) and scheme.lower() == PLANNED:
        routed = with_planned_worker(df, key, _plan(df, key, workers, **options), worker)
    else:
        routed = df.withColumn(worker, online_worker(key_hash(df, names), scheme, workers, **options))
    return routed if watch is None else watch.on(routed, names, workers, worker), worker


def _plan(df: DataFrame, key: Key, workers: int, *, plan: Plan | None = None, **options: Any) -> Plan:
    if plan is None:
        try:
            return plan_rows(df, key, workers, **options)
        except TypeError as problem:
            known = "plan, or previous, threshold, buckets, sample, seed"
            raise InputError(f"{problem}; 'planned' takes {known}") from None
    if options:
        raise InputError(f"plan= is given, so {sorted(options)[0]!r} has nothing to do; leave one of them out")
    if plan.workers != workers:
        raise InputError(f"the plan is for {plan.workers} workers, asked are {workers}; plan anew with previous=")
    return plan
