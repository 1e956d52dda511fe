"""`deploy_live`: figures 13 and 14 record by record, at rising rates until the busiest worker saturates."""

from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from keyspread.deployment.live.latency import Measured, by_scheme, measure, model
from keyspread.deployment.live.load import Load
from keyspread.deployment.live.measurements import Limit, LiveDeployment, LiveRun
from keyspread.deployment.live.setup import LiveSetup
from keyspread.deployment.live.topics import Topics, live_topics
from keyspread.deployment.slots import master_of
from keyspread.errors import InputError
from keyspread.evaluation.queueing import saturation
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
                found = list(_until_saturated(measure(topics, by_scheme(scheme, setup.workers), setup.workers, load)))
                runs += [_run(load, scheme, *pair) for pair in zip(found, predicted, strict=False)]
                limits.append(_limit(load, scheme, found, predicted))
    return LiveDeployment(setup, tuple(runs), tuple(limits), f"{master_of(spark)}, Spark {spark.version}")


def steps(setup: LiveSetup) -> int:
    """Return how often `deploy_live` calls `progress`."""
    return 1 + len(setup.skews) * len(setup.schemes)


def _warm_up(topics: Topics, setup: LiveSetup) -> None:
    """Run a scheme that is not counted: the first query of a JVM is slow."""
    first = setup.load(setup.skews[0])
    short = Load(first.skew, first.rates[:1], _WARM_UP, first.milliseconds, first.sources, first.keys, first.seed)
    list(measure(topics, by_scheme("shuffle", setup.workers), setup.workers, short))


def _until_saturated(measured: Iterator[Measured]) -> Iterator[Measured]:
    for one in measured:
        yield one
        if one.is_saturated:
            break
    # The query stops here, and not when the iterator is collected as garbage.
    getattr(measured, "close", lambda: None)()


def _run(load: Load, scheme: str, found: Measured, predicted: Measured) -> LiveRun:
    return LiveRun(
        skew=load.skew,
        scheme=scheme,
        rate=found.rate,
        messages=found.latency.size,
        waiting=found.waiting,
        predicted=predicted.waiting,
        in_use=found.in_use,
        busiest=found.busiest,
        growth=found.growth,
        saturated=found.is_saturated,
        doubled=found.doubled,
        late=found.late,
    )


def _limit(load: Load, scheme: str, found: list[Measured], predicted: list[Measured]) -> Limit:
    kept_up = [one.rate for one in found if not one.is_saturated]
    loads = sum(one.loads for one in predicted)
    return Limit(
        skew=load.skew,
        scheme=scheme,
        holds=max(kept_up, default=None),
        saturated=next((one.rate for one in found if one.is_saturated), None),
        predicted=saturation(loads, load.work),  # type: ignore[arg-type]
    )
