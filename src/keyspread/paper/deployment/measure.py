"""Cores for all workers at once, with their Python workers started: otherwise saturation could not be measured."""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.errors import InputError, KeyspreadError
from keyspread.paper.deployment.measurements import MICRO_BATCHES, QUEUES, Deployment, LatencyRun, ThroughputRun
from keyspread.paper.deployment.setup import Setup, predict, streaming
from keyspread.paper.runs.queueing import waiting
from keyspread.spark._engine.capabilities import to_arrow
from keyspread.spark._launch.master import is_local
from keyspread.spark.spread import spread
from keyspread.streams import ZipfStream

_TOGETHER = 0.3
"""Seconds that a warm-up task keeps its Python worker, so that the next task needs another one."""
_IDLE = 20.0
"""Seconds since the last run after which Spark might end idle Python workers during the next one."""
_PATIENCE = 30.0
"""Seconds for the executors of a cluster to register."""

SETTINGS = {
    "spark.python.daemon.module": "keyspread.paper.deployment.kernel_daemon",
    "spark.sql.shuffle.partitions": "8",  # for merging
    "spark.sql.adaptive.enabled": "false",  # it would plan an extra stage while the clock runs, and sizes are known
    # Up to 200 partitions Spark writes one file per source and worker, 3,840 in all; above, one file per source.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""The settings of a session for deployments, in addition to its master."""


class Slots:
    """The cores of a Spark that runs all workers at once; a Spark with fewer cores is refused."""

    def __init__(self, spark: SparkSession, workers: int) -> None:
        slots = _wait_for(spark, workers)
        if slots < workers:
            raise InputError(
                f"Spark has {slots} cores here and cannot run {workers} workers at once: "
                f"use --master 'local[{workers}]' or --workers {slots}"
            )
        self._spark, self._workers = spark, workers
        self._used = -math.inf

    def start(self) -> None:
        """Start a Python worker per slot. Does it twice, because some tasks end before the last worker has started."""
        for _ in range(2):
            self._hold()

    def ready(self) -> None:
        """Make sure that Python workers run; call it before each run, because Spark ends those idle for a minute."""
        if time.monotonic() - self._used > _IDLE:
            self._hold()
        self._used = time.monotonic()

    def _hold(self) -> None:
        self._spark.range(0, self._workers, 1, self._workers).mapInArrow(_hold, "id bigint").collect()
        self._used = time.monotonic()


def master_of(spark: SparkSession) -> str:
    """Return the address of the master of a classic Spark."""
    return str(spark.sparkContext.master)


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks a classic Spark runs at once."""
    return int(spark.sparkContext.defaultParallelism)


def _wait_for(spark: SparkSession, workers: int) -> int:
    """Wait until there are enough cores, and return their number: executors of a cluster register one by one."""
    end = time.monotonic() + (0 if is_local(master_of(spark)) else _PATIENCE)
    while cores_of(spark) < workers and time.monotonic() < end:
        time.sleep(0.2)
    return cores_of(spark)


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER)
    yield from batches


# The messages of a deployment: at their sources before the clock starts, and compared with the merged result.
#
# Message i is at source i mod sources. A fast wrong answer is worth nothing, so the result of every run is checked.


class WrongResultError(KeyspreadError):
    """The workers' counts differ from what was sent."""


@contextmanager
def messages_at_sources(spark: SparkSession, setup: Setup, skew: float, messages: int) -> Iterator[DataFrame]:
    """Yield the messages (id, key) in memory: one input partition per source, each in the order of the stream.

    To get a shorter stream, filter by `id`: the messages and their sources stay the same.
    """
    sources = spark.range(0, setup.sources, 1, setup.sources)
    draw = _drawing(setup.stream(skew, messages), setup.sources)
    messages_by_source = sources.mapInArrow(draw, "id bigint, key bigint").persist()
    try:
        messages_by_source.count()
        yield messages_by_source
    finally:
        messages_by_source.unpersist()


def _drawing(stream: ZipfStream, sources: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column(0).to_pylist():
                keys = stream.law().draw(0, stream.messages)[source::sources].astype(np.int64)
                ids = np.arange(source, stream.messages, sources)
                yield pa.record_batch({"id": pa.array(ids), "key": pa.array(keys)})

    return draw


def check_exact(stream: ZipfStream, counted: Mapping[int, int]) -> None:
    """Raise a WrongResultError if the counts per key are not those of the stream."""
    exact = np.bincount(stream.law().draw(0, stream.messages), minlength=stream.keys + 1)
    counts = np.zeros_like(exact)
    counts[list(counted)] = list(counted.values())
    if not np.array_equal(counts, exact):
        off = int(np.abs(counts - exact).sum())
        raise WrongResultError(
            f"the merged result is off by {off:,} of {stream.messages:,} messages: report this as a bug"
        )


# Emulated work per message: a fixed time, spent asleep, which needs no core. Runs inside Spark's Python workers.


_GRAIN = 0.002
"""Seconds ahead of the clock from which a sleep is worthwhile: shorter ones overshoot, and waking costs CPU."""


class Work:
    """Work on one message after the other: m messages take m times `seconds`, however much one sleep overshoots."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.time()

    def do(self, not_before: float = 0.0) -> float:
        """Work on the next message, not before it is sent at `not_before`; return the time when it was finished.

        The time of a message is owed, and slept once that is long enough.
        """
        self._until = max(self._until, not_before) + self._seconds
        now = time.time()
        if self._until - now > _GRAIN:
            time.sleep(self._until - now)
            now = time.time()
        return max(self._until, now)

    def end(self) -> float:
        """Sleep for the time still owed, and return the time."""
        time.sleep(max(0.0, self._until - time.time()))
        return time.time()


# Throughput: a batch from the first send to the last merged result, by the clocks of the driver and the workers.
#
# The clocks of several machines are assumed to agree within the accuracy of network time: milliseconds.


_REPORT = "worker int, began double, ended double, messages bigint, keys bigint, bytes bigint"
_REPORT_TYPE = pa.struct(
    [("worker", pa.int32()), ("began", pa.float64()), ("ended", pa.float64())]
    + [(name, pa.int64()) for name in ("messages", "keys", "bytes")]
)


def measure_throughput(
    rows: DataFrame, setup: Setup, skew: float, scheme: str, messages: int, repetition: int
) -> ThroughputRun:
    """Send the first `messages` of the rows that wait at their sources (source_messages.py), once."""
    sent = rows.where(F.col("id") < messages).select("key")
    begin = time.time()
    merged = _merged(spread(sent, "key", setup.workers, scheme), setup).collect()
    end = time.time()
    check_exact(setup.stream(skew, messages), {row.key: row.messages for row in merged})
    reports = [report for row in merged for report in row.report]
    first, last = min(report.began for report in reports), max(report.ended for report in reports)
    busy = np.zeros(setup.workers)
    busy[[report.worker for report in reports]] = [report.ended - report.began for report in reports]
    return ThroughputRun(
        skew=skew,
        scheme=scheme,
        repetition=repetition,
        messages=messages,
        seconds=end - begin,
        sending=first - begin,
        working=last - first,
        merging=end - last,
        late=max(report.began for report in reports) - first,
        busiest=float(busy.max()),
        median_busy=float(np.median(busy)),
        longest_queue=max(report.messages for report in reports),
        replicas=sum(report["keys"] for report in reports),
        state_bytes=sum(report.bytes for report in reports),
    )


def _merged(routed: DataFrame, setup: Setup) -> DataFrame:
    """Count on the workers and merge by key; the report of a worker travels with the first of its keys."""
    parts = routed.mapInArrow(
        _counting(setup.work_seconds), f"key bigint, messages bigint, report struct<{_columns(_REPORT)}>"
    )
    # `collect_list` ignores nulls.
    return parts.groupBy("key").agg(F.sum("messages").alias("messages"), F.collect_list("report").alias("report"))


def _columns(schema: str) -> str:
    return schema.replace(" ", ":").replace(",:", ",")


def _counting(seconds: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the worker: it works on one message at a time, and its state is a count per key."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        began = time.time()
        work = Work(seconds)
        state: Counter[int] = Counter()
        for batch in batches:
            for key in batch.column(0).to_pylist():
                state[key] += 1
                work.do()
        ended = work.end()
        if not state:
            return
        keys, counts = pa.array(list(state), pa.int64()), pa.array(list(state.values()), pa.int64())
        report: dict[str, Any] = {"worker": task.partitionId(), "began": began, "ended": ended}
        report |= {"messages": state.total(), "keys": len(state), "bytes": keys.nbytes + counts.nbytes}
        yield pa.record_batch(
            {"key": keys, "messages": counts, "report": pa.array([report] + [None] * (len(state) - 1), _REPORT_TYPE)}
        )

    return count


# Latency: every message carries the time when it was sent, and its worker records when it was finished.
#
# There are two ways to measure it. `measure_queues` starts all workers first, and each worker takes a message at the
# time it is sent, as in an engine with a queue before every worker; Spark routes and moves the messages ahead of that
# time. In `measure_micro_batches`, a streaming query does everything live, batch by batch.


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


# `deploy`: the paper's Q4 on Spark. It measures all schemes in turn and adds predictions.


def deploy(spark: SparkSession, setup: Setup, progress: Callable[[str], None] | None = None) -> Deployment:
    """Measure throughput and latency of every scheme on every stream; call `progress` with the name of each step.

    Schemes take turns within each round, so a disturbance of the machine affects all of them, and ratios within a round
    cancel it.

    >>> from keyspread.spark import session
    >>> setup = Setup(skews=(2.0,), schemes=("sg",), workers=1, sources=2, seconds=0.1, repetitions=1, arrivals=0)
    >>> [run.longest_queue for run in deploy(session(), setup).throughput]  # the only worker gets all 100 messages
    [100]
    """
    report = progress or (lambda step: None)
    slots = Slots(spark, setup.workers)
    report("predicting")
    predicted = {(skew, scheme): predict(setup, skew, scheme) for skew in setup.skews for scheme in setup.schemes}
    report("starting the workers")
    slots.start()
    throughput: list[ThroughputRun] = []
    latency: list[LatencyRun] = []
    for skew in setup.skews:
        messages = {scheme: setup.scaled(predicted[skew, scheme].share) for scheme in setup.schemes}
        with messages_at_sources(spark, setup, skew, max(setup.arriving, *messages.values())) as rows:
            if not throughput:  # the first run is not counted: the JVM still compiles
                report("warming up")
                longest = max(messages, key=lambda scheme: messages[scheme])
                measure_throughput(rows, setup, skew, longest, messages[longest], repetition=-1)
            for repetition in range(setup.repetitions):
                for scheme in setup.schemes:
                    report(f"throughput {scheme} {skew:g}")
                    slots.ready()
                    throughput.append(measure_throughput(rows, setup, skew, scheme, messages[scheme], repetition))
            for scheme in setup.schemes if setup.arriving else ():
                report(f"latency {scheme} {skew:g}")
                needed = max(run.sending + run.late for run in throughput if run.scheme == scheme)
                latency.append(measure_queues(rows, slots, setup, skew, scheme, head_start=1 + 1.5 * needed))
    for scheme in setup.schemes if setup.arriving else ():
        report(f"micro-batches {scheme}")
        latency.append(measure_micro_batches(spark, slots, setup, max(setup.skews), scheme))
    return Deployment(setup, tuple(throughput), tuple(latency), tuple(predicted.values()), master_of(spark))


def steps(setup: Setup) -> int:
    """Return how often `deploy` calls `progress`."""
    cells = len(setup.skews) * len(setup.schemes)
    return 3 + cells * setup.repetitions + (cells + len(setup.schemes) if setup.arriving else 0)
