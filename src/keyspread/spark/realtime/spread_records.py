"""The route of a record in real-time mode, and its exchange: nothing on the way waits for another record."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.spark.realtime.row_by_row import check_scheme, row_by_row_worker
from keyspread.spark.realtime.settings import check_realtime
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import Key, KeyColumn, column, free_name, key_columns, key_hash, type_of
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.planned_sql import with_planned_worker
from keyspread.spark.routing.weights import weight_column

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
