"""What was measured, run by run, and the same in summary: medians, spreads, and ratios to shuffling in the same round.

Plain values throughout: a measurement made on a cluster can be stored, and drawn elsewhere.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keyspread.deployment.prediction import Prediction
from keyspread.deployment.setup import Setup
from keyspread.errors import InputError
from keyspread.evaluation.queueing import Waiting

BASE = "shuffle"
QUEUES, MICRO_BATCHES = "queues", "micro-batches"
FORMAT = 1


@dataclass(frozen=True)
class ThroughputRun:
    """A batch from the first send to the last merged result, in seconds, and what its workers had to do."""

    skew: float
    scheme: str
    repetition: int
    messages: int
    seconds: float
    sending: float
    """Until the first worker began; where a batch is planned, it is counted first."""
    working: float
    """From when the first worker began until the last one ended."""
    merging: float
    late: float
    """How long after the first worker the last one began: 0 on a cluster with a core for each."""
    busiest: float
    median_busy: float
    idlest: float
    longest_queue: int
    """Messages that the busiest worker had before it: in a batch all of them wait from the start."""
    replicas: int
    most_replicas: int
    """Of one worker."""
    state_bytes: int

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def working_rate(self) -> float:
        """Messages a second while workers worked."""
        return self.messages / self.working


@dataclass(frozen=True)
class LatencyRun:
    """Messages at a steady rate, and how long each took."""

    kind: str
    """`queues` or `micro-batches`."""
    skew: float
    scheme: str
    messages: int
    rate: float
    seconds: float
    """From the first message sent to the last one finished."""
    waiting: Waiting
    busiest: float
    batches: int


@dataclass(frozen=True)
class Deployment:
    """All of a setup: measured, and predicted."""

    setup: Setup
    throughput: tuple[ThroughputRun, ...]
    latency: tuple[LatencyRun, ...]
    predicted: tuple[Prediction, ...]
    where: str

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain values, ready for JSON, with the summary first."""
        return {
            "format": FORMAT,
            "where": self.where,
            "setup": self.setup.to_dict(),
            "summary": summary(self),
            "throughput": [asdict(run) for run in self.throughput],
            "latency": [asdict(run) for run in self.latency],
            "predicted": [asdict(one) for one in self.predicted],
        }

    @classmethod
    def from_dict(cls, values: Any) -> "Deployment":
        """Take what `to_dict` gave; anything else is refused."""
        try:
            if values["format"] != FORMAT:
                raise InputError(f"is of format {values['format']}, this is {FORMAT}: measure it again")
            return cls(
                Setup.from_dict(values["setup"]),
                tuple(ThroughputRun(**run) for run in values["throughput"]),
                tuple(LatencyRun(**{**run, "waiting": Waiting(**run["waiting"])}) for run in values["latency"]),
                tuple(
                    Prediction(**{**one, "waiting": one["waiting"] and Waiting(**one["waiting"])})
                    for one in values["predicted"]
                ),
                values["where"],
            )
        except (KeyError, TypeError) as problem:
            raise InputError(f"is not what keyspread bench deployment --json prints ({problem!r})") from None


def summary(deployment: Deployment) -> list[dict[str, Any]]:
    """Give a row a skew and scheme: median throughput, its spread, its ratio to shuffling, what was predicted."""
    rows = []
    predicted = {(one.skew, one.scheme): one for one in deployment.predicted}
    for skew in deployment.setup.skews:
        by_scheme = {
            scheme: [run for run in deployment.throughput if (run.skew, run.scheme) == (skew, scheme)]
            for scheme in deployment.setup.schemes
        }
        best = predicted.get((skew, BASE))
        for scheme, runs in by_scheme.items():
            model = predicted[skew, scheme]
            middle = sorted(runs, key=lambda run: run.rate)[(len(runs) - 1) // 2]
            rates = [run.rate for run in runs]
            ratios = _ratios(runs, by_scheme.get(BASE, []))
            rows.append(
                {
                    "skew": skew,
                    "scheme": scheme,
                    "messages": middle.messages,
                    "rate": statistics.median(rates),
                    "rate_low": min(rates),
                    "rate_high": max(rates),
                    "ratio": statistics.median(ratios) if ratios else None,
                    "ratio_low": min(ratios, default=None),
                    "ratio_high": max(ratios, default=None),
                    "working_rate": statistics.median(run.working_rate for run in runs),
                    "predicted_rate": model.rate,
                    "predicted_ratio": model.rate / best.rate if best else None,
                    "sending": statistics.median(run.sending for run in runs),
                    "working": statistics.median(run.working for run in runs),
                    "merging": statistics.median(run.merging for run in runs),
                    "busiest": middle.busiest,
                    "median_busy": middle.median_busy,
                    "idlest": middle.idlest,
                    "longest_queue": middle.longest_queue,
                    "replicas": middle.replicas,
                    "most_replicas": middle.most_replicas,
                    "state_bytes": middle.state_bytes,
                    "sending_cpu": model.sending,
                }
            )
    return rows


def _ratios(runs: Sequence[ThroughputRun], base: Sequence[ThroughputRun]) -> list[float]:
    """Compare runs of the same round: what disturbs a machine for a while disturbs both."""
    rounds = {run.repetition: run.rate for run in base}
    return [run.rate / rounds[run.repetition] for run in runs if run.repetition in rounds]
