"""Kafka's own clients in Spark's JVM, for topics that a benchmark creates, fills and deletes. Classic Spark only."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from keyspread.errors import KeyspreadError
from keyspread.spark.failures import why
from keyspread.spark.kafka.client import NoClientError, admin_client
from keyspread.spark.kafka.connector import no_connector

_SERIALIZATION = "org.apache.kafka.common.serialization"
_PATIENCE = 30.0


class BrokerError(KeyspreadError):
    """The broker refused to do something; the message has its reason."""


class KafkaClients:
    """An admin client, a producer and a consumer; `close` ends them."""

    def __init__(self, spark: SparkSession, brokers: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._brokers = brokers
        try:
            self._admin = admin_client(spark, {"bootstrap.servers": brokers})
        except NoClientError:
            raise no_connector() from None
        kafka: Any = self._jvm.org.apache.kafka.clients
        text = f"{_SERIALIZATION}.StringSerializer"
        # A message is sent at once, and does not wait for others.
        sending = {"key.serializer": text, "value.serializer": text, "linger.ms": "0"}
        self._producer = kafka.producer.KafkaProducer(self._properties(sending))
        self._record = kafka.producer.ProducerRecord
        bytes_ = f"{_SERIALIZATION}.ByteArrayDeserializer"
        self._consumer = kafka.consumer.KafkaConsumer(
            self._properties({"key.deserializer": bytes_, "value.deserializer": bytes_})
        )

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, replicated as the brokers do by default, and return when its partitions have leaders."""
        jvm = self._jvm
        default = jvm.java.util.Optional.empty()
        new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, jvm.java.util.Optional.of(partitions), default)
        wanted = jvm.java.util.HashMap()
        for name, value in settings.items():
            wanted.put(name, value)
        self._ask(f"create topic {topic}", lambda: self._admin.createTopics(_list(jvm, [new.configs(wanted)])).all())
        end = time.monotonic() + _PATIENCE
        while not self._has_leaders(topic, partitions):
            if time.monotonic() > end:
                raise BrokerError(f"{self._brokers}: topic {topic} has no leaders after {_PATIENCE:.0f} s")
            time.sleep(0.1)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        try:
            found = self._admin.describeTopics(_list(self._jvm, [topic])).allTopicNames().get().get(topic).partitions()
        except Py4JJavaError:  # not every broker knows it yet
            return False
        return len(found) == partitions and all(one.leader() is not None for one in found)

    def delete(self, topics: Sequence[str]) -> None:
        """Delete topics."""
        self._ask(f"delete {', '.join(topics)}", lambda: self._admin.deleteTopics(_list(self._jvm, list(topics))).all())

    def _ask(self, what: str, call: Callable[[], Any]) -> None:
        try:
            call().get()
        except Py4JJavaError as problem:
            reason = why(str(problem).partition("\n: ")[2])
            raise BrokerError(f"{self._brokers}: the broker did not {what} ({reason}): check its permissions") from None

    def send(self, topic: str, partition: int, key: str, value: str) -> Any:
        """Send a message; `get` of what this returns waits until the broker has it."""
        return self._producer.send(self._record(topic, partition, key, value))

    def flush(self) -> None:
        """Wait until the broker has every message that was sent."""
        self._producer.flush()

    def size(self, topic: str) -> int:
        """Return the number of messages of a topic with one partition. It asks the broker, without a job."""
        place = self._jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        return int(next(iter(self._consumer.endOffsets(_list(self._jvm, [place])).values())))

    def close(self) -> None:
        """End all clients."""
        for client in (self._producer, self._consumer, self._admin):
            client.close()

    def _properties(self, settings: Mapping[str, str]) -> Any:
        found = self._jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self._brokers, **settings}.items():
            found.setProperty(name, value)
        return found


def _list(jvm: Any, values: Sequence[Any]) -> Any:
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found
