"""Event-time windows of an aggregate, tumbling or sliding, equal to those of Spark's `window`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, TimestampNTZType, TimestampType

from keyspread.errors import InputError
from keyspread.spark.capabilities import quiet_analysis
from keyspread.spark.failures import why
from keyspread.spark.routing.keys import column, type_of

WATERMARK = "spark.watermarkDelayMs"  # Spark marks a column of event time with this key in its metadata


@dataclass(frozen=True)
class Windows:
    """Length, slide and time column of the windows. The result has them in a column `window`, as in Spark."""

    window: str
    slide: str | None
    time: str
    kind: DataType
    name: str = "window"

    @classmethod
    def of(cls, df: DataFrame, window: str | None, slide: str | None, time: str | None) -> "Windows | None":
        """Check the arguments of `aggregate`; return None without `window`."""
        if window is None:
            for option, value in (("slide", slide), ("time", time)):
                if value is not None:
                    raise InputError(f"{option}={value!r} has no effect without window=, such as window='10 minutes'")
            return None
        if time is None:
            time = _watermarked(df)
        if not isinstance(time, str):
            raise InputError(f"time must be the name of a column, got {time!r}")
        kind = type_of(df, time)
        found = cls(window, slide, time, kind)
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise InputError(f"time must be a column of timestamps, {time!r} is {kind.simpleString()}; cast it")
        if "window" in (name.lower() for name in df.columns):
            raise InputError(
                "there is a column 'window', but the result needs this name for its windows; rename the column"
            )
        if df.isStreaming and WATERMARK not in df.select(column(df, time)).schema[0].metadata:
            raise InputError(
                f"windows of a stream need a watermark on {time!r}, otherwise their state would grow forever: "
                f"call .withWatermark({time!r}, '10 minutes') before"
            )
        try:
            with quiet_analysis():
                df.select(found.column(df)).schema  # noqa: B018  (under Connect only this asks Spark)
        except PySparkException as problem:
            raise InputError(f"window={window!r}, slide={slide!r} is not possible: {why(str(problem))}") from None
        return found

    @property
    def bounds(self) -> list[StructField]:
        """Start and end as two columns of our own, which are faster in Python than a struct."""
        return [StructField("keyspread_start", self.kind), StructField("keyspread_end", self.kind)]

    def start_and_end(self) -> list[Column]:
        """Return the columns `bounds` for rows that `on` returned."""
        return [F.col(f"{self.name}.{at}").alias(f"keyspread_{at}") for at in ("start", "end")]

    def on(self, df: DataFrame) -> DataFrame:
        """Return the rows with their window in the last column: one row per window, none if the time is null."""
        return df.select("*", self.column(df).alias(self.name))

    def column(self, df: DataFrame) -> Column:
        """Return Spark's own window of each row."""
        given: list[Any] = [self.window] if self.slide is None else [self.window, self.slide]
        return F.window(column(df, self.time), *given)


def window_of(bounds: Sequence[str]) -> list[Column]:
    """Return the column `window` made from its bounds, in a list; an empty list without bounds."""
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
    raise InputError("name the column of the event time: time='…'")
