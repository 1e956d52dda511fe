"""The values of Kafka messages: the fields of JSON objects become columns; malformed values are kept, never lost."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import condition_of, is_variant, schema_of_ddl
from keyspread.spark._engine.failures import one_line_error, why
from keyspread.spark._routing.keys import free_name, quoted
from keyspread.spark.kafka.connector import (
    check_brokers,
    check_topic,
    checked_names,
    checked_options,
    checked_topics,
    no_connector,
    without_secrets,
)

MALFORMED = "_malformed"
"""The column that `parsed` adds: the text of a malformed value, null in all other rows."""


def parsed(
    df: DataFrame,
    schema: StructType | str,
    *,
    value: str = "value",
    observe: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return exactly the same rows, with the fields of their JSON values as columns instead of the value.

    A value that is not one JSON object of this schema is malformed: its text is in the column `_malformed` and its
    fields are null; in all other rows `_malformed` is null. A message without a value (a tombstone) is not malformed.
    `schema` may be SQL, as in "user STRING, spent DOUBLE". `observe` is the name under which the progress of a query
    counts rows and malformed rows (`observedMetrics`). `options` are those of Spark's JSON reader.

    `split` separates the malformed rows.

    Args:
        df: Messages as `kafka_source` returns them.
        schema: The fields of the JSON values.
        value: The column with the JSON text.
        observe: The name under which the progress of a query counts rows.
        options: Those of Spark's JSON reader.

    Returns:
        The same rows, with the fields as columns.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import session
    >>> rows = session().createDataFrame([('{"user": "anna"}',), ("{",)], "value string")
    >>> [(row["user"], row["_malformed"]) for row in parsed(rows, "user STRING").collect()]
    [('anna', None), (None, '{')]
    """
    if value not in df.columns:
        raise InputError(f"there is no column {value!r} to parse: the columns are {', '.join(df.columns)}")
    fields = _fields(schema)
    kept = [name for name in df.columns if name != value]
    for name in fields.names:
        if name.lower() in {one.lower() for one in [*kept, MALFORMED]}:
            raise InputError(
                f"the schema has a field {name!r}, and the rows have a column of that name: rename the column first"
            )
    text = F.col(quoted(value)).cast("string")
    # Spark reads the first JSON value of a text and ignores the rest, so a second object would be lost. Wrapped,
    # '{"a":1} {"a":2}' becomes '{"v":[{"a":1} {"a":2}]}', which is not JSON, and '{"a":1},{"a":2}' an array of two.
    wrapped = F.concat(F.lit('{"v":['), text, F.lit("]}"))
    read = StructType([StructField("v", ArrayType(fields)), StructField("bad", StringType())])
    settings = {name: str(given) for name, given in (options or {}).items()}
    settings |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    json_ = free_name(df, "json")
    found, bad = F.col(f"{json_}.v"), F.col(f"{json_}.bad")
    first = F.get(found, F.lit(0))
    good = F.coalesce(bad.isNull() & (F.size(found) == 1) & first.isNotNull(), F.lit(False))
    rows = df.withColumn(json_, F.from_json(wrapped, read, settings)).select(
        *(F.col(quoted(name)) for name in kept),
        F.when(~good, text).alias(MALFORMED),
        *(F.when(good, first.getField(name)).alias(name) for name in fields.names),
    )
    if observe is None:
        return rows
    return rows.observe(observe, F.count(F.lit(1)).alias("rows"), F.count(MALFORMED).alias("malformed"))


def split(df: DataFrame, *, value: str = "value") -> tuple[DataFrame, DataFrame]:
    """Return the well-formed rows of `parsed`, and the malformed ones with their text in the column `value`.

    Together they are all rows. Two queries on the parts of a stream each read the topic; to read it once, split inside
    `foreachBatch`, with the batch persisted.

    Args:
        df: Rows that `parsed` returned.
        value: The name of the column with the text of malformed rows.

    Returns:
        The well-formed and the malformed rows.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import session
    >>> rows = session().createDataFrame([('{"user": "anna"}',), ("{",)], "value string")
    >>> good, bad = split(parsed(rows, "user STRING"))
    >>> good.count(), bad.collect()[0]["value"]
    (1, '{')
    """
    if MALFORMED not in df.columns:
        raise InputError(f"there is no column {MALFORMED!r}: pass the result of parsed()")
    text = F.col(MALFORMED)
    return df.where(text.isNull()).drop(MALFORMED), df.where(text.isNotNull()).withColumnRenamed(MALFORMED, value)


def _fields(schema: StructType | str) -> StructType:
    try:
        fields = schema_of_ddl(schema) if isinstance(schema, str) else schema
    except ParseException as problem:
        raise InputError(
            f"schema {schema!r} is not valid SQL such as 'user STRING, spent DOUBLE': {why(str(problem))}"
        ) from None
    if not isinstance(fields, StructType) or not fields.names:
        raise InputError(f"schema must be a StructType or SQL such as 'user STRING, spent DOUBLE', got {schema!r}")
    return fields


# Read Kafka messages as rows, through Spark's own connector.
#
# Spark manages the offsets: they are in the query's checkpoint, not in a consumer group. `failOnDataLoss` stays on
# unless the caller turns it off.
#
# If the brokers become unreachable while a query runs, the query waits. Kafka's clients reconnect by themselves
# (`kafka.reconnect.backoff.max.ms`, 1 s), and no message is lost or read twice. After three minutes (183 s measured)
# the query ends with a TimeoutException: three attempts to ask for the newest offsets (`fetchOffset.numRetries`), each
# with a timeout of one minute (`kafka.default.api.timeout.ms`). `patience=` allows more attempts. When it is started
# again, the query resumes from its checkpoint.


_API_TIMEOUT = 60  # seconds: Kafka's default.api.timeout.ms
_POSITION = ("topic", "partition", "offset", "timestamp")


def kafka_source(
    spark: SparkSession,
    brokers: str,
    topic: str | Sequence[str],
    *,
    key: str = "key",
    value: str = "value",
    binary: bool = False,
    starting: str | Mapping[str, Mapping[str, int]] = "earliest",
    streaming: bool = True,
    max_rows: int | None = None,
    patience: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return every message as one row: key and value as strings, then topic, partition, offset, timestamp.

    A message without a key has a null key, which is a key like any other. `key` and `value` name their columns;
    `binary=True` returns both as bytes. A stream resumes from its checkpoint; `starting` is for its first start:
    "earliest", "latest" or offsets of every partition such as `{"clicks": {"0": 23, "1": -2}}` (-2 earliest, -1
    latest). `streaming=False` reads the messages that exist now, once. `max_rows` limits the rows per micro-batch. A
    stream waits at least `patience` seconds for brokers that became unreachable (default 180). `options` are those of
    Spark's Kafka source and, with the prefix `kafka.`, those of Kafka's consumer.

    Brokers and topics are checked before anything starts. Over Spark Connect only the server could do that, so a query
    fails with Spark's own error there.

    Args:
        spark: A session with the connector, see `with_kafka`.
        brokers: The addresses of the brokers, host:port, separated by commas.
        topic: The topic, or several.

    Returns:
        The messages as rows: key, value, topic, partition, offset, timestamp.

    Raises:
        InputError: No broker answers, or the topic does not exist.

    >>> from keyspread.spark.kafka import kafka_source
    >>> clicks = kafka_source(spark, "broker:9092", "clicks")  # doctest: +SKIP
    """
    topics = checked_topics(topic)
    names = [*checked_names(key, value, _POSITION), *_POSITION]
    if max_rows is not None and not streaming:
        raise InputError(
            f"max_rows limits the micro-batches of a stream, got {max_rows!r} with streaming=False: leave it out"
        )
    settings = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": ",".join(topics),
        "startingOffsets": _starting(starting, topics, streaming),
        **checked_options(options),
    }
    if max_rows is not None:
        settings["maxOffsetsPerTrigger"] = str(checks.whole_number("max_rows", max_rows))
    if patience is not None:
        settings["fetchOffset.numRetries"] = str(_attempts(patience, settings))
    if not is_remote():
        check_brokers(brokers)
        check_topic(spark, brokers, topics, options=options)
    reader = spark.readStream if streaming else spark.read
    try:
        rows = reader.format("kafka").options(**settings).load()
        _ = rows.schema  # over Spark Connect, this is what finds that the connector is missing
    except AnalysisException as problem:
        if condition_of(problem) == "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise no_connector() from None
        known = one_line_error(problem)
        raise type(known)(without_secrets(str(known), options)) from None
    kind = "binary" if binary else "string"
    return rows.select(*(F.col(name).cast(kind) for name in ("key", "value")), *_POSITION).toDF(*names)


def _starting(starting: Any, topics: list[str], streaming: bool) -> str:
    if starting in ("earliest", "latest"):
        if starting == "latest" and not streaming:
            raise InputError("starting='latest' with streaming=False reads nothing: use 'earliest' or offsets")
        return str(starting)
    try:
        offsets = json.loads(starting) if isinstance(starting, str) else dict(starting)
        plain = {name: {str(int(p)): int(offset) for p, offset in part.items()} for name, part in offsets.items()}
    except (ValueError, TypeError, AttributeError):
        example = json.dumps({topics[0]: {"0": 23}})
        raise InputError(
            f"starting must be 'earliest', 'latest' or offsets such as {example}, got {starting!r}"
        ) from None
    if set(plain) != set(topics):
        raise InputError(f"starting must have the offsets of {', '.join(topics)}, got offsets of {', '.join(plain)}")
    return json.dumps(plain)


def _attempts(patience: float, settings: Mapping[str, str]) -> int:
    """Return how often to ask for the newest offsets: 200 s with a timeout of 60 s per attempt are 4 attempts."""
    seconds = checks.not_negative("patience", patience)
    once = float(settings.get("kafka.default.api.timeout.ms", _API_TIMEOUT * 1000)) / 1000
    return max(1, math.ceil(seconds / once))


# Write rows as Kafka messages.


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
