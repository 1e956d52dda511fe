"""`RealtimeParts`: aggregates of a stream in real-time mode, as running parts per worker that are merged by key.

Spark keeps the state. It moves every row to the partition that the hash of its grouping columns says, so each row gets
a tag for which this is the partition of its worker, and is grouped by tag and key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructType

from keyspread.errors import InputError
from keyspread.planned.plan import Plan
from keyspread.sender.settings import Settings
from keyspread.spark._engine.capabilities import quiet_analysis
from keyspread.spark._engine.failures import why
from keyspread.spark._routing.keys import Key, KeyColumn, column, key_columns, quoted, type_of
from keyspread.spark._routing.options import Routing, Weight
from keyspread.spark.realtime.records import DEFAULT_SCHEME, with_record_worker

TAG = "keyspread_tag"
_TRIED_PER_WORKER = 16
"""Tags that are tried, per worker: no tag leads to a worker for one key in e^16, and its rows then go elsewhere."""
_PARTITIONS = "spark.sql.shuffle.partitions"

_PARTS = {
    "count": ("count({0})",),
    "sum": ("sum({0})",),
    "min": ("min({0})",),
    "max": ("max({0})",),
    "avg": ("sum(cast({0} AS double))", "count({0})"),
}
"""The parts of each aggregate that can be merged, as SQL of its argument."""

_MERGED = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""The function that merges the parts; an average is the sum of its sums by the sum of its counts."""


class RealtimeParts:
    """SQL aggregates by key of a stream in real-time mode, spread over workers; experimental.

    `rows` is the stream to write, in update mode: every record changes one part, and the new value of that part is
    emitted at once. A part has a tag and a key; later rows of the same tag and key replace earlier ones. `result`
    merges the latest parts of each key into the answer, with the columns of plain `groupBy(key).agg(…)`.

    `aggregates` maps the columns of the result to `count(*)`, or to count, sum, min, max or avg of an expression. The
    other parameters are those of `spread` with `realtime=True`. The number of workers must be
    `spark.sql.shuffle.partitions`, because Spark uses it for all state.

    >>> from keyspread.spark.realtime import RealtimeParts
    >>> counts = RealtimeParts(clicks, "user", {"n": "count(*)"}, workers=4)  # doctest: +SKIP
    >>> query = counts.rows.writeStream.outputMode("update").trigger(realTime="5 minutes").start()  # doctest: +SKIP
    """

    def __init__(
        self,
        df: DataFrame,
        key: Key,
        aggregates: Mapping[str, str],
        workers: int,
        scheme: str | None = None,
        *,
        plan: Plan | None = None,
        weight: Weight | None = None,
        threshold: float | None = None,
        tolerance: float | None = None,
        sender: Settings | None = None,
        record: str | Sequence[str] | None = None,
    ) -> None:
        routing = Routing.of(
            workers,
            scheme,
            DEFAULT_SCHEME,
            plan=plan,
            weight=weight,
            threshold=threshold,
            tolerance=tolerance,
            sender=sender,
        )
        columns = key_columns(df, key)
        keys = [column(df, part) for part in columns]
        self._keys = df.groupBy(*keys).agg(F.count("*")).schema.fields[: len(keys)]  # only analysed, never run
        self._key_names = [f"keyspread_key_{place}" for place in range(len(keys))]
        self._aggregates = _aggregates_of(df, aggregates)
        routed, worker = with_record_worker(df, columns, routing, record)
        _check_partitions(df.sparkSession, routing.workers)
        tagged = _tagged(routed, columns, routing.workers, worker)
        named = [one.alias(name) for one, name in zip(keys, self._key_names, strict=True)]
        self.rows = tagged.groupBy(TAG, *named).agg(*(part for one in self._aggregates for part in one.parts))
        """The stream of parts: tag, key and parts."""

    @property
    def schema(self) -> StructType:
        """The schema of `rows`, to read them back from where they were written."""
        return self.rows.schema

    def result(self, written: DataFrame, latest: str) -> DataFrame:
        """Return the answer from a bounded DataFrame of the rows that were written, in any order and repeated or not.

        `latest` is a column that is larger for later rows of the same part, such as Kafka's offset if the messages of a
        part are in one partition (use the tag and the key as the key of the message).
        """
        if written.isStreaming:
            raise InputError("result needs a bounded DataFrame of the rows that were written, got a stream")
        names = self.schema.names
        for name in (*names, latest):
            type_of(written, name)
        whole = F.struct(*map(quoted, names))
        newest = written.groupBy(TAG, *self._key_names).agg(F.max_by(whole, F.col(quoted(latest))).alias("newest"))
        merged = newest.select("newest.*").groupBy(*self._key_names).agg(*(one.merged for one in self._aggregates))
        titles = [field.name for field in self._keys]
        return merged.toDF(*titles, *(one.name for one in self._aggregates))


@dataclass(frozen=True)
class _Aggregate:
    """One aggregate: its column in the result, its function and argument, and the type of its result."""

    place: int
    name: str
    function: str
    argument: str
    type: DataType

    @property
    def parts(self) -> list[Column]:
        """The columns of a part."""
        calls = [part.format(self.argument) for part in _PARTS[self.function]]
        return [F.expr(call).alias(self._named(number)) for number, call in enumerate(calls)]

    @property
    def merged(self) -> Column:
        """The result of the parts of a key; the type of a sum may be wider than that of Spark's own."""
        if self.function == "avg":
            return F.sum(self._named(0)) / F.nullif(F.sum(self._named(1)), F.lit(0))
        return F.expr(f"{_MERGED[self.function]}({self._named(0)})").cast(self.type)

    def _named(self, number: int) -> str:
        return f"keyspread_part_{self.place}_{number}"


def _aggregates_of(df: DataFrame, aggregates: Any) -> list[_Aggregate]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise InputError(
            f"aggregates must map names to calls, as in {{'total': 'sum(amount)'}}, got {aggregates!r:.100}"
        )
    return [_aggregate_of(df, place, *item) for place, item in enumerate(aggregates.items())]


def _aggregate_of(df: DataFrame, place: int, name: str, call: Any) -> _Aggregate:
    """Read `function(argument)`; Spark reads the argument, so it is one expression."""
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", call, re.DOTALL) if isinstance(call, str) else None
    function = match[1].lower() if match is not None else ""
    if match is None or function not in _PARTS or re.match(r"\s*(distinct|all)\b", match[2], re.IGNORECASE):
        raise InputError(
            f"aggregate {name!r} must be one call of {', '.join(_PARTS)}, such as 'sum(amount)', got {call!r}: others "
            "cannot be merged from parts"
        )
    counts_rows = function == "count" and match[2].strip() == "*"
    argument = "1" if counts_rows else match[2].strip()
    try:
        with quiet_analysis():
            value = df.select(F.expr(argument)).schema[0].dataType
            kind = df.groupBy().agg(F.expr(f"{function}({argument})")).schema[0].dataType
            aggregate = _Aggregate(place, name, function, argument, kind)
            df.groupBy().agg(*aggregate.parts).schema  # noqa: B018
    except PySparkException as problem:
        raise InputError(f"aggregate {name!r} is refused by Spark: {why(str(problem))}") from None
    if function == "avg" and isinstance(value, DecimalType):
        raise InputError(
            f"aggregate {name!r}: an average of {value.simpleString()} is not exact if merged: take its "
            "sum and count, or cast it to double"
        )
    return aggregate


def _tagged(routed: DataFrame, columns: list[KeyColumn], workers: int, worker: str) -> DataFrame:
    """Replace the worker by a tag: the smallest number with which Spark hashes (tag, key) to the worker."""
    keys = [column(routed, part) for part in columns]
    tried = F.sequence(F.lit(0), F.lit(_TRIED_PER_WORKER * workers - 1))
    fitting = F.filter(tried, lambda tag: F.pmod(F.hash(tag, *keys), F.lit(workers)) == F.col(quoted(worker)))
    return routed.withColumn(TAG, F.coalesce(F.get(fitting, F.lit(0)), F.lit(0))).drop(worker)


def _check_partitions(spark: SparkSession, workers: int) -> None:
    partitions = spark.conf.get(_PARTITIONS)
    if partitions != str(workers):
        raise InputError(
            f"RealtimeParts over {workers} workers needs this setting of the session: {_PARTITIONS}={workers} "
            f"(is {partitions})"
        )
