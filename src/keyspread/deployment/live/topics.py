"""The topics of a live benchmark: created for it, filled at a steady rate, read by a query, deleted at the end."""

import json
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keyspread.deployment.live.kafka_clients import BrokerError, KafkaClients

LONGER_THAN_A_RUN = 600
"""Seconds of a batch of real-time mode, so that no run has the end of one within it."""
_POLL = 0.2
_CLOCKS_AGREE = 0.005  # seconds


class Topics:
    """Topics of its own at a broker. `close` deletes them; `live_topics` calls it at the end of a block."""

    def __init__(self, spark: SparkSession, brokers: str) -> None:
        self.spark, self.brokers = spark, brokers
        self._clients = KafkaClients(spark, brokers)
        self._prefix = f"keyspread-bench-{uuid.uuid4().hex[:12]}"
        self._created: list[str] = []

    def topic(self, partitions: int) -> str:
        """Create a topic whose messages have the time when the broker got them."""
        name = f"{self._prefix}-{len(self._created)}"
        self._clients.create(name, partitions, {"message.timestamp.type": "LogAppendTime"})
        self._created.append(name)
        return name

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
            self._clients.send(topic, number % partitions, str(key), f"{number},{due!r}")
        late = time.time() - due
        self._clients.flush()
        return late

    def size(self, topic: str) -> int:
        """Return the number of messages of a topic with one partition. It asks the broker, without a job."""
        return self._clients.size(topic)

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
        self._clients.send(topic, 0, "", "").get()  # the first one connects
        before = time.time()
        at = self._clients.send(topic, 0, "", "").get().timestamp() / 1000
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
                self._clients.delete(self._created)
        finally:
            self._clients.close()


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
