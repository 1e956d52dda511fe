"""Topics that are filled before a query starts: how fast it empties them, and the loads part by part."""

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

from keyspread.paper.live.measure import Route
from live.engine import Engine

SOURCES = 4
_PATIENCE = 120.0


@dataclass(frozen=True)
class Emptied:
    """What a query made of a topic."""

    seconds: float
    """From the first result to the last one, by the clock of the broker."""
    workers: npt.NDArray[np.int64]
    """The worker of every message, in the order in which they were sent."""


def fill(engine: Engine, keys: npt.NDArray[np.int64]) -> str:
    """Create a topic and send one message per key; message i is in partition i mod SOURCES, its value is i."""
    topic = engine.topic(SOURCES)
    numbers = np.arange(keys.size)
    table = pa.table({"key": pa.array(keys).cast(pa.string()), "value": pa.array(numbers).cast(pa.string())})
    # One task, so that the messages of a partition are in order.
    rows = engine.spark.createDataFrame(table).coalesce(1)
    sent = rows.withColumn("partition", F.pmod(F.col("value").cast("int"), F.lit(SOURCES)))
    sent.write.format("kafka").option("kafka.bootstrap.servers", engine.brokers).option("topic", topic).save()
    return topic


def empty(engine: Engine, topic: str, messages: int, route: Route) -> Emptied:
    """Run a query in real-time mode until every message of the topic has its result."""
    sink = engine.topic(1)
    worker = F.spark_partition_id().cast("string")
    out = route(engine.read(topic)).select(
        "key", F.concat_ws(",", F.col("value").cast("string"), worker).alias("value")
    )
    with engine.query(out, sink) as running:
        engine.wait_for(sink, messages, running, _PATIENCE)
    parts = F.split(F.col("value").cast("string"), ",").cast("array<int>")
    table = engine.messages(sink).select(
        F.col("timestamp").cast("double").alias("at"), parts[0].alias("i"), parts[1].alias("w")
    )
    arrived = table.toArrow()
    number, at = np.asarray(arrived["i"]), np.asarray(arrived["at"])
    if np.unique(number).size != messages or number.size != messages:
        raise SystemExit(f"{messages} messages were sent, {number.size} results of {np.unique(number).size} came")
    workers = np.empty(messages, np.int64)
    workers[number] = np.asarray(arrived["w"])
    return Emptied(float(at.max() - at.min()), workers)


def busiest(workers: npt.NDArray[np.int64], n: int, every: int) -> float:
    """Return the mean, over parts of so many messages, of the busiest worker's load as a multiple of the even share."""
    parts = [workers[begin : begin + every] for begin in range(0, workers.size, every)]
    return float(np.mean([np.bincount(part, minlength=n).max() * n / part.size for part in parts]))


def settle() -> None:
    """Wait a moment, so that a query that was stopped does not take time from the next one."""
    time.sleep(1)
