"""The messages of a live benchmark: Zipf keys, sent at one rate after the other."""

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.paper.deployment.setup import Setup, check_values
from keyspread.paper.runs.queueing import Waiting, saturation
from keyspread.sender.registry import online_scheme
from keyspread.spark.realtime.records import check_scheme
from keyspread.streams import ZipfStream

_FIRST, _LATER = 6.0, 2.0  # tasks start and the JVM compiles; later on, queues fill


@dataclass(frozen=True)
class Step:
    """Messages begin … end - 1, at one rate; those before `counted` do not count."""

    rate: float
    begin: int
    counted: int
    end: int


@dataclass(frozen=True)
class Load:
    """Messages at rising rates; the work on each of them takes the same time."""

    skew: float
    rates: tuple[float, ...]
    """Messages per second. All messages of a rate are finished before the next one starts."""
    seconds: float
    """Seconds per rate that count, after a few that do not."""
    milliseconds: float
    """Work per message."""
    sources: int = 4
    keys: int = 10_000
    text: bool = False
    """Keys are strings instead of numbers, which changes their hashes and so their workers."""

    @property
    def work(self) -> float:
        """Seconds of work per message."""
        return self.milliseconds / 1000

    def steps(self) -> Iterator[Step]:
        """Return the messages of each rate.

        >>> [(step.begin, step.counted, step.end) for step in Load(2.0, (10, 20), 5, 1).steps()]
        [(0, 60, 110), (110, 150, 250)]
        """
        begin = 0
        for rate in self.rates:
            counted = begin + math.ceil(rate * (_LATER if begin else _FIRST))
            end = counted + max(1, round(rate * self.seconds))
            yield Step(rate, begin, counted, end)
            begin = end

    def drawn(self) -> npt.NDArray[np.int32]:
        """Return the keys of all messages."""
        messages = list(self.steps())[-1].end
        return ZipfStream(self.skew, self.keys, messages).law().draw(0, messages)

    def hashes(self) -> npt.NDArray[np.int64]:
        """Return the hashes of the keys of all messages."""
        keys = self.drawn()
        return hash_keys([str(key) for key in keys.tolist()] if self.text else keys.astype(np.int64))


# The setup of a live benchmark: as many workers as Spark has slots for, and the reason if that is fewer than 80.


SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices", "per-key")
PAPER_WORKERS, PAPER_SENDERS = Setup.workers, Setup.sources
SLOTS_PER_CORE = 8
"""Tasks per core, most of which wait; each has a Python process, which costs CPU time for every message."""
_READER = 1  # a slot for the job that reads the results while the query runs
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class LiveSetup:
    """Zipf messages through a Kafka broker to `workers` by several schemes, at rising rates."""

    workers: int
    sources: int
    slots: int
    """Tasks that Spark runs at once."""
    skews: tuple[float, ...] = (2.0,)
    schemes: tuple[str, ...] = SCHEMES
    milliseconds: float = 20.0
    """Work per message, by waiting. The default is more than the paper's 1 ms, so that workers are the limit."""
    rates: tuple[float, ...] = ()
    """Messages per second; by default 10, 25, 50, 75 and 100 % of what perfectly even workers can do."""
    seconds: float = 6.0
    """Seconds per rate that count."""
    keys: int = Setup.keys

    def __post_init__(self) -> None:
        """Refuse what cannot run, replace aliases of schemes by their names, and fill in the rates."""
        check_values(self.skews, self.schemes)
        for scheme in self.schemes:
            check_scheme(scheme)
        object.__setattr__(self, "schemes", tuple(online_scheme(name).name for name in self.schemes))
        for name in ("workers", "sources"):
            checks.whole_number(name, getattr(self, name))
        for name, option in (("milliseconds", "milliseconds"), ("seconds", "arrivals")):
            if checks.not_negative(name, getattr(self, name)) == 0:
                raise InputError(f"{option} must be above 0, got 0")
        rates = self.rates or tuple(round(share * self.best_rate, 1) for share in _SHARES)
        if any(checks.number("rate", rate) <= 0 for rate in rates) or list(rates) != sorted(set(rates)):
            raise InputError(f"rates must be above 0 and rising, got {', '.join(f'{rate:g}' for rate in rates)}")
        checks.not_negative("rate", rates[-1])
        object.__setattr__(self, "rates", rates)
        slots = needed(self.workers, self.sources)
        if slots > self.slots:
            raise InputError(
                f"Spark has {self.slots} slots, and all tasks of a real-time query run at once: {self.sources} "
                f"senders, {self.workers} workers and a reader of the results need {slots}: "
                "use fewer --workers or --senders, or a Spark with more slots"
            )

    @property
    def best_rate(self) -> float:
        """Messages per second that perfectly even workers can process."""
        return self.workers / self.milliseconds * 1000

    @property
    def why_not_more(self) -> str:
        """Why there are fewer workers than in the paper; empty if there are not."""
        if self.workers >= PAPER_WORKERS:
            return ""
        return (
            f"{self.workers} workers, not the paper's {PAPER_WORKERS}: all tasks of a real-time query run at once, "
            f"each in a slot with a Python process. {PAPER_SENDERS} senders, {PAPER_WORKERS} workers and a reader of "
            f"the results need {needed(PAPER_WORKERS, PAPER_SENDERS)} slots; this Spark has {self.slots}."
        )

    def load(self, skew: float) -> Load:
        """Return the messages of one stream."""
        return Load(skew, self.rates, self.seconds, self.milliseconds, self.sources, self.keys)

    def to_dict(self) -> dict[str, Any]:
        """Return the setup as plain values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def needed(workers: int, senders: int) -> int:
    """Return how many slots a query needs."""
    return workers + senders + _READER


def slots_here() -> int:
    """Return how many slots a Spark on this machine should have: enough for the paper's setup, if there are cores."""
    return min(needed(PAPER_WORKERS, PAPER_SENDERS), SLOTS_PER_CORE * (os.cpu_count() or 1))


def fitting(slots: int, workers: int | None, senders: int | None) -> tuple[int, int]:
    """Return workers and senders: those that were asked for, and as many as fit for those that were not.

    >>> fitting(16, None, None), fitting(16, None, 2), fitting(129, None, None)
    ((11, 4), (13, 2), (80, 48))
    """
    if senders is None:
        enough = slots >= needed(PAPER_WORKERS, PAPER_SENDERS)
        left = slots // 4 if workers is None and not enough else slots - _READER - (workers or PAPER_WORKERS)
        senders = max(1, min(PAPER_SENDERS, left))
    if workers is None:
        workers = max(1, min(PAPER_WORKERS, slots - _READER - senders))
    return workers, senders


# What a live benchmark found: one run per stream, scheme and rate, each with the prediction of the model.


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
