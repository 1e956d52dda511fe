"""`deploy`: the paper's Q4 on Spark. It measures all schemes in turn and adds predictions."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from keyspread.deployment.latency import measure_micro_batches, measure_queues
from keyspread.deployment.measurements import Deployment, LatencyRun, ThroughputRun
from keyspread.deployment.prediction import predict
from keyspread.deployment.setup import Setup
from keyspread.deployment.slots import Slots, master_of
from keyspread.deployment.source_messages import messages_at_sources
from keyspread.deployment.throughput import measure_throughput


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
