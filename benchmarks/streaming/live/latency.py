"""The latency of one scheme: messages at a steady rate, from the producer to the output topic."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.evaluation.queueing import Waiting, finish_times, waiting
from keyspread.spark import spread
from keyspread.streams import ZipfStream
from live.engine import Engine, work

SOURCES = 4
_STARTING = 6.0  # seconds of messages that do not count: tasks start, and the JVM compiles
_PATIENCE = 60.0
Route = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Measured:
    """What came out of one run."""

    latency: npt.NDArray[np.float64]
    """Seconds per message that counts, in the order of sending."""
    loads: npt.NDArray[np.int64]
    """Messages per worker, of all messages."""
    waiting: Waiting
    lost: int
    doubled: int

    @property
    def busiest(self) -> float:
        """The load of the busiest worker as a multiple of the even share."""
        return float(self.loads.max() * self.loads.size / self.loads.sum())

    def thirds(self) -> list[float]:
        """Return the median latency of each third of the messages: it grows if a worker is saturated."""
        return [float(np.median(part)) for part in np.array_split(self.latency, 3)]


def by_scheme(scheme: str, workers: int) -> Route:
    """Return a function that spreads by key, record by record."""
    return lambda rows: spread(rows, "key", workers, scheme, realtime=True)


def model(scheme: str, workers: int, *, skew: float, rate: float, seconds: float, milliseconds: float) -> Measured:
    """Return what `measure` would find if only the queues of the workers took time, with the same senders and keys."""
    keys = ZipfStream(skew, 10_000, round(rate * (_STARTING + seconds)))
    hashes = ks.hash_keys([str(key) for key in keys.law().draw(0, keys.messages).tolist()])
    of_worker = np.empty(keys.messages, np.int32)
    for source in range(SOURCES):
        of_worker[source::SOURCES] = ks.Sender(scheme, workers, source=source).route(hashes[source::SOURCES])
    sent = np.arange(keys.messages) / rate
    finished = finish_times(sent, of_worker, milliseconds / 1000)
    counted = slice(math.ceil(rate * _STARTING), None)
    return Measured(
        latency=(finished - sent)[counted],
        loads=np.bincount(of_worker, minlength=workers),
        waiting=waiting(sent[counted], finished[counted], of_worker[counted]),
        lost=0,
        doubled=0,
    )


def measure(
    engine: Engine, route: Route, workers: int, *, skew: float, rate: float, seconds: float, milliseconds: float
) -> Measured:
    """Send messages with Zipf keys for `seconds`, after a few seconds that do not count, and time each of them."""
    source, sink = engine.topic(SOURCES), engine.topic(1)
    messages = round(rate * (_STARTING + seconds))
    rows = route(engine.read(source))
    worker = work(milliseconds)(F.spark_partition_id()).cast("string")
    out = rows.select("key", F.concat_ws(",", F.col("value").cast("string"), worker).alias("value"))
    with engine.query(out, sink) as running:
        engine.produce(source, ZipfStream(skew, 10_000, messages).law().draw(0, messages).tolist(), SOURCES, rate)
        engine.wait_for(sink, messages, running, _PATIENCE)
    arrived = (
        engine.messages(sink)
        .select(F.col("timestamp").cast("double"), F.split(F.col("value").cast("string"), ","))
        .collect()
    )
    number = np.array([int(parts[0]) for _, parts in arrived])
    sent = np.array([float(parts[1]) for _, parts in arrived])
    of_worker = np.array([int(parts[2]) for _, parts in arrived])
    finished = np.array([at for at, _ in arrived])
    order = np.argsort(number, kind="stable")
    counted = order[number[order] >= rate * _STARTING]
    distinct = np.unique(number).size
    return Measured(
        latency=(finished - sent)[counted],
        loads=np.bincount(of_worker, minlength=workers),
        waiting=waiting(sent[counted], finished[counted], of_worker[counted].astype(np.int32)),
        lost=messages - distinct,
        doubled=number.size - distinct,
    )
