"""Event-time windows of an aggregate, tumbling or sliding, as Spark's `window` makes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, TimestampNTZType, TimestampType

from keyspread.errors import InputError
from keyspread.spark.routing.keys import column, key_columns

WATERMARK = "spark.watermarkDelayMs"  # by this key in its metadata Spark knows a column of event time


@dataclass(frozen=True)
class Windows:
    """How long, how often, of which column; the result has them in a column `window`, as Spark's own has."""

    window: str
    slide: str | None
    time: str
    kind: DataType
    name: str = "window"

    @classmethod
    def of(cls, df: DataFrame, window: str | None, slide: str | None, time: str | None) -> "Windows | None":
        """Check what the user gave; without a window there is none."""
        if window is None:
            for option, value in (("slide", slide), ("time", time)):
                if value is not None:
                    raise InputError(f"{option}={value!r} has nothing to do without window=, such as '10 minutes'")
            return None
        if time is None:
            time = _watermarked(df)
        (time,) = key_columns(df, time)
        kind = df.select(column(df, time)).schema[0].dataType
        found = cls(window, slide, time, kind)
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise InputError(f"time must be a column of timestamps, {time!r} is {kind.simpleString()}; cast it")
        if "window" in (name.lower() for name in df.columns):
            raise InputError("there is a column 'window', which is the name of the result's windows; rename it")
        if df.isStreaming and WATERMARK not in df.select(column(df, time)).schema[0].metadata:
            raise InputError(
                f"windows of a stream need a watermark on {time!r}, or their state would grow for ever: "
                f"call .withWatermark({time!r}, '10 minutes') before"
            )
        try:
            df.select(found._column(df))
        except PySparkException as problem:
            told = str(problem).splitlines()[0].partition("] ")[2] or str(problem)
            raise InputError(f"window={window!r}, slide={slide!r} cannot be: {told.split(' SQLSTATE')[0]}") from None
        return found

    @property
    def bounds(self) -> list[StructField]:
        """Start and end as columns of our own: Python takes those better than a struct."""
        return [StructField("keyspread_start", self.kind), StructField("keyspread_end", self.kind)]

    def start_and_end(self) -> list[Column]:
        """Give `bounds` of rows that are `on` their windows."""
        return [F.col(f"{self.name}.{at}").alias(f"keyspread_{at}") for at in ("start", "end")]

    def on(self, df: DataFrame) -> DataFrame:
        """Give the rows with their window in the last column: a row for each window it is in, none without a time."""
        return df.select("*", self._column(df).alias(self.name))

    def _column(self, df: DataFrame) -> Column:
        given: list[Any] = [self.window] if self.slide is None else [self.window, self.slide]
        return F.window(column(df, self.time), *given)


def window_of(bounds: Sequence[str]) -> list[Column]:
    """Put the columns of the bounds together again; without bounds there is no window."""
    if not bounds:
        return []
    start, end = bounds
    return [F.struct(F.col(start).alias("start"), F.col(end).alias("end")).alias("window")]


def _watermarked(df: DataFrame) -> str:
    found = [field.name for field in df.schema.fields if WATERMARK in field.metadata]
    if len(found) == 1:
        return found[0]
    if df.isStreaming and not found:
        raise InputError("windows of a stream need a watermark: call .withWatermark(column, '10 minutes') before")
    raise InputError("say which column has the event time, time='…'")
