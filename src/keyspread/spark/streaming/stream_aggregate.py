"""`aggregate` of a stream: the way of a row to a running total, or to a window that is over.

    rows → worker → partial states of the batch → blobs → state partition of the key's owner → rows of the result
         with_worker           packer                           KeptState                  unpacker

Workers do the work on the rows, evenly in every batch. What outlives the batch is kept by the owner of the key.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.schemes import LOOK_AHEAD, resolve
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.spread import with_worker
from keyspread.spark.streaming.remembered import Remembered
from keyspread.spark.streaming.state import Kept, packer, processor, unpacker
from keyspread.spark.streaming.windows import WATERMARK, Windows

_MODES = {"append": "every window once, when it is over", "update": "what has changed, after every batch"}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PARTITIONS = "spark.sql.shuffle.partitions"


def stream_settings(workers: int) -> dict[str, str]:
    """Give the settings that a session needs for a streaming `aggregate` over so many workers.

    >>> stream_settings(8)["spark.sql.shuffle.partitions"]
    '8'
    """
    return {_PARTITIONS: str(checks.whole_number("workers", workers)), _PROVIDER: _ROCKSDB}


def aggregate_stream(
    df: DataFrame,
    names: Sequence[str],
    parts: SqlParts | OperatorParts,
    workers: int,
    scheme: str | None,
    windows: Windows | None,
    mode: str | None,
    *,
    checkpoint: str | None = None,
    **options: Any,
) -> DataFrame:
    """Give running totals, or windows, of a stream; see `keyspread.spark.aggregate`."""
    workers = checks.whole_number("workers", workers)
    mode = _checked_mode(mode, windows)
    _check_settings(df.sparkSession, workers)
    own = {
        "kind": "aggregate",
        "key": list(names),
        "aggregates": parts.identity,
        "window": None if windows is None else [windows.window, windows.slide, windows.time],
        "scheme": resolve(LOOK_AHEAD if scheme is None else scheme).name,
        "workers": workers,
    }
    if checkpoint is not None:
        options["checkpoint"] = checkpoint
        Remembered.check(checkpoint, own)
    routed, worker = with_worker(df, names, workers, scheme, **options)
    moved = routed.repartitionById(workers, worker).drop(worker)
    if windows is None:
        rows = parts.rows(moved)
    else:  # only now: a row travels once, however many windows it is in
        moved = windows.on(moved)
        rows = parts.rows(moved, windows.start_and_end())
    kept = Kept(parts.fold, own, workers, windows is not None, mode)
    blobs = rows.mapInArrow(packer(kept, parts.make), _blob_schema(moved, windows))
    state = blobs.groupBy("tag").transformWithState(
        processor(kept), "blob binary", mode.capitalize(), "None" if windows is None else "EventTime"
    )
    return parts.unpacked(state, unpacker(parts.finish))


def _blob_schema(rows: DataFrame, windows: Windows | None) -> StructType:
    tag, blob = StructField("tag", IntegerType()), StructField("blob", BinaryType())
    if windows is None:
        return StructType([tag, blob])
    made = rows.schema[windows.name]
    # By this mark Spark knows which windows blobs belong to, and leaves out those that are over: the late rows.
    window = StructField("window", made.dataType, True, {WATERMARK: made.metadata[WATERMARK]})
    return StructType([tag, StructField("start", LongType()), StructField("end", LongType()), blob, window])


def _checked_mode(mode: str | None, windows: Windows | None) -> str:
    if mode is None:
        return "update" if windows is None else "append"
    known = "; ".join(f"{name} ({what})" for name, what in _MODES.items())
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise InputError(f"mode {mode!r} cannot be kept up as a stream goes on; these can: {known}")
    if mode.lower() == "append" and windows is None:
        raise InputError("mode 'append' needs window=: a running total is never final; take 'update'")
    return mode.lower()


def _check_settings(spark: SparkSession, workers: int) -> None:
    """Refuse a session that lacks what the state needs; nothing is set behind the user's back."""
    wrong = {
        name: (spark.conf.get(name), needed)
        for name, needed in stream_settings(workers).items()
        if spark.conf.get(name) != needed
    }
    if wrong:
        told = ", ".join(f"{name}={needed} (is {found})" for name, (found, needed) in wrong.items())
        raise InputError(f"aggregate of a stream over {workers} workers needs these settings of the session: {told}")
