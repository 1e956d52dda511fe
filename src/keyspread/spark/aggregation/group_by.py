"""SQL aggregates as Spark's own `groupBy(key).agg(…)`: nothing of ours runs, so anything that Spark knows works."""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.spark.aggregation.calls import calls_of
from keyspread.spark.capabilities import quiet_analysis
from keyspread.spark.failures import why
from keyspread.spark.routing.keys import Key, column, field_of, key_parts, type_of
from keyspread.spark.streaming.windows import WATERMARK, Windows

_MODES = ("append", "update", "complete")


def group_by(df: DataFrame, key: Key, aggregates: Any, windows: Windows | None, mode: str | None) -> DataFrame:
    """Return `df.groupBy(window, key).agg(…)`; if Spark refuses it, say in one line which part is wrong."""
    keys = [*([] if windows is None else [windows.column(df)]), *_grouping_columns(df, key)]
    calls = calls_of(aggregates)
    try:
        with quiet_analysis():
            found = df.groupBy(*keys).agg(*(call.column() for call in calls))
            fields = found.schema.fields  # under Connect only this asks Spark
    except AnalysisException as problem:
        for call in calls:
            try:
                with quiet_analysis():
                    df.groupBy(*keys).agg(call.column()).schema  # noqa: B018
            except AnalysisException as own:
                raise InputError(f"aggregate {call} is refused by Spark: {why(str(own))}") from None
        raise InputError(f"groupBy({key!r}) is refused by Spark: {why(str(problem))}") from None
    if df.isStreaming:
        _check_mode(mode, any(WATERMARK in field.metadata for field in fields[: len(keys)]))
    return found


def _grouping_columns(df: DataFrame, key: Key) -> list[Column]:
    for part in key_parts(key):
        if isinstance(part, str):
            type_of(df, part)
        else:
            field_of("key", part, lambda one: df.groupBy(one).agg(F.count("*")))
    return [column(df, part) for part in key_parts(key)]


def _check_mode(mode: str | None, ends: bool) -> None:
    """Refuse a mode in which Spark would refuse to start the query; `ends` if groups are final at some watermark."""
    if mode is None:
        return
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise InputError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if mode.lower() == "append" and not ends:
        raise InputError("mode 'append' needs window=, because a running total is never final; use 'update'")
