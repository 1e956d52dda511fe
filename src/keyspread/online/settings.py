"""What a sender is told, checked and completed: every default of keyspread is set here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keyspread import checks
from keyspread.errors import InputError
from keyspread.heavy_hitters import MOST_COUNTERS
from keyspread.threshold import checked_threshold

if TYPE_CHECKING:
    from keyspread.schemes.scheme import Scheme


@dataclass(frozen=True)
class Settings:
    """Checked parameters of one sender."""

    workers: int
    source: int
    seed: int
    threshold: float
    tolerance: float
    capacity: int
    fixed_choices: int | None
    half_life: int | str | None
    """Messages; "auto": by the change seen; None: nothing is forgotten."""
    capacities: tuple[float, ...] | None = None
    """Of the workers, as multiples of their mean; None: all are equal."""

    @classmethod
    def of(
        cls,
        scheme: "Scheme",
        workers: int,
        *,
        source: int = 0,
        seed: int = 0,
        threshold: float | None = None,
        tolerance: float = 1e-4,
        capacity: int | None = None,
        choices: int | None = None,
        half_life: float | str | None = None,
        capacities: Sequence[float] | None = None,
    ) -> "Settings":
        """Check the parameters and fill in what is left to us."""
        workers = checks.whole_number("workers", workers)
        threshold = checked_threshold(threshold, workers)
        if choices is None and scheme.needs_choices:
            raise InputError(f"scheme {scheme.name!r} needs choices, the number of workers a hot key may use")
        return cls(
            workers=workers,
            source=checks.whole_number("source", source, minimum=0, maximum=2**62),
            seed=checks.whole_number("seed", seed, minimum=0, maximum=2**63),
            threshold=threshold,
            tolerance=checks.not_negative("tolerance", tolerance),
            capacity=_capacity(capacity, threshold) if scheme.tracks_head else 0,
            fixed_choices=None if choices is None else checks.whole_number("choices", choices),
            half_life=_half_life(half_life),
            capacities=checks.capacities(capacities, workers),
        )


def _capacity(capacity: int | None, threshold: float) -> int:
    # A count may be too high by total / capacity. With 1 / threshold counters or fewer that alone reaches the
    # threshold, and every key looks hot; with twice as many, a hot key has at least half of it for sure.
    if 1 / threshold >= MOST_COUNTERS:
        raise InputError(f"threshold {threshold:g} needs more counters than the limit of {MOST_COUNTERS}; raise it")
    needed = math.floor(1 / threshold) + 1
    if capacity is None:
        capacity = max(needed, math.ceil(2 / threshold))
        if capacity > MOST_COUNTERS:
            raise InputError(
                f"threshold {threshold:g} needs {capacity} counters, over the limit of {MOST_COUNTERS}; raise it"
            )
    capacity = checks.whole_number("capacity", capacity, maximum=MOST_COUNTERS)
    if capacity < needed:
        raise InputError(
            f"capacity {capacity} is too small for threshold {threshold:g}: it needs at least {needed} counters "
            f"(the default is {max(needed, math.ceil(2 / threshold))})"
        )
    return capacity


def _half_life(half_life: float | str | None) -> int | str | None:
    if half_life is None or half_life == "auto":
        return half_life
    if isinstance(half_life, str):
        raise InputError(f"half_life must be a number of messages, 'auto' or None, got {half_life!r}")
    if isinstance(half_life, float) and half_life.is_integer():
        half_life = int(half_life)
    return checks.whole_number("half_life", half_life, maximum=2**62)
