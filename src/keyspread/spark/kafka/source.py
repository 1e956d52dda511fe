"""Read Kafka messages as rows, through Spark's own connector.

Spark manages the offsets: they are in the query's checkpoint, not in a consumer group. `failOnDataLoss` stays on unless
the caller turns it off.

If the brokers become unreachable while a query runs, the query waits. Kafka's clients reconnect by themselves
(`kafka.reconnect.backoff.max.ms`, 1 s), and no message is lost or read twice. After three minutes (183 s measured) the
query ends with a TimeoutException: three attempts to ask for the newest offsets (`fetchOffset.numRetries`), each with a
timeout of one minute (`kafka.default.api.timeout.ms`). `patience=` allows more attempts. When it is started again, the
query resumes from its checkpoint.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.capabilities import condition_of
from keyspread.spark.failures import one_line_error
from keyspread.spark.kafka.checks import (
    check_brokers,
    check_topic,
    checked_names,
    checked_options,
    checked_topics,
    without_secrets,
)
from keyspread.spark.kafka.connector import no_connector

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
