"""`RealtimeParts`: aggregates of a stream in real-time mode, as running parts per worker that are merged by key.

Spark keeps the state. It moves every row to the partition that the hash of its grouping columns says, so each row gets
a tag for which this is the partition of its worker, and is grouped by tag and key.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.realtime.spread_records import with_record_worker
from keyspread.spark.routing.keys import Key, KeyColumn, column, key_columns, quoted, type_of

TAG = "keyspread_tag"
_TRIED_PER_WORKER = 16
"""Tags that are tried, per worker: no tag leads to a worker for one key in e^16, and its rows then go elsewhere."""
_PARTITIONS = "spark.sql.shuffle.partitions"


class RealtimeParts:
    """SQL aggregates by key of a stream in real-time mode, spread over workers; experimental.

    `rows` is the stream to write, in update mode: every record changes one part, and the new value of that part is
    emitted at once. A part has a tag and a key; later rows of the same tag and key replace earlier ones. `result`
    merges the latest parts of each key into the answer, with the columns of plain `groupBy(key).agg(…)`.

    `aggregates` are those of `aggregate`, and the other parameters those of `spread` with `realtime=True`. The number
    of workers must be `spark.sql.shuffle.partitions`, because Spark uses it for all state.

    >>> from keyspread.spark import RealtimeParts
    >>> counts = RealtimeParts(clicks, "user", {"n": "count(*)"}, workers=4)  # doctest: +SKIP
    >>> query = counts.rows.writeStream.outputMode("update").trigger(realTime="5 minutes").start()  # doctest: +SKIP
    """

    def __init__(
        self, df: DataFrame, key: Key, aggregates: Any, workers: int, scheme: str | None = None, **options: Any
    ) -> None:
        workers = checks.whole_number("workers", workers)
        columns = key_columns(df, key)
        self._parts = SqlParts(df, columns, aggregates)
        routed, worker = with_record_worker(df, key, workers, scheme, **options)
        _check_partitions(df.sparkSession, workers)
        self.rows = self._parts.grouped(_tagged(routed, columns, workers, worker), TAG)
        """The stream of parts: tag, key and parts."""

    @property
    def schema(self) -> StructType:
        """The schema of `rows`, to read them back from where they were written."""
        return StructType([StructField(TAG, self.rows.schema[TAG].dataType), *self._parts.schema])

    def result(self, written: DataFrame, latest: str) -> DataFrame:
        """Return the answer from a bounded DataFrame of the rows that were written, in any order and repeated or not.

        `latest` is a column that is larger for later rows of the same part, such as Kafka's offset if the messages of a
        part are in one partition (use the tag and the key as the key of the message).
        """
        if written.isStreaming:
            raise InputError("result needs a bounded DataFrame of the rows that were written, got a stream")
        for name in (*self.schema.names, latest):
            type_of(written, name)
        names = [*self.schema.names]
        group = [name for name in names if name == TAG or name in self._parts.key_names]
        whole = F.struct(*(quoted(name) for name in names))
        newest = written.groupBy(*group).agg(F.max_by(whole, F.col(quoted(latest))).alias("newest"))
        return self._parts.result(newest.select("newest.*"))


def _tagged(routed: DataFrame, columns: list[KeyColumn], workers: int, worker: str) -> DataFrame:
    """Replace the worker by a tag: the smallest number with which Spark hashes (tag, key) to the worker."""
    keys = [column(routed, part) for part in columns]
    tried = F.sequence(F.lit(0), F.lit(_TRIED_PER_WORKER * workers - 1))
    fitting = F.filter(tried, lambda tag: F.pmod(F.hash(tag, *keys), F.lit(workers)) == F.col(quoted(worker)))
    return routed.withColumn(TAG, F.coalesce(F.get(fitting, F.lit(0)), F.lit(0))).drop(worker)


def _check_partitions(spark: SparkSession, workers: int) -> None:
    found = spark.conf.get(_PARTITIONS)
    if found != str(workers):
        raise InputError(
            f"RealtimeParts over {workers} workers needs this setting of the session: {_PARTITIONS}={workers} "
            f"(is {found})"
        )
