"""A Spark with the settings of real-time mode, the Kafka connector and a broker; all of it ends with the block."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from kafka_broker import Broker, RegistryOutOfReachError, broker, connector_jars
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.spark import realtime_settings, session

from common import fail

LONGER_THAN_A_RUN = "600 seconds"  # of a batch of real-time mode, so that no run has the end of one within it
_POLL = 0.5


@dataclass
class Engine:
    """A running Spark and a running broker."""

    spark: SparkSession
    broker: Broker
    connector: str
    _numbers: Iterator[int] = field(default_factory=count)
    _consumer: Any = None

    def topic(self, partitions: int) -> str:
        """Create a topic whose messages have the time when the broker got them."""
        name = f"t{next(self._numbers)}"
        self.broker.create_topic(name, partitions, {"message.timestamp.type": "LogAppendTime"})
        return name

    def read(self, topic: str) -> DataFrame:
        """Return the messages of a topic as a stream, with Kafka's columns."""
        return self.spark.readStream.format("kafka").options(**self._source(topic)).load()

    def messages(self, topic: str) -> DataFrame:
        """Return the messages that a topic has now."""
        return self.spark.read.format("kafka").options(**self._source(topic)).load()

    def _source(self, topic: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.broker.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }

    @contextmanager
    def query(self, rows: DataFrame, topic: str, duration: str = LONGER_THAN_A_RUN) -> Iterator[Any]:
        """Run a query in real-time mode that writes `key` and `value` to a topic."""
        with tempfile.TemporaryDirectory() as folder:
            running = (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", self.broker.address)
                .option("topic", topic)
                .option("checkpointLocation", folder)
                .outputMode("update")
                .trigger(realTime=duration)
                .start()
            )
            try:
                yield running
            finally:
                running.stop()

    def produce(self, topic: str, keys: Sequence[int], partitions: int, rate: float) -> None:
        """Send one message per key at a steady rate; message i is in partition i mod partitions.

        Its value is its number and the time when it should be sent: a producer that falls behind adds to the latency.
        """
        producer, record = _producer(self.spark, self.broker.address)
        start = time.time() + 0.1
        for number, key in enumerate(keys):
            due = start + number / rate
            time.sleep(max(0.0, due - time.time()))
            producer.send(record(topic, number % partitions, str(key), f"{number},{due!r}"))
        producer.close()

    def size(self, topic: str) -> int:
        """Return the number of messages of a topic with one partition. It asks the broker, without a job."""
        jvm: Any = self.spark._jvm
        if self._consumer is None:
            kind = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
            settings = _properties(jvm, self.broker.address, **{"key.deserializer": kind, "value.deserializer": kind})
            self._consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        asked = jvm.java.util.ArrayList()
        asked.add(jvm.org.apache.kafka.common.TopicPartition(topic, 0))
        return int(next(iter(self._consumer.endOffsets(asked).values())))

    def wait_for(self, topic: str, messages: int, running: Any, patience: float) -> None:
        """Wait until a topic with one partition has so many messages, at most `patience` seconds."""
        end = time.monotonic() + patience
        while self.size(topic) < messages and time.monotonic() < end:
            problem = running.exception()
            if problem is not None:
                raise problem
            time.sleep(_POLL)


def _producer(spark: SparkSession, address: str) -> tuple[Any, Callable[..., Any]]:
    jvm: Any = spark._jvm
    kind = "org.apache.kafka.common.serialization.StringSerializer"
    settings = _properties(jvm, address, **{"key.serializer": kind, "value.serializer": kind})
    kafka = jvm.org.apache.kafka.clients.producer
    return kafka.KafkaProducer(settings), kafka.ProducerRecord


def _properties(jvm: Any, address: str, **settings: str) -> Any:
    found = jvm.java.util.Properties()
    for name, value in {"bootstrap.servers": address, **settings}.items():
        found.setProperty(name, value)
    return found


@contextmanager
def engine(slots: int, **settings: Any) -> Iterator[Engine]:
    """Yield a Spark with so many slots and a broker; what Spark and its Python workers print goes to a file.

    Stopping a query in real-time mode prints broken pipes of all Python workers, which mean nothing.
    """
    log = Path(tempfile.gettempdir()) / f"keyspread-realtime-{os.getpid()}.log"
    sys.stderr.flush()
    stderr = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        name, jars = connector_jars()
        needed = realtime_settings()
        with broker() as running:
            spark = session(
                **{
                    "master": f"local[{slots}]",
                    "spark.jars": ",".join(map(str, jars)),
                    "spark.python.daemon.module": "keyspread.deployment.kernel_daemon",
                    **needed.application,
                    **needed.session,
                    **settings,
                }
            )
            try:
                yield Engine(spark, running, name)
            finally:
                spark.stop()
    except RegistryOutOfReachError as problem:
        os.dup2(stderr, 2)
        fail(str(problem))
    finally:
        os.dup2(stderr, 2)
    log.unlink()


def work(milliseconds: float) -> Callable[..., Any]:
    """Return a function of a column that takes so long per row, as a worker's own work would, and returns it."""

    def sleep(value: Any) -> Any:
        time.sleep(milliseconds / 1000)
        return value

    return F.udf(sleep, "int", useArrow=False).asNondeterministic()
