"""`deploy_live`: figures 13 and 14 record by record, at rising rates until the busiest worker saturates."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import SparkSession

from keyspread.deployment.live.latency import by_scheme, measure, model
from keyspread.deployment.live.measurements import Limit, LiveDeployment, LiveRun, Measured
from keyspread.deployment.live.setup import LiveSetup
from keyspread.deployment.live.topics import Topics, live_topics
from keyspread.deployment.slots import master_of
from keyspread.errors import InputError
from keyspread.spark.capabilities import has_realtime_exchange

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
