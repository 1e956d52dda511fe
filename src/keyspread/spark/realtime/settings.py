"""`realtime_settings`: what Spark must be set to, so that no record waits for another one."""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import has_realtime_exchange

_EXCHANGE = {
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",  # by default a row waits up to 50 ms for more rows
}
_PYTHON_AT_START = {
    "spark.python.udf.pipelined.enabled": "true",  # otherwise a function returns nothing until the batch ends
    "spark.python.unix.domain.socket.enabled": "true",  # a local TCP connection delays small messages by 40 ms
}
_PYTHON = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",  # Python functions are not on Spark's list
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "1",  # otherwise a row waits for a hundred others
    "spark.sql.execution.python.udf.buffer.size": "4",  # bytes; otherwise rows wait until the buffer is full
}


class RealtimeSettings(NamedTuple):
    """The settings that real-time mode needs.

    >>> sorted(realtime_settings(python=False).application)
    ['spark.shuffle.streaming.networkBufferMaxWaitTimeMs']
    """

    application: dict[str, str]
    """Settings that Spark reads when it starts."""
    session: dict[str, str]
    """Settings that a running session can still set."""


def realtime_settings(python: bool = True) -> RealtimeSettings:
    """Return the settings that `spread(…, realtime=True)` needs, those of the start of Spark and those of a session.

    Args:
        python: False leaves out those that only Python functions need: routing by a plan uses none.

    Returns:
        The settings of the application and those of the session, as dictionaries for `session(**settings)`.

    Raises:
        Nothing: `spread` checks the settings and never changes them.

    >>> settings = realtime_settings()
    >>> settings.session["spark.sql.streaming.realTimeMode.allowlistCheck"]
    'false'
    >>> realtime_settings(python=False)
    RealtimeSettings(application={'spark.shuffle.streaming.networkBufferMaxWaitTimeMs': '1'}, session={})
    """
    if not python:
        return RealtimeSettings({**_EXCHANGE}, {})
    return RealtimeSettings(_EXCHANGE | _PYTHON_AT_START, {**_PYTHON})


def check_realtime(df: DataFrame, python: bool, what: str = "spread") -> None:
    """Refuse rows that are not a stream, a Spark that cannot do it, and a session that lacks a setting."""
    if not df.isStreaming:
        raise InputError("realtime=True is for streams, got a bounded DataFrame: leave it out")
    spark = df.sparkSession
    if not has_realtime_exchange(spark):
        raise InputError(
            "realtime=True needs a Spark that exchanges rows in real-time mode, from 4.3 on, which this one cannot: "
            "leave it out, and the stream is spread in micro-batches"
        )
    needed = realtime_settings(python)
    at_start, later = (_missing(spark, wanted) for wanted in needed)
    if at_start or later:
        parts = [f"at the start of Spark: {', '.join(at_start)}"] if at_start else []
        parts += [f"in the session: {', '.join(later)}"] if later else []
        raise InputError(
            f"{what} with realtime=True needs these settings, {'; '.join(parts)} (see keyspread.spark.realtime)"
        )


def _missing(spark: SparkSession, needed: dict[str, str]) -> list[str]:
    current = {name: spark.conf.get(name, None) for name in needed}
    return [
        f"{name}={value} (is {'not set' if current[name] is None else current[name]})"
        for name, value in needed.items()
        if not _fits(current[name], value)
    ]


def _fits(value: str | None, needed: str) -> bool:
    if value is None:
        return False
    if needed.isdigit():  # a size or a time: smaller is fine
        return value.isdigit() and int(value) <= int(needed)
    return value.lower() == needed
