"""The topics of a live benchmark: created for it, filled at a steady rate, read by a query, deleted at the end.

Kafka's own clients in Spark's JVM do this, so it needs classic Spark.
"""

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from keyspread.errors import KeyspreadError
from keyspread.spark._engine.failures import why
from keyspread.spark.kafka.connector import NoClientError, admin_client, no_connector

LONGER_THAN_A_RUN = 600
"""Seconds of a batch of real-time mode, so that no run has the end of one within it."""
_PATIENCE = 30.0
"""Seconds for the partitions of a new topic to have leaders."""
_POLL = 0.2
_CLOCKS_AGREE = 0.005  # seconds
_TEXT = "org.apache.kafka.common.serialization.StringSerializer"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class BrokerError(KeyspreadError):
    """The broker refused to do something; the message has its reason."""


class Topics:
    """Topics of its own at a broker. `close` deletes them; `live_topics` calls it at the end of a block."""

    def __init__(self, spark: SparkSession, brokers: str) -> None:
        self.spark, self.brokers = spark, brokers
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._prefix = f"keyspread-bench-{uuid.uuid4().hex[:12]}"
        self._created: list[str] = []
        try:
            self._admin = admin_client(spark, {"bootstrap.servers": brokers})
        except NoClientError:
            raise no_connector() from None
        clients = jvm.org.apache.kafka.clients
        # A message is sent at once, and does not wait for others.
        sending = {"key.serializer": _TEXT, "value.serializer": _TEXT, "linger.ms": "0"}
        self._producer = clients.producer.KafkaProducer(self._settings(sending))
        self._record = clients.producer.ProducerRecord
        reading = {"key.deserializer": _BYTES, "value.deserializer": _BYTES}
        self._consumer = clients.consumer.KafkaConsumer(self._settings(reading))

    def topic(self, partitions: int) -> str:
        """Create a topic whose messages have the time when the broker got them; its partitions have leaders."""
        name = f"{self._prefix}-{len(self._created)}"
        jvm = self._jvm
        count, replication = jvm.java.util.Optional.of(partitions), jvm.java.util.Optional.empty()  # the brokers' own
        new = jvm.org.apache.kafka.clients.admin.NewTopic(name, count, replication)
        settings = jvm.java.util.HashMap()
        settings.put("message.timestamp.type", "LogAppendTime")
        self._ask(f"create topic {name}", lambda: self._admin.createTopics(self._list(new.configs(settings))).all())
        self._created.append(name)
        end = time.monotonic() + _PATIENCE
        while not self._has_leaders(name, partitions):
            if time.monotonic() > end:
                raise BrokerError(f"{self.brokers}: topic {name} has no leaders after {_PATIENCE:.0f} s")
            time.sleep(0.1)
        return name

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        try:
            described = self._admin.describeTopics(self._list(topic)).allTopicNames().get().get(topic).partitions()
        except Py4JJavaError:  # not every broker knows it yet
            return False
        return len(described) == partitions and all(partition.leader() is not None for partition in described)

    def _ask(self, what: str, call: Callable[[], Any]) -> None:
        try:
            call().get()
        except Py4JJavaError as problem:
            reason = why(str(problem).partition("\n: ")[2])
            raise BrokerError(f"{self.brokers}: the broker did not {what} ({reason}): check its permissions") from None

    def read(self, topic: str) -> DataFrame:
        """Return the messages of a topic as a stream, with Kafka's columns."""
        return self.spark.readStream.format("kafka").options(**self._source(topic)).load()

    def messages(self, topic: str, first: int = 0) -> DataFrame:
        """Return the messages that a topic has now, from an offset on if it has one partition."""
        options = self._source(topic)
        if first:
            options["startingOffsets"] = json.dumps({topic: {"0": first}})
        return self.spark.read.format("kafka").options(**options).load()

    def _source(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.brokers, "subscribe": topic, "startingOffsets": "earliest"}

    @contextmanager
    def query(self, rows: DataFrame, topic: str, seconds: float = LONGER_THAN_A_RUN) -> Iterator[Any]:
        """Run a query in real-time mode, with batches of `seconds`, that writes `key` and `value` to a topic."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            writer: Any = rows.writeStream  # Any: before 4.1 there is no realTime
            running = (
                writer.format("kafka")
                .options(**{"kafka.bootstrap.servers": self.brokers, "kafka.linger.ms": "0", "topic": topic})
                .option("checkpointLocation", folder)
                .outputMode("update")
                .trigger(realTime=f"{round(seconds)} seconds")
                .start()
            )
            try:
                yield running
            finally:
                running.stop()

    def produce(self, topic: str, keys: Sequence[int], partitions: int, rate: float, first: int = 0) -> float:
        """Send one message per key at a steady rate, and return how late the last one was sent, in seconds.

        Messages are numbered from `first` on, and message i is in partition i mod partitions. Its value is its number
        and the time when it should be sent: a producer that falls behind adds to the latency.
        """
        start, due = time.time() + 0.1, 0.0
        for position, key in enumerate(keys):
            due = start + position / rate
            time.sleep(max(0.0, due - time.time()))
            number = first + position
            self._send(topic, number % partitions, str(key), f"{number},{due!r}")
        late = time.time() - due
        self._producer.flush()
        return late

    def _send(self, topic: str, partition: int, key: str, value: str) -> Any:
        """Send a message; `get` of what this returns waits until the broker has it."""
        return self._producer.send(self._record(topic, partition, key, value))

    def size(self, topic: str) -> int:
        """Return the number of messages of a topic with one partition. It asks the broker, without a job."""
        place = self._jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        return int(next(iter(self._consumer.endOffsets(self._list(place)).values())))

    def wait_for(self, topic: str, messages: int, running: Any, patience: float) -> None:
        """Wait until a topic with one partition has so many messages, at most `patience` seconds."""
        end = time.monotonic() + patience
        while self.size(topic) < messages and time.monotonic() < end:
            problem = running.exception()
            if problem is not None:
                raise problem
            time.sleep(_POLL)

    def check_clock(self) -> None:
        """Refuse a broker whose clock differs from that of this machine: a latency is the difference of both."""
        topic = self.topic(1)
        self._send(topic, 0, "", "").get()  # the first one connects
        before = time.time()
        at = self._send(topic, 0, "", "").get().timestamp() / 1000
        after = time.time()
        off = max(before - at, at - after) - 0.001  # the broker's time is in whole milliseconds
        if off > _CLOCKS_AGREE:
            raise BrokerError(
                f"the clock of {self.brokers} differs by {1000 * off:.0f} ms or more from that of this machine, and a "
                "latency is the difference of both: synchronize them, or use a broker on this machine"
            )

    def close(self) -> None:
        """Delete the topics, and end the clients."""
        try:
            if self._created:
                doomed = self._list(*self._created)
                self._ask(f"delete {', '.join(self._created)}", lambda: self._admin.deleteTopics(doomed).all())
        finally:
            for client in (self._producer, self._consumer, self._admin):
                client.close()

    def _settings(self, settings: dict[str, str]) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self.brokers, **settings}.items():
            properties.setProperty(name, value)
        return properties

    def _list(self, *values: Any) -> Any:
        java_list = self._jvm.java.util.ArrayList()
        for value in values:
            java_list.add(value)
        return java_list


@contextmanager
def live_topics(spark: SparkSession, brokers: str) -> Iterator[Topics]:
    """Yield topics that are deleted at the end of the block."""
    topics = Topics(spark, brokers)
    try:
        yield topics
    except BaseException:
        with suppress(Exception):  # the first problem is the one to report
            topics.close()
        raise
    topics.close()
