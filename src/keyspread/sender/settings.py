"""The settings of senders: those that a caller chooses, and those of one sender, checked and complete.

Defaults are set here; the threshold's is in `checks.py`.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.heavy_hitters import MOST_COUNTERS

TOLERANCE = 1e-4


class _Rule(Protocol):
    """The part of a scheme that its settings depend on."""

    @property
    def name(self) -> str: ...
    @property
    def tracks_head(self) -> bool: ...
    @property
    def needs_choices(self) -> bool: ...


@dataclass(frozen=True)
class Settings:
    """What is chosen for the senders of an online scheme: `spread(…, sender=Settings(seed=7))`.

    It may be used for several schemes: one that has no use for a value ignores it. A scheme checks the values that it
    is used with, together with the number of workers and the threshold.

    >>> Settings(half_life="auto")
    Settings(seed=0, counters=None, choices=None, half_life='auto')
    """

    seed: int = 0
    """The seed: together with the key it decides the candidates of a key."""
    counters: int | None = None
    """The number of keys that are counted to find hot ones. Default: 2/threshold."""
    choices: int | None = None
    """The number of workers that a hot key may use with `greedy`."""
    half_life: float | str | None = None
    """Messages after which counts and loads are halved; "auto": old counts lose weight when the hot keys change, and
    only then; None (the default): nothing is forgotten."""


@dataclass(frozen=True)
class SenderSettings:
    """The settings of one sender: every value is checked, and every default is filled in.

    `Sender.settings` returns them.

    >>> from keyspread import Sender
    >>> settings = Sender("d-choices", workers=100).settings
    >>> settings.threshold, settings.counters, settings.tolerance
    (0.002, 1000, 0.0001)
    """

    workers: int
    """The number of workers."""
    source: int
    """The number of the sender: it decides ties and where a round robin starts, never the candidates of a key."""
    seed: int
    """The seed: together with the key it decides the candidates of a key."""
    threshold: float
    """The minimum share of a hot key. Default: 1/(5·workers)."""
    tolerance: float
    """The imbalance that D-Choices and per-key allow (the paper's epsilon). Default: 1e-4."""
    counters: int
    """The number of keys that are counted to find hot ones. Default: 2/threshold; 0 if the scheme tracks no head."""
    fixed_choices: int | None
    """The number of workers that a hot key may use with `greedy`; other schemes ignore it."""
    half_life: int | str | None
    """Messages after which counts and loads are halved; "auto": old counts lose weight when the hot keys change, and
    only then; None (the default): nothing is forgotten."""

    @classmethod
    def of(
        cls,
        scheme: _Rule,
        workers: int,
        *,
        source: int = 0,
        seed: int = 0,
        threshold: float | None = None,
        tolerance: float = TOLERANCE,
        counters: int | None = None,
        choices: int | None = None,
        half_life: float | str | None = None,
    ) -> "SenderSettings":
        """Check the parameters and fill in the defaults."""
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
            counters=_checked_counters(counters, threshold) if scheme.tracks_head else 0,
            fixed_choices=None if choices is None else checks.whole_number("choices", choices),
            half_life=_checked_half_life(half_life),
        )


def _checked_counters(counters: int | None, threshold: float) -> int:
    # A count may be too high by total / counters. With 1 / threshold counters or fewer, that error alone reaches the
    # threshold and every key looks hot. With twice as many, at least half of a hot key's count is certain.
    if 1 / threshold >= MOST_COUNTERS:
        raise InputError(f"threshold {threshold:g} needs more counters than the limit of {MOST_COUNTERS}; raise it")
    needed = math.floor(1 / threshold) + 1
    default = max(needed, math.ceil(2 / threshold))
    if counters is None:
        if default > MOST_COUNTERS:
            raise InputError(
                f"threshold {threshold:g} needs {default} counters, over the limit of {MOST_COUNTERS}; raise it"
            )
        return default
    counters = checks.whole_number("counters", counters, maximum=MOST_COUNTERS)
    if counters < needed:
        raise InputError(
            f"counters {counters} is too small for threshold {threshold:g}: it needs at least {needed} "
            f"(the default is {default})"
        )
    return counters


def _checked_half_life(half_life: float | str | None) -> int | str | None:
    if half_life is None:
        return None
    if isinstance(half_life, str):
        if half_life == "auto":
            return half_life
        raise InputError(f"half_life must be a number of messages, 'auto' or None, got {half_life!r}")
    if isinstance(half_life, float) and half_life.is_integer():
        half_life = int(half_life)
    return checks.whole_number("half_life", half_life, maximum=2**62)
