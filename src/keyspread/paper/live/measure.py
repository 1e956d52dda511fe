"""The latency of one scheme at rising rates, from the producer to the output topic, and the model of the same."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.errors import InputError, KeyspreadError
from keyspread.paper.deployment.measure import master_of
from keyspread.paper.live.setup import Limit, LiveDeployment, LiveRun, LiveSetup, Load, Measured, Step
from keyspread.paper.live.topics import LONGER_THAN_A_RUN, Topics, live_topics
from keyspread.paper.runs.queueing import finish_times, waiting
from keyspread.spark._engine.capabilities import has_realtime_exchange
from keyspread.spark.spread import spread

Route = Callable[[DataFrame], DataFrame]
_PATIENCE = 60.0


class MissingResultsError(KeyspreadError):
    """Messages were lost, or are still waiting."""


def by_scheme(scheme: str, workers: int) -> Route:
    """Return a function that spreads by key, record by record."""
    return lambda rows: spread(rows, "key", workers, scheme, realtime=True)


def model(scheme: str, workers: int, load: Load) -> Iterator[Measured]:
    """Return what `measure` would find if only the queues of the workers took time, with the same senders and keys."""
    hashes = load.hashes()
    of_worker = np.empty(hashes.size, np.int32)
    for source in range(load.sources):
        of_worker[source :: load.sources] = ks.Sender(scheme, workers, source=source).route(
            hashes[source :: load.sources]
        )
    for step in load.steps():
        sent = np.arange(step.end - step.begin) / step.rate
        mine = of_worker[step.begin : step.end]
        finished = finish_times(sent, mine, load.work)
        yield _measured(step, load, workers, sent, finished, mine)


def measure(topics: Topics, route: Route, workers: int, load: Load) -> Iterator[Measured]:
    """Send messages at each rate in turn to one running query, and time each of them; the caller may stop early."""
    source, sink = topics.topic(load.sources), topics.topic(1)
    worker = work(load.milliseconds)(F.spark_partition_id()).cast("string")
    text = F.col("key").cast("string")
    rows = route(topics.read(source).withColumn("key", text if load.text else text.cast("bigint")))
    out = rows.select(text.alias("key"), F.concat_ws(",", F.col("value").cast("string"), worker).alias("value"))
    keys = load.drawn().tolist()
    batch = LONGER_THAN_A_RUN + 10 * load.seconds * len(load.rates)
    with topics.query(out, sink, batch) as running:
        for step in load.steps():
            late = topics.produce(source, keys[step.begin : step.end], load.sources, step.rate, step.begin)
            backlog = (step.end - step.begin) * load.work  # of one worker that gets everything
            topics.wait_for(sink, step.end, running, _PATIENCE + backlog)
            yield _arrived(topics, sink, step, load, workers, late)


def _arrived(topics: Topics, sink: str, step: Step, load: Load, workers: int, late: float) -> Measured:
    parts = F.split(F.col("value").cast("string"), ",")
    rows = (
        topics.messages(sink, step.begin)
        .select(F.col("timestamp").cast("double"), parts[0].cast("int"), parts[1].cast("double"), parts[2].cast("int"))
        .collect()
    )
    rows = sorted((row for row in rows if row[1] >= step.begin), key=lambda row: row[1])
    finished, number, sent, worker = (np.array([row[column] for row in rows]) for column in range(4))
    distinct, first = np.unique(number, return_index=True)
    if distinct.size < step.end - step.begin:
        raise MissingResultsError(
            f"{step.end - step.begin - distinct.size:,} of {step.end - step.begin:,} messages had no result in time: "
            "use a lower rate, or a machine that is less busy"
        )
    doubled = number.size - distinct.size
    return _measured(
        step, load, workers, sent[first], finished[first], worker[first].astype(np.int32), doubled=doubled, late=late
    )


def _measured(
    step: Step,
    load: Load,
    workers: int,
    sent: npt.NDArray[np.float64],
    finished: npt.NDArray[np.float64],
    worker: npt.NDArray[np.int32],
    **more: Any,
) -> Measured:
    counted = slice(step.counted - step.begin, None)
    return Measured(
        rate=step.rate,
        latency=(finished - sent)[counted],
        workers=worker[counted],
        loads=np.bincount(worker, minlength=workers),
        work=load.work,
        waiting=waiting(sent[counted], finished[counted], worker[counted]),
        **more,
    )


def work(milliseconds: float) -> Callable[..., Any]:
    """Return a function of a column that takes so long per row, as a worker's own work would, and returns it."""

    def sleep(value: Any) -> Any:
        time.sleep(milliseconds / 1000)
        return value

    return F.udf(sleep, "int", useArrow=False).asNondeterministic()


# `deploy_live`: figures 13 and 14 record by record, at rising rates until the busiest worker saturates.


_WARM_UP = 2.0  # seconds


def check_engine(spark: SparkSession) -> None:
    """Refuse a Spark that cannot exchange rows in real-time mode."""
    if not has_realtime_exchange(spark):
        raise InputError(
            f"--realtime needs a Spark that exchanges rows in real-time mode, from 4.3 on, got {spark.version}: "
            "leave it out, or install pyspark 4.3"
        )


def deploy_live(
    spark: SparkSession, brokers: str, setup: LiveSetup, progress: Callable[[str], None] | None = None
) -> LiveDeployment:
    """Measure the latency of every scheme on every stream; call `progress` with the name of each step.

    Needs the settings of `realtime_settings` and Kafka's connector. Topics are created at the broker, and deleted.
    """
    report = progress or (lambda step: None)
    runs: list[LiveRun] = []
    limits: list[Limit] = []
    with live_topics(spark, brokers) as topics:
        report("warming up")
        topics.check_clock()
        _warm_up(topics, setup)
        for skew in setup.skews:
            load = setup.load(skew)
            for scheme in setup.schemes:
                report(f"{scheme} {skew:g}")
                predicted = list(model(scheme, setup.workers, load))
                route = by_scheme(scheme, setup.workers)
                measured = list(_until_saturated(measure(topics, route, setup.workers, load)))
                runs += [
                    LiveRun(skew, scheme, at_rate, expected.waiting)
                    for at_rate, expected in zip(measured, predicted, strict=False)  # fewer, if it saturated
                ]
                limits.append(Limit.of(skew, scheme, measured, predicted))
    return LiveDeployment(setup, tuple(runs), tuple(limits), f"{master_of(spark)}, Spark {spark.version}")


def steps(setup: LiveSetup) -> int:
    """Return how often `deploy_live` calls `progress`."""
    return 1 + len(setup.skews) * len(setup.schemes)


def _warm_up(topics: Topics, setup: LiveSetup) -> None:
    """Run a scheme that is not counted: the first query of a JVM is slow."""
    first = setup.load(setup.skews[0])
    short = replace(first, rates=first.rates[:1], seconds=_WARM_UP)
    list(measure(topics, by_scheme("shuffle", setup.workers), setup.workers, short))


def _until_saturated(measured: Iterator[Measured]) -> Iterator[Measured]:
    for at_rate in measured:
        yield at_rate
        if at_rate.is_saturated:
            break
    # The query stops here, and not when the iterator is collected as garbage.
    getattr(measured, "close", lambda: None)()
