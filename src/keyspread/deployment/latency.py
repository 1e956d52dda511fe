"""Latency: every message carries the time when it was sent, and its worker records when it was finished.

There are two ways to measure it. `measure_queues` starts all workers first, and each worker takes a message at the time
it is sent, as in an engine with a queue before every worker; Spark routes and moves the messages ahead of that time. In
`measure_micro_batches`, a streaming query does everything live, batch by batch.
"""

import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.deployment.emulated_work import Work
from keyspread.deployment.measurements import MICRO_BATCHES, QUEUES, LatencyRun
from keyspread.deployment.setup import Setup, streaming
from keyspread.deployment.slots import Slots
from keyspread.deployment.source_messages import check_exact
from keyspread.errors import KeyspreadError
from keyspread.evaluation.queueing import waiting
from keyspread.spark.capabilities import to_arrow
from keyspread.spark.spread import spread

_DONE = "worker int, key bigint, sent double, began double, finished double"
_TRIES = 4
_POLL = 0.05


class TooSlowError(KeyspreadError):
    """The workers were not running when the first message was sent."""


def measure_queues(
    rows: DataFrame, slots: Slots, setup: Setup, skew: float, scheme: str, head_start: float
) -> LatencyRun:
    """Send messages to running workers at a steady rate; each worker works on them in order of arrival.

    `head_start` is the time, before the first message is sent, for routing all messages and starting all workers. If a
    worker starts too late, the run is repeated with twice that time.
    """
    sent = ((F.col("id") + 1) / setup.arrival_rate).alias("sent")
    messages = rows.where(F.col("id") < setup.arriving).select("key", sent)
    for attempt in range(_TRIES):
        slots.ready()
        start = time.time() + head_start * 2**attempt
        routed = spread(messages, "key", setup.workers, scheme).sortWithinPartitions("sent")
        done = to_arrow(routed.mapInArrow(_timing(setup.work_seconds, start), _DONE))
        if np.asarray(done["began"]).max() <= start:
            return _run(QUEUES, setup, skew, scheme, done, batches=1)
    raise TooSlowError(
        f"{setup.workers} workers were not running after {head_start * 2**attempt:.0f} s: "
        "use fewer of them, or a machine that is less busy"
    )


def measure_micro_batches(spark: SparkSession, slots: Slots, setup: Setup, skew: float, scheme: str) -> LatencyRun:
    """Run a streaming query on a source that sends messages at a steady rate, released every second."""
    stream = setup.stream(skew, setup.arriving)
    keys = stream.law().draw(0, stream.messages)
    # As one string, the keys are one expression, which Spark turns into an array once: the source needs no Python.
    table = F.split(F.lit(",".join(map(str, keys.tolist()))), ",").cast("array<int>")
    rate = max(1, round(setup.arrival_rate))
    arriving = spark.readStream.format("rate").options(rowsPerSecond=rate, numPartitions=setup.sources).load()
    messages = arriving.where(F.col("value") < stream.messages).select(
        F.get(table, F.col("value").cast("int")).cast("bigint").alias("key"),
        F.col("timestamp").cast("double").alias("sent"),
    )
    parts: list[pa.Table] = []
    slots.ready()
    with tempfile.TemporaryDirectory() as folder:
        spread_rows = spread(messages, "key", setup.workers, streaming(scheme))
        query = (
            spread_rows.mapInArrow(_timing(setup.work_seconds, start=0.0), _DONE)
            .writeStream.foreachBatch(lambda rows, _: parts.append(to_arrow(rows)))
            .option("checkpointLocation", folder)
            .start()
        )
        try:
            while sum(part.num_rows for part in parts) < stream.messages and query.isActive:
                time.sleep(_POLL)
            problem = query.exception()
            if problem is not None:
                raise problem
        finally:
            query.stop()
    return _run(MICRO_BATCHES, setup, skew, scheme, pa.concat_tables(parts), sum(part.num_rows > 0 for part in parts))


def _run(kind: str, setup: Setup, skew: float, scheme: str, done: pa.Table, batches: int) -> LatencyRun:
    keys, counts = np.unique(np.asarray(done["key"]), return_counts=True)
    check_exact(setup.stream(skew, setup.arriving), dict(zip(keys.tolist(), counts.tolist(), strict=True)))
    sent, finished, worker = (np.asarray(done[name]) for name in ("sent", "finished", "worker"))
    return LatencyRun(
        kind=kind,
        skew=skew,
        scheme=scheme if kind == QUEUES else streaming(scheme),
        messages=done.num_rows,
        waiting=waiting(sent, finished, worker),
        busiest=float(np.bincount(worker).max() * setup.work_seconds),
        batches=batches,
    )


def _timing(seconds: float, start: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the worker: it takes each message when it is sent, and records when it was finished.

    `start` is the time that `sent` counts from; 0 if `sent` is the time of the machine.
    """

    def record(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number, began = task.partitionId(), time.time()
        work = Work(seconds)
        for batch in batches:
            sent = batch.column(1).to_numpy() + start
            finished = [work.do(not_before) for not_before in sent.tolist()]
            yield pa.record_batch(
                {
                    "worker": pa.array(np.full(sent.size, number, np.int32)),
                    "key": batch.column(0),
                    "sent": pa.array(sent),
                    "began": pa.array(np.full(sent.size, began)),
                    "finished": pa.array(finished, pa.float64()),
                }
            )
        work.end()

    return record
