"""Kafka: messages in as rows, rows out as messages, through the connector that belongs to Spark.

May be changed here: what is asked before a query starts, and how a message becomes a row. Offsets are Spark's business:
they are in the query's checkpoint, no consumer group has them, and `failOnDataLoss` stays on unless the caller says so.

When the broker goes away while a query runs, the query waits: Kafka's clients connect anew by themselves
(`kafka.reconnect.backoff.max.ms`, 1 s), and nothing is lost or read twice when it is back in time. A broker that stays
away ends the query with a TimeoutException after three minutes (183 s seen): three attempts to ask for the newest
offsets (`fetchOffset.numRetries`), each of `kafka.default.api.timeout.ms`, a minute. `patience=` makes them more. A
query that ended goes on from its checkpoint as if nothing had happened.
"""

import difflib
import json
import math
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType, VariantType
from pyspark.sql.utils import is_remote

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.kafka_client import NoClientError, admin_client, topic_names
from keyspread.spark.keys import free_name, quoted
from keyspread.spark.trouble import told, why

MALFORMED = "_malformed"
"""The column that `parsed` adds: the text that could not be parsed, null in every other row."""

_MODULE = "spark-sql-kafka-0-10_2.13"  # Spark 4 is built for no other Scala
_PATIENCE = 10.0
"""Seconds for a broker to answer."""
_API_TIMEOUT = 60  # seconds: Kafka's default.api.timeout.ms
_SHOWN = 5
_POSITION = ("topic", "partition", "offset", "timestamp")
_OURS = {
    "kafka.bootstrap.servers": "brokers",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign", "topic"), "topic"),
    "startingoffsets": "starting",
    "maxoffsetspertrigger": "max_rows",
    "fetchoffset.numretries": "patience",
    "checkpointlocation": "checkpoint",
}


def connector(version: str | None = None) -> str:
    """Give the Maven coordinate of the Kafka connector that belongs to the installed Spark, or to another version.

    >>> connector("4.2.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    # PyPI's 4.1.0.dev1 is Maven's 4.1.0-preview1.
    return f"org.apache.spark:{_MODULE}:{re.sub(r'[.]dev(?=[0-9]+$)', '-preview', version or pyspark.__version__)}"


def with_kafka(config: Mapping[str, Any] | None = None, version: str | None = None) -> dict[str, Any]:
    """Give the settings of a session with the connector added, for `session(**with_kafka({...}))`.

    It must be there when Spark starts. Spark fetches it once from Maven's registry and keeps it. Settings that name a
    Kafka connector already, in `spark.jars` or `spark.jars.packages`, are left as they are, and so are those of a
    Spark Connect server (`sc://`), which brings its own.

    >>> with_kafka({"master": "local[2]"}, version="4.2.0")["spark.jars.packages"]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    settings = dict(config or {})
    packages = str(settings.get("spark.jars.packages") or "")
    remote = str(settings.get("remote") or settings.get("spark.remote") or "")
    if "spark-sql-kafka" in f"{packages},{settings.get('spark.jars') or ''}" or remote.startswith("sc://"):
        return settings
    return settings | {"spark.jars.packages": ",".join(filter(None, [packages, connector(version)]))}


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
    names = [*_column_names(key, value, _POSITION), *_POSITION]
    if max_rows is not None and not streaming:
        raise InputError(f"max_rows bounds the micro-batches of a stream, got {max_rows!r} with streaming=False")
    settings = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": ",".join(topics),
        "startingOffsets": _starting(starting, topics, streaming),
        **_checked(options),
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
            raise _no_connector() from None
        raise told(problem) from None
    kind = "binary" if binary else "string"
    return rows.select(*(F.col(name).cast(kind) for name in ("key", "value")), *_POSITION).toDF(*names)


def parsed(
    df: DataFrame,
    schema: StructType | str,
    *,
    value: str = "value",
    observe: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Give the same rows, none more or less, with the fields of their JSON values as columns instead of the value.

    A value that is not one JSON object of this schema is malformed: its text is in the column `_malformed` and its
    fields are null; in all other rows `_malformed` is null. A message without a value (Kafka's mark of deletion) is
    not malformed. `schema` may be in SQL, as in "user STRING, spent DOUBLE". `observe` counts rows and malformed ones
    under this name in every progress of a query (`observedMetrics`). `options` are of Spark's JSON reader.

    `split` sets the malformed rows aside.
    """
    if value not in df.columns:
        raise InputError(f"there is no column {value!r} to parse; the columns are {', '.join(df.columns)}")
    fields = _fields(schema)
    kept = [name for name in df.columns if name != value]
    for name in fields.names:
        if name.lower() in {one.lower() for one in [*kept, MALFORMED]}:
            raise InputError(f"the schema has a field {name!r}, and so have the rows; rename the column first")
    text = F.col(quoted(value)).cast("string")
    # Spark reads the first JSON value of a text and leaves the rest, so a second object would be lost silently:
    # '{"a":1} {"a":2}' becomes '{"v":[{"a":1} {"a":2}]}', which is no JSON, and '{"a":1},{"a":2}' an array of two.
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
    """Give the well-formed rows of `parsed`, and the malformed ones with their text in the column `value`.

    Together they are all rows. Of a stream both are streams, and each query reads the topic for itself; to read it
    once, split inside `foreachBatch`, with the batch persisted.
    """
    if MALFORMED not in df.columns:
        raise InputError(f"there is no column {MALFORMED!r}: split takes what parsed() gave")
    text = F.col(MALFORMED)
    return df.where(text.isNull()).drop(MALFORMED), df.where(text.isNotNull()).withColumnRenamed(MALFORMED, value)


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
    settings = {"kafka.bootstrap.servers": brokers, "topic": one, **_checked(options)}
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
    _column_names(key, value)
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


def check_brokers(brokers: str, timeout: float = _PATIENCE) -> None:
    """Refuse brokers of which none takes a connection within `timeout` seconds; needs neither Spark nor Java."""
    silent = []
    for place, host, port in _addresses(brokers):
        try:
            socket.create_connection((host, port), timeout=timeout).close()
            return  # as Kafka's clients do: they learn of the others from the first that answers
        except OSError as problem:
            silent.append((place, problem.strerror or str(problem)))
    if len(silent) == 1:
        raise _no_answer(*silent[0])
    raise _no_answer(brokers, ", ".join(f"{place}: {reason}" for place, reason in silent))


def check_topic(
    spark: SparkSession,
    brokers: str,
    topic: str | Sequence[str],
    *,
    options: Mapping[str, Any] | None = None,
    timeout: float = _PATIENCE,
) -> None:
    """Refuse a topic that the brokers do not have, with the names of some that they have.

    Asks with Kafka's own client in Spark's JVM, with the same `kafka.` options as the query. Does nothing under
    Spark Connect, where there is no JVM on this side.
    """
    topics = checked_topics(topic)
    if is_remote():
        return
    milliseconds = str(int(checks.number("timeout", timeout) * 1000))
    settings = {"default.api.timeout.ms": milliseconds, "request.timeout.ms": milliseconds}
    given = {name[6:]: value for name, value in _checked(options).items() if name.lower().startswith("kafka.")}
    try:
        client = admin_client(spark, given | settings | {"bootstrap.servers": brokers})
    except NoClientError:
        raise _no_connector() from None
    except Py4JError as problem:
        raise InputError(f"{brokers}: Kafka's client refuses the options ({_reason(problem)})") from None
    try:
        known = topic_names(spark, client)
    except Py4JError as problem:
        raise _no_answer(brokers, _reason(problem)) from None
    finally:
        client.close()
    for name in topics:
        if name not in known:
            raise InputError(
                f"there is no topic {name!r} at {brokers}; {_some(known, name)}: check the name, or create it"
            )


def checked_topics(topic: str | Sequence[str], most: int | None = None) -> list[str]:
    """Give the names of topics, one by one; what cannot be one is refused, without asking anybody."""
    topics = topic.split(",") if isinstance(topic, str) else list(topic) if isinstance(topic, Sequence) else []
    topics = [name.strip() if isinstance(name, str) else "" for name in topics]
    # Kafka's own rule
    if not topics or not all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) for name in topics):
        raise InputError(f"topic must be the name of a Kafka topic (letters, digits, '.', '_', '-'), got {topic!r}")
    if most is not None and len(topics) > most:
        raise InputError(f"topic must be one topic, got {topic!r}")
    return topics


def _addresses(brokers: str) -> Iterator[tuple[str, str, int]]:
    """'a:1,[::1]:2' → ('a:1', 'a', 1), ('[::1]:2', '::1', 2)."""
    for place in brokers.split(",") if isinstance(brokers, str) else [""]:
        # A listener may be named before it, as in PLAINTEXT://host:9092.
        match = re.fullmatch(r"(?:\w+://)?(?:\[([0-9a-fA-F:.%]+)\]|([^\s:/\[\]]+)):(\d{1,5})", place.strip())
        if match is None or not 0 < int(match[3]) < 65536:
            raise InputError(
                f"brokers must be host:port, or several with commas, as in localhost:9092; got {brokers!r}"
            )
        yield place.strip(), match[1] or match[2], int(match[3])


def _no_answer(brokers: str, reason: str) -> InputError:
    return InputError(f"{brokers}: no Kafka broker answers ({reason}): start it, or check the address")


def _no_connector() -> InputError:
    return InputError(
        "this Spark was started without its Kafka connector: start it with session(**with_kafka({...})), or with "
        f"spark.jars.packages={connector()}"
    )


def _some(known: set[str], wanted: str) -> str:
    names = [name for name in known if not name.startswith("__")]
    if not names:
        return "there are no topics yet"
    alike = difflib.get_close_matches(wanted, names, n=_SHOWN, cutoff=0.4)
    shown = [*alike, *(name for name in sorted(names) if name not in alike)][:_SHOWN]
    return f"there are {', '.join(shown)}" + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _column_names(key: str, value: str, taken: Sequence[str] = ()) -> tuple[str, str]:
    for name, given in (("key", key), ("value", value)):
        if not isinstance(given, str) or not given:
            raise InputError(f"{name} must be the name of a column, got {given!r}")
        if given.lower() in taken:
            raise InputError(f"{name} must not be called as one of {', '.join(taken)}, got {given!r}")
    if key.lower() == value.lower():
        raise InputError(f"key and value must be two columns, got {key!r} for both")
    return key, value


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


def _checked(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as Spark takes them, without those that have a parameter of their own."""
    for name in options or {}:
        if name.lower() in _OURS:
            raise InputError(f"option {name!r} is given by the parameter {_OURS[name.lower()]}; leave it out")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }


def _attempts(patience: float, settings: Mapping[str, str]) -> int:
    """How often to ask for the newest offsets: 200 s in attempts of 60 s are 4. One without an answer ends it."""
    seconds = checks.not_negative("patience", patience)
    once = float(settings.get("kafka.default.api.timeout.ms", _API_TIMEOUT * 1000)) / 1000
    return max(1, math.ceil(seconds / once))


def _reason(problem: Exception) -> str:
    """What Java said; py4j's own first line only names the call."""
    return why(str(problem).partition("\n: ")[2] or str(problem)).rpartition("org.apache.kafka.common.")[2]


def _fields(schema: StructType | str) -> StructType:
    try:
        fields = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    except ParseException as problem:
        raise InputError(
            f"schema {schema!r} is not SQL as in 'user STRING, spent DOUBLE': {why(str(problem))}"
        ) from None
    if not isinstance(fields, StructType) or not fields.names:
        raise InputError(f"schema must be a StructType or SQL as in 'user STRING, spent DOUBLE', got {schema!r}")
    return fields


def _sent(name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    if isinstance(kind, (StringType, BinaryType)):
        return column
    return (
        F.to_json(column) if isinstance(kind, (StructType, ArrayType, MapType, VariantType)) else column.cast("string")
    )
