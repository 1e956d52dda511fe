"""Online schemes record by record: one call of a Python function per row, and the row goes on at once.

The function is pickled and not an Arrow one, because Arrow batches leave Python only when the next one has arrived.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.sender.registry import Kind, resolve
from keyspread.sender.sender import Sender
from keyspread.spark._engine.capabilities import shipped
from keyspread.spark._routing.exchange import move
from keyspread.spark._routing.keys import Key, KeyColumn, column, free_name, key_columns, key_hash, type_of
from keyspread.spark._routing.options import Routing, weight_column
from keyspread.spark._routing.planned_sql import with_planned_worker
from keyspread.spark.realtime.settings import check_realtime

_WHY_NOT = {
    Kind.PLANNED: "counts a whole batch before it routes the first row: give it a plan= made from earlier rows",
    Kind.LOOK_AHEAD: "reads all rows of a batch before it routes the first one",
    Kind.PEER: "is only simulated, for comparison",
}


def row_by_row_worker(key_hash: Column, routing: Routing, weight: Column | None) -> Column:
    """Return the worker of each row, as the Sender of its partition routes it, one row at a time.

    `source` is the number of the partition. Every task has a new Sender, so every batch of real-time mode has new ones.
    """
    columns = [key_hash] if weight is None else [key_hash, weight]
    function = F.udf(_function_of_a_task(routing.scheme, routing.workers, routing.of_sender()), "int", useArrow=False)
    # Without this the optimizer may evaluate it twice, and the second time its state is different.
    worker: Column = function.asNondeterministic()(*columns)
    return worker


def check_scheme(scheme: str) -> None:
    """Refuse a scheme that needs more than one row at a time."""
    descriptor = resolve(scheme)
    if not descriptor.is_online:
        raise InputError(
            f"{descriptor.name} does not work with realtime=True, because it {_WHY_NOT[descriptor.kind]}; "
            "use an online scheme such as per-key, or micro-batches without realtime=True"
        )


def _function_of_a_task(scheme: str, workers: int, options: dict[str, Any]) -> Callable[..., int]:
    """Return a function that makes a Sender in every task, with the number of its partition, and routes by it."""
    make = shipped(lambda source: Sender(scheme, workers, source=source, **options))
    running: dict[int, Any] = {}

    def call(*row: int) -> int:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        attempt = task.taskAttemptId()
        if attempt not in running:
            running.clear()
            running[attempt] = make(task.partitionId())
        return int(running[attempt].route(*(np.array([value], np.int64) for value in row))[0])

    return call


# The route of a record in real-time mode, and its exchange: nothing on the way waits for another record.


DEFAULT_SCHEME = "per-key"
_OF_KAFKA = ("topic", "partition", "offset")


def spread_records(df: DataFrame, key: Key, routing: Routing, record: str | Sequence[str] | None) -> DataFrame:
    """Return the stream in as many partitions as workers, as `spread`, routed record by record.

    With a plan, records are routed by SQL: tail keys by their bucket, hot keys by a hash of the columns `record`,
    which tell records apart (by default Kafka's topic, partition and offset).
    """
    routed, worker = with_record_worker(df, key_columns(df, key), routing, record)
    return move(routed, routing.workers, worker).drop(worker)


def with_record_worker(
    df: DataFrame, columns: list[KeyColumn], routing: Routing, record: str | Sequence[str] | None
) -> tuple[DataFrame, str]:
    """Return the records with their worker in a column at the end, and the name of that column."""
    plan = routing.plan
    if routing.watch is not None:
        raise InputError("watch= counts rows batch by batch and does not work with realtime=True: leave it out")
    if plan is None:
        if record is not None:
            raise InputError(f"record={record!r} cuts the hot keys of a plan, and has no effect without plan=")
        check_scheme(routing.scheme)
    check_realtime(df, python=plan is None)
    worker = free_name(df, "worker")
    if plan is not None:
        # A plan without hot keys does not look at records.
        identity = F.xxhash64(*(column(df, name) for name in _record_columns(df, record))) if plan.head else ""
        return with_planned_worker(df, key_hash(df, columns), plan, worker, position=identity), worker
    weight = None if routing.weight is None else weight_column(df, routing.weight)
    return df.withColumn(worker, row_by_row_worker(key_hash(df, columns), routing, weight)), worker


def _record_columns(df: DataFrame, record: str | Sequence[str] | None) -> list[str]:
    if record is None:
        missing = [name for name in _OF_KAFKA if name not in df.columns]
        if missing:
            raise InputError(
                f"the plan cuts hot keys by record, and there is no column {missing[0]!r}: keep Kafka's topic, "
                "partition and offset, or name the columns that tell records apart with record="
            )
        return [*_OF_KAFKA]
    names = [record] if isinstance(record, str) else list(record)
    if not names:
        raise InputError("record must name the columns that tell records apart, got none")
    for name in names:
        type_of(df, name)
    return names
