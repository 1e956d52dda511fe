"""`deploy`: the paper's Q4 on Spark. Everything measured scheme by scheme in turn, and predicted beside it."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from keyspread.deployment.measured import Deployment, LatencyRun, ThroughputRun
from keyspread.deployment.prediction import predict
from keyspread.deployment.setup import Setup
from keyspread.spark.deployed_latency import measure_micro_batches, measure_queues
from keyspread.spark.deployed_throughput import measure_throughput
from keyspread.spark.slots import check_slots, warm_up


def deploy(spark: SparkSession, setup: Setup, progress: Callable[[str], None] | None = None) -> Deployment:
    """Measure throughput and latency of every scheme on every stream; `progress` is told of each step.

    Rounds are interleaved: a disturbance of the machine meets all schemes, and ratios within a round cancel it.

    >>> from keyspread.spark import session
    >>> setup = Setup(skews=(2.0,), schemes=("sg",), workers=1, sources=2, seconds=0.1, repetitions=1, arrivals=0)
    >>> [run.longest_queue for run in deploy(session(), setup).throughput]  # one worker has all 100 messages
    [100]
    """
    tell = progress or (lambda step: None)
    check_slots(spark, setup.workers)
    tell("predicting")
    predicted = {(skew, scheme): predict(setup, skew, scheme) for skew in setup.skews for scheme in setup.schemes}
    tell("starting the workers")
    for _ in range(2):  # the first time some tasks end before the last Python worker is up
        warm_up(spark, setup.workers)
    throughput: list[ThroughputRun] = []
    for repetition in range(setup.repetitions):
        for skew in setup.skews:
            for scheme in setup.schemes:
                tell(f"throughput {scheme} {skew:g}")
                messages = setup.scaled(predicted[skew, scheme].share)
                throughput.append(measure_throughput(spark, setup, skew, scheme, messages, repetition))
    latency: list[LatencyRun] = []
    for skew in setup.skews if setup.arriving else ():
        for scheme in setup.schemes:
            tell(f"latency {scheme} {skew:g}")
            needed = max(run.sending + run.late for run in throughput if run.scheme == scheme)
            latency.append(measure_queues(spark, setup, skew, scheme, head_start=1 + 1.5 * needed))
            if skew == max(setup.skews):
                tell(f"micro-batches {scheme}")
                latency.append(measure_micro_batches(spark, setup, skew, scheme))
    where = str(spark.sparkContext.master)
    return Deployment(setup, tuple(throughput), tuple(latency), tuple(predicted.values()), where)


def steps(setup: Setup) -> int:
    """Say how often `deploy` tells of a step."""
    cells = len(setup.skews) * len(setup.schemes)
    return 2 + cells * setup.repetitions + (cells + len(setup.schemes) if setup.arriving else 0)
