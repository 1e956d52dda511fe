"""The setup of a live benchmark: as many workers as Spark has slots for, and the reason if that is fewer than 80."""

import os
from dataclasses import asdict, dataclass
from typing import Any

from keyspread import checks
from keyspread.deployment.live.load import Load
from keyspread.deployment.setup import Setup, check_values
from keyspread.errors import InputError
from keyspread.schemes import online_scheme
from keyspread.spark.realtime.row_by_row import check_scheme

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
