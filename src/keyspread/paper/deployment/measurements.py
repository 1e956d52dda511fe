"""Measurements run by run, and their summary: medians, ranges, and ratios to `shuffle` in the same round.

All values are plain, so that a measurement made on a cluster can be stored and plotted elsewhere.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keyspread.errors import InputError
from keyspread.paper.deployment.setup import Prediction, Setup
from keyspread.paper.runs.queueing import Waiting

BASE = "shuffle"
QUEUES, MICRO_BATCHES = "queues", "micro-batches"
FORMAT = 1


@dataclass(frozen=True)
class ThroughputRun:
    """One batch from the first send to the last merged result: times in seconds, and the work of its workers."""

    skew: float
    scheme: str
    repetition: int
    messages: int
    seconds: float
    sending: float
    """Until the first worker began; includes counting for a scheme that plans."""
    working: float
    """From when the first worker began until the last one ended."""
    merging: float
    late: float
    """How long after the first worker the last one began: 0 on a cluster with one core per worker."""
    busiest: float
    median_busy: float
    longest_queue: int
    """Messages of the busiest worker: in a batch, all of them wait from the start."""
    replicas: int
    state_bytes: int

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def working_rate(self) -> float:
        """Messages per second while workers worked."""
        return self.messages / self.working


@dataclass(frozen=True)
class LatencyRun:
    """Messages sent at a steady rate, and how long they took."""

    kind: str
    """`queues` or `micro-batches`."""
    skew: float
    scheme: str
    messages: int
    waiting: Waiting
    busiest: float
    batches: int


@dataclass(frozen=True)
class Deployment:
    """A setup with all of its measurements and predictions."""

    setup: Setup
    throughput: tuple[ThroughputRun, ...]
    latency: tuple[LatencyRun, ...]
    predicted: tuple[Prediction, ...]
    where: str

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, ready for JSON, with the summary first."""
        return {
            "format": FORMAT,
            "where": self.where,
            "setup": self.setup.to_dict(),
            "summary": summary(self),
            "throughput": [asdict(run) for run in self.throughput],
            "latency": [asdict(run) for run in self.latency],
            "predicted": [asdict(model) for model in self.predicted],
        }

    @classmethod
    def from_dict(cls, values: Any) -> "Deployment":
        """Make a deployment from the result of `to_dict`; refuse anything else."""
        if isinstance(values, dict) and values.get("kind") == "realtime":
            raise InputError("was measured with --realtime, which has no throughput: measure without it")
        try:
            if values["format"] != FORMAT:
                raise InputError(f"has format {values['format']}, this version reads {FORMAT}: measure it again")
            return cls(
                Setup.from_dict(values["setup"]),
                tuple(ThroughputRun(**run) for run in values["throughput"]),
                tuple(LatencyRun(**{**run, "waiting": Waiting(**run["waiting"])}) for run in values["latency"]),
                tuple(
                    Prediction(**{**model, "waiting": model["waiting"] and Waiting(**model["waiting"])})
                    for model in values["predicted"]
                ),
                values["where"],
            )
        except (KeyError, TypeError) as problem:
            raise InputError(f"is not what keyspread bench deployment --json prints ({problem!r})") from None


MEDIANS = ("rate", "working_rate", "sending", "working", "merging")
OF_THE_MIDDLE_RUN = ("messages", "busiest", "median_busy", "longest_queue", "replicas", "state_bytes")


def summary(deployment: Deployment) -> list[dict[str, Any]]:
    """Return one row per skew and scheme: median throughput, its range, its ratio to `shuffle`, the prediction."""
    rows = []
    predicted = {(model.skew, model.scheme): model for model in deployment.predicted}
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
            row: dict[str, Any] = {"skew": skew, "scheme": scheme}
            row |= {name: statistics.median(getattr(run, name) for run in runs) for name in MEDIANS}
            row |= {name: getattr(middle, name) for name in OF_THE_MIDDLE_RUN}
            row |= {
                "rate_low": min(rates),
                "rate_high": max(rates),
                "ratio": statistics.median(ratios) if ratios else None,
                "ratio_low": min(ratios, default=None),
                "ratio_high": max(ratios, default=None),
                "predicted_rate": model.rate,
                "predicted_ratio": model.rate / best.rate if best else None,
            }
            rows.append(row)
    return rows


def _ratios(runs: Sequence[ThroughputRun], base: Sequence[ThroughputRun]) -> list[float]:
    """Divide by the rate of the same round: a disturbance of the machine affects both."""
    rounds = {run.repetition: run.rate for run in base}
    return [run.rate / rounds[run.repetition] for run in runs if run.repetition in rounds]
