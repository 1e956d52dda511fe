"""Kafka: messages in as rows, rows out as messages, through the connector that belongs to Spark.

May be changed here: how a message becomes a row. What is asked before a query starts is in kafka_checks.py, values are
in kafka_values.py, the way out is in kafka_sink.py, and all of it can be had from here. Offsets are Spark's business:
they are in the query's checkpoint, no consumer group has them, and `failOnDataLoss` stays on unless the caller says so.

When the broker goes away while a query runs, the query waits: Kafka's clients connect anew by themselves
(`kafka.reconnect.backoff.max.ms`, 1 s), and nothing is lost or read twice when it is back in time. A broker that stays
away ends the query with a TimeoutException after three minutes (183 s seen): three attempts to ask for the newest
offsets (`fetchOffset.numRetries`), each of `kafka.default.api.timeout.ms`, a minute. `patience=` makes them more. A
query that ended goes on from its checkpoint as if nothing had happened.
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
from keyspread.spark.failures import told
from keyspread.spark.kafka.checks import check_brokers, check_topic, checked_names, checked_options, checked_topics
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
    """Give every message as one row: key and value as strings, then topic, partition, offset, timestamp.

    A message without a key has a null key, which is a key like any other. `key` and `value` name their columns, and
    `binary=True` leaves both as bytes. A stream goes on from its checkpoint; `starting` is for its first start:
    "earliest", "latest" or offsets such as `{"clicks": {"0": 23, "1": -2}}` (-2 earliest, -1 latest, every partition
    named). `streaming=False` reads what is there now, once. `max_rows` bounds a micro-batch. `patience` is for how many
    seconds at least a stream waits for brokers that went away, 180 if not given. `options` are of Spark's Kafka
    source, and with the prefix `kafka.` of Kafka's consumer.

    Brokers and topics are asked for before anything starts. Under Spark Connect only the server can do that: a query
    fails with Spark's own error then.
    """
    topics = checked_topics(topic)
    names = [*checked_names(key, value, _POSITION), *_POSITION]
    if max_rows is not None and not streaming:
        raise InputError(f"max_rows bounds the micro-batches of a stream, got {max_rows!r} with streaming=False")
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
        _ = rows.schema  # under Spark Connect nobody has looked for the connector before this
    except AnalysisException as problem:
        if problem.getCondition() == "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise no_connector() from None
        raise told(problem) from None
    kind = "binary" if binary else "string"
    return rows.select(*(F.col(name).cast(kind) for name in ("key", "value")), *_POSITION).toDF(*names)


def _starting(starting: Any, topics: list[str], streaming: bool) -> str:
    if starting in ("earliest", "latest"):
        if starting == "latest" and not streaming:
            raise InputError("starting='latest' with streaming=False reads nothing; use 'earliest' or offsets")
        return str(starting)
    try:
        offsets = json.loads(starting) if isinstance(starting, str) else dict(starting)
        plain = {name: {str(int(p)): int(offset) for p, offset in part.items()} for name, part in offsets.items()}
    except (ValueError, TypeError, AttributeError):
        example = json.dumps({topics[0]: {"0": 23}})
        raise InputError(f"starting must be 'earliest', 'latest' or offsets as {example}, got {starting!r}") from None
    if set(plain) != set(topics):
        raise InputError(f"starting must have the offsets of {', '.join(topics)}, got those of {', '.join(plain)}")
    return json.dumps(plain)


def _attempts(patience: float, settings: Mapping[str, str]) -> int:
    """How often to ask for the newest offsets: 200 s in attempts of 60 s are 4. One without an answer ends it."""
    seconds = checks.not_negative("patience", patience)
    once = float(settings.get("kafka.default.api.timeout.ms", _API_TIMEOUT * 1000)) / 1000
    return max(1, math.ceil(seconds / once))
