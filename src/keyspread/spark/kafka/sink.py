"""Rows out as Kafka's messages."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType
from pyspark.sql.utils import is_remote

from keyspread.errors import InputError
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
    """Give a writer, ready to `start()`, that sends every row as a message at least once.

    Once, as long as nothing fails; a batch that fails and comes again is sent again, for Kafka's sink in Spark has no
    transactions. Readers who mind tell copies apart by what is in the message. Strings and bytes are sent as they are,
    structs, arrays and maps as JSON, all else as text. Without a column `value`, the message is a JSON object of all
    columns but the key; without a column `key` it has no key. `options` are of Spark's Kafka sink, and with the prefix
    `kafka.` of Kafka's producer.
    """
    if not df.isStreaming:
        raise InputError(
            "kafka_sink takes a stream, got a bounded DataFrame: use as_messages(df).write.format('kafka')"
        )
    if not isinstance(checkpoint, str) or not checkpoint:
        raise InputError(f"checkpoint must be the folder of the query's checkpoint, got {checkpoint!r}")
    (one,) = checked_topics([topic] if isinstance(topic, str) else topic, most=1)
    settings = {"kafka.bootstrap.servers": brokers, "topic": one, **checked_options(options)}
    if not is_remote():
        check_brokers(brokers)
        check_topic(df.sparkSession, brokers, one, options=options)
    messages = as_messages(df, key=key, value=value)
    return (
        messages.writeStream.format("kafka")
        .outputMode(mode)
        .options(**settings)
        .option("checkpointLocation", checkpoint)
    )


def as_messages(df: DataFrame, *, key: str = "key", value: str = "value") -> DataFrame:
    """Give the rows as `kafka_sink` sends them: columns `key` and `value`, strings or bytes."""
    checked_names(key, value)
    fields = {field.name: field.dataType for field in df.schema.fields}
    sent_key = _sent(key, fields[key]) if key in fields else F.lit(None).cast("string")
    if value in fields:
        sent_value = _sent(value, fields[value])
    else:
        others = [F.col(quoted(name)) for name in df.columns if name != key]
        if not others:
            raise InputError(f"there is nothing to send but {key!r}; add a column {value!r}")
        sent_value = F.to_json(F.struct(*others))
    return df.select(sent_key.alias("key"), sent_value.alias("value"))


def _sent(name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    if isinstance(kind, (StringType, BinaryType)):
        return column
    return (
        F.to_json(column) if isinstance(kind, (StructType, ArrayType, MapType, VariantType)) else column.cast("string")
    )
