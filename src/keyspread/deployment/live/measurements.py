"""What a live benchmark found: one run per stream, scheme and rate, each with the prediction of the model."""

from dataclasses import asdict, dataclass
from typing import Any

from keyspread.deployment.live.setup import LiveSetup
from keyspread.evaluation.queueing import Waiting

KIND = "realtime"


@dataclass(frozen=True)
class LiveRun:
    """One scheme at one rate; times in seconds."""

    skew: float
    scheme: str
    rate: float
    messages: int
    """Messages that count."""
    waiting: Waiting
    predicted: Waiting
    """By the model: queues of the workers only, with the same senders, keys and seconds."""
    in_use: float
    """Work of the busiest worker per second, in seconds: above 1 it cannot keep up."""
    busiest: float
    """The load of the busiest worker as a multiple of the even share."""
    growth: float
    """Seconds per second by which the latency of the busiest worker grew."""
    saturated: bool
    doubled: int
    late: float
    """Seconds by which the producer was behind at the end."""


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
            "runs": [asdict(run) for run in self.runs],
        }
