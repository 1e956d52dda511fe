"""Write rows as Kafka messages."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType
from pyspark.sql.utils import is_remote

from keyspread.errors import InputError
from keyspread.spark.capabilities import is_variant
from keyspread.spark.kafka.checks import check_brokers, check_topic, checked_names, checked_options, checked_topics
from keyspread.spark.routing.keys import quoted


def kafka_sink(
    df: DataFrame,
    brokers: str,
    topic: str,
    checkpoint: str,
    *,
    key: str = "key",
    value: str = "value",
    mode: str = "append",
    options: Mapping[str, Any] | None = None,
) -> DataStreamWriter:
    """Return a writer, ready to `start()`, that sends every row as a message at least once.

    If a batch fails and is retried, its messages are sent again, because Spark's Kafka sink has no transactions:
    readers that need each message once must deduplicate by its content. Strings and bytes are sent as they are,
    structs, arrays and maps as JSON, other types as text. Without a column `value`, the message is a JSON object of all
    columns except the key; without a column `key`, it has no key. `options` are those of Spark's Kafka sink and, with
    the prefix `kafka.`, those of Kafka's producer.

    Args:
        df: A stream of rows.
        brokers: The addresses of the brokers, host:port, separated by commas.
        topic: The topic that gets the messages.
        checkpoint: The folder for the checkpoint of the query.
        key: The column that is sent as the key.
        value: The column that is sent as the value.
        mode: The output mode.
        options: Those of Spark's Kafka sink.

    Returns:
        A writer of the stream: call `start()`.

    Raises:
        InputError: No broker answers, or the topic does not exist.

    >>> from keyspread.spark.kafka import kafka_sink
    >>> query = kafka_sink(rows, "broker:9092", "results", "s3a://bucket/7").start()  # doctest: +SKIP
    """
    if not df.isStreaming:
        raise InputError(
            "kafka_sink needs a streaming DataFrame, got a bounded one: use as_messages(df).write.format('kafka')"
        )
    if not isinstance(checkpoint, str) or not checkpoint:
        raise InputError(f"checkpoint must be the folder for the query's checkpoint, got {checkpoint!r}")
    (topic,) = checked_topics([topic] if isinstance(topic, str) else topic, most=1)
    settings = {"kafka.bootstrap.servers": brokers, "topic": topic, **checked_options(options)}
    if not is_remote():
        check_brokers(brokers)
        check_topic(df.sparkSession, brokers, topic, options=options)
    messages = as_messages(df, key=key, value=value)
    return (
        messages.writeStream.format("kafka")
        .outputMode(mode)
        .options(**settings)
        .option("checkpointLocation", checkpoint)
    )


def as_messages(df: DataFrame, *, key: str = "key", value: str = "value") -> DataFrame:
    """Return the rows as `kafka_sink` sends them: columns `key` and `value`, strings or bytes."""
    checked_names(key, value)
    fields = {field.name: field.dataType for field in df.schema.fields}
    sent_key = _sent(key, fields[key]) if key in fields else F.lit(None).cast("string")
    if value in fields:
        sent_value = _sent(value, fields[value])
    else:
        others = [F.col(quoted(name)) for name in df.columns if name != key]
        if not others:
            raise InputError(f"there is nothing to send except {key!r}: add a column {value!r}")
        sent_value = F.to_json(F.struct(*others))
    return df.select(sent_key.alias("key"), sent_value.alias("value"))


def _sent(name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    if isinstance(kind, (StringType, BinaryType)):
        return column
    as_json = isinstance(kind, (StructType, ArrayType, MapType)) or is_variant(kind)
    return F.to_json(column) if as_json else column.cast("string")
