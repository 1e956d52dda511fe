"""`aggregate` of a stream by an operator: running totals, or windows.

    rows → worker → partial states of the batch → blobs → state partition of the key's owner → rows of the result
         with_worker           packer                           StateMerger                unpacker

The workers process the rows, evenly in every batch. The owner of a key keeps its state between batches.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from keyspread.errors import InputError
from keyspread.operators import AnyOperator
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.capabilities import has_python_state, transform_with_state
from keyspread.spark.routing.exchange import move
from keyspread.spark.routing.keys import KeyColumn, column, key_texts
from keyspread.spark.routing.options import Routing
from keyspread.spark.spread import with_worker
from keyspread.spark.streaming.state import StateRules, packer, processor, unpacker
from keyspread.spark.streaming.stream_settings import check_settings
from keyspread.spark.streaming.windows import WATERMARK, Windows

_MODES = {"append": "every window once, when it is over", "update": "changed rows, after every batch"}


def aggregate_stream(
    df: DataFrame,
    key: list[KeyColumn],
    operator: AnyOperator,
    routing: Routing,
    windows: Windows | None,
    mode: str | None,
) -> DataFrame:
    """Return running totals, or windows, of a stream; see `keyspread.spark.aggregate`."""
    if not has_python_state(df):
        raise InputError(
            "an Operator on a stream needs Spark's transformWithState for Python, which this Spark does not have (4.0 "
            "and newer do, over Connect 4.1 and newer): pass keyspread.spark.Totals to foreachBatch, which takes every "
            "Operator"
        )
    parts, workers = OperatorParts(df, key, operator, windows), routing.workers
    mode = _checked_mode(mode, windows)
    check_settings(df.sparkSession, workers)
    # The scheme may change from run to run: it only decides where partial states are computed. Types are those of
    # Spark, without what may be null: the Arrow types of a state depend on the session.
    keys = df.select(*(column(df, part) for part in key)).schema
    identity = {
        "key": key_texts(key),
        "key types": [field.dataType.simpleString() for field in keys],
        "rows": df.schema.simpleString(),
        "aggregates": parts.identity,
        "window": None if windows is None else [windows.window, windows.slide, windows.time],
        "workers": workers,
        "mode": mode,
    }
    routed, worker = with_worker(df, key, routing)
    moved = move(routed, workers, worker).drop(worker)
    if windows is not None:  # only now, so that a row is moved once, however many windows it is in
        moved = windows.on(moved)
    rows = parts.rows(moved)
    bounds = None if windows is None else pa.timestamp("us", "UTC" if isinstance(windows.kind, TimestampType) else None)
    rules = StateRules(parts.states.fold, identity, workers, mode, bounds)
    blobs = rows.mapInArrow(packer(rules, parts.states.make), _blob_schema(moved, windows))
    state = transform_with_state(
        blobs.groupBy("tag"),
        processor(rules),
        "blob binary",
        mode.capitalize(),
        "None" if windows is None else "EventTime",
    )
    return parts.unpacked(state, unpacker(parts.states.finish))


def _blob_schema(rows: DataFrame, windows: Windows | None) -> StructType:
    tag, blob = StructField("tag", IntegerType()), StructField("blob", BinaryType())
    if windows is None:
        return StructType([tag, blob])
    field = rows.schema[windows.name]
    # By this metadata Spark knows the event time of a blob, and drops those of windows that are over: the late rows.
    window = StructField("window", field.dataType, True, {WATERMARK: field.metadata[WATERMARK]})
    return StructType([tag, StructField("start", LongType()), StructField("end", LongType()), blob, window])


def _checked_mode(mode: str | None, windows: Windows | None) -> str:
    if mode is None:
        return "update" if windows is None else "append"
    modes = "; ".join(f"{name} ({what})" for name, what in _MODES.items())
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise InputError(f"mode {mode!r} is not supported; use {modes}")
    if mode.lower() == "append" and windows is None:
        raise InputError("mode 'append' needs window=, because a running total is never final; use 'update'")
    return mode.lower()
