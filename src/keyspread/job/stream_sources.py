"""Streaming sources: a generated stream at a chosen rate, or a Kafka topic. Files are in sources.py."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from keyspread import checks
from keyspread.errors import InputError
from keyspread.job.sources import MALFORMED, Source, drawn, without_malformed
from keyspread.spark.kafka import MALFORMED as MALFORMED_VALUE
from keyspread.spark.kafka import kafka_source, parsed
from keyspread.spark.routing.keys import key_columns
from keyspread.streams import GeneratedStream

_SENDERS = 4


def endless_source(
    spark: SparkSession, stream: GeneratedStream, rows_per_batch: int, partitions: int | None = None
) -> Source:
    """Return a generated stream without end, with `rows_per_batch` rows per micro-batch; row i is message i.

    A query resumes from its checkpoint with the next message, even at another rate: no message is lost or repeated.
    """
    partitions = checks.whole_number("partitions", _SENDERS if partitions is None else partitions)
    counter = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", checks.whole_number("rows_per_batch", rows_per_batch))
        .option("numPartitions", partitions)
        .load()
    )
    facts = {name: value for name, value in stream.parameters().items() if name != "messages"}
    return Source(
        rows=drawn(counter.selectExpr("value AS id"), stream),
        key=("key",),
        title=stream.title,
        facts={"source": stream.kind, **facts, "seed": stream.seed, "partitions": partitions},
    )


def topic_source(
    spark: SparkSession,
    brokers: str,
    topic: str,
    key: Sequence[str] = (),
    *,
    schema: str | None = None,
    streaming: bool = True,
    max_rows: int | None = None,
) -> Source:
    """Read a Kafka topic as a stream, or once what it holds now. With `schema`, values are JSON objects.

    The key is that of the message unless `key` names columns; with a schema, its fields are columns. Values that do not
    match the schema are skipped and counted.
    """
    rows = kafka_source(spark, brokers, topic, streaming=streaming, max_rows=max_rows)
    if schema is not None:
        rows = parsed(rows, schema).withColumnRenamed(MALFORMED_VALUE, MALFORMED)
    facts: dict[str, Any] = {"source": "kafka", "brokers": brokers, "topic": topic, "schema": schema}
    title = f"topic {topic}"
    try:
        names = tuple(key_columns(rows.drop(MALFORMED), tuple(key) or ("key",)))
    except InputError as problem:
        remedy = "" if schema is not None else "; with --schema, the fields of JSON values are columns"
        raise InputError(f"{title}: {problem}{remedy}") from None
    if schema is not None:
        return without_malformed(rows, names, title, facts)
    return Source(rows, names, title, facts, keep=True)
