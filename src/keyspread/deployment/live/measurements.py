"""What a live benchmark found: one run per stream, scheme and rate, each with the prediction of the model."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.deployment.live.setup import LiveSetup
from keyspread.evaluation.queueing import Waiting, saturation

KIND = "realtime"
_GROWTH = 0.05
"""Seconds per second. A worker whose latency grows faster gets more than 1.05 of what it can do."""


@dataclass(frozen=True)
class Measured:
    """What came out of one rate, message by message."""

    rate: float
    latency: npt.NDArray[np.float64]
    """Seconds per message that counts, in the order of sending."""
    workers: npt.NDArray[np.int32]
    """The worker of each of them."""
    loads: npt.NDArray[np.int64]
    """Messages per worker, including those that do not count."""
    work: float
    """Seconds of work per message."""
    waiting: Waiting
    doubled: int = 0
    late: float = 0.0
    """Seconds by which the producer was behind at the end."""

    @property
    def in_use(self) -> float:
        """The work that the busiest worker gets per second, in seconds: above 1 it cannot keep up."""
        return float(self.loads.max() / self.loads.sum() * self.rate * self.work)

    @property
    def growth(self) -> float:
        """Seconds per second by which the latency of the busiest worker grows, from the first third to the last."""
        mine = np.flatnonzero(self.workers == np.argmax(self.loads))
        if mine.size < 3:
            return 0.0
        first, _, last = np.array_split(mine, 3)
        seconds = (np.median(last) - np.median(first)) / self.rate
        return float((np.median(self.latency[last]) - np.median(self.latency[first])) / seconds)

    @property
    def is_saturated(self) -> bool:
        """Whether the busiest worker cannot keep up: its queue grows as long as messages arrive."""
        return self.in_use >= 1 or self.growth > _GROWTH


@dataclass(frozen=True)
class LiveRun:
    """One scheme at one rate."""

    skew: float
    scheme: str
    measured: Measured
    predicted: Waiting
    """By the model: queues of the workers only, with the same senders, keys and seconds."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those of single messages."""
        at_rate = self.measured
        return {
            "skew": self.skew,
            "scheme": self.scheme,
            "rate": at_rate.rate,
            "messages": at_rate.latency.size,
            "waiting": asdict(at_rate.waiting),
            "predicted": asdict(self.predicted),
            "in_use": at_rate.in_use,
            "growth": at_rate.growth,
            "saturated": at_rate.is_saturated,
            "doubled": at_rate.doubled,
            "late": at_rate.late,
        }


@dataclass(frozen=True)
class Limit:
    """Where a scheme ends."""

    skew: float
    scheme: str
    holds: float | None
    """The highest rate that the busiest worker could keep up with; None if there was none."""
    saturated: float | None
    """The rate at which it could not; None if it was not reached."""
    predicted: float
    """By the model: the rate at which the busiest worker has work all the time."""

    @classmethod
    def of(cls, skew: float, scheme: str, measured: list[Measured], predicted: list[Measured]) -> "Limit":
        """Find the limit in the rates that were measured, and predict it from the loads of all rates."""
        loads = np.sum([rate.loads for rate in predicted], axis=0)
        return cls(
            skew=skew,
            scheme=scheme,
            holds=max((at.rate for at in measured if not at.is_saturated), default=None),
            saturated=next((at.rate for at in measured if at.is_saturated), None),
            predicted=saturation(loads, predicted[0].work),
        )


@dataclass(frozen=True)
class LiveDeployment:
    """A setup with all of its runs."""

    setup: LiveSetup
    runs: tuple[LiveRun, ...]
    limits: tuple[Limit, ...]
    where: str

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, ready for JSON."""
        return {
            "kind": KIND,
            "where": self.where,
            "setup": self.setup.to_dict(),
            "why_not_more_workers": self.setup.why_not_more,
            "limits": [asdict(limit) for limit in self.limits],
            "runs": [run.to_dict() for run in self.runs],
        }
