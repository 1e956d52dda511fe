"""How many workers a hot key needs, how many that are in expectation, and what memory it costs.

The paper's Sec. 4. Shares and counts go in, numbers come out; nothing here knows a stream or a sender.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation.metrics import hot_from
from keyspread.kernels import choices as kernels

Shares = Sequence[float] | npt.NDArray[np.floating[Any]]


def find_choices(head_probabilities: Shares, workers: int, tolerance: float = 1e-4) -> int:
    """Give the least d for which every prefix of the head fits on its workers: 2 <= d <= workers (Prop. 4.1).

    `head_probabilities` are the hot keys' shares of the stream; the tail's mass is what they leave of 1. A result
    equal to `workers` means that no smaller d is enough: any worker will do, as in W-Choices. Without a head it is 2.

    >>> find_choices([0.3, 0.1, 0.05], workers=50)
    26
    >>> find_choices([], workers=50)
    2
    """
    workers = checks.whole_number("workers", workers)
    tolerance = checks.not_negative("tolerance", tolerance)
    return int(kernels.find_choices(np.cumsum(_shares(head_probabilities)), workers, tolerance))


def _shares(values: Shares) -> npt.NDArray[np.float64]:
    """Sort shares hottest first, after a check."""
    try:
        shares = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"head_probabilities must be numbers, got {values!r}") from None
    if shares.ndim != 1:
        raise InputError(f"head_probabilities must be one-dimensional, got {shares.ndim} dimensions")
    if shares.size and not (shares.min() >= 0 and shares.max() <= 1 and shares.sum() <= 1 + 1e-9):
        raise InputError(
            "head_probabilities must each be between 0 and 1 and sum to at most 1, "
            f"got {shares.size} from {shares.min():g} to {shares.max():g} with sum {shares.sum():g}"
        )
    return np.sort(shares)[::-1]


def expected_workers(workers: int, draws: float) -> float:
    """Give b_h = n - n((n-1)/n)^draws, the expected number of distinct workers met by so many uniform draws.

    For the h hottest keys with d choices each, draws = h * d.

    >>> round(expected_workers(100, 100), 2)
    63.4
    """
    workers = checks.whole_number("workers", workers)
    draws = checks.not_negative("draws", draws)
    if workers == 1:
        return float(draws > 0)
    return -workers * math.expm1(draws * math.log1p(-1.0 / workers))


def replica_model(counts: npt.ArrayLike, workers: int, scheme: str, **options: Any) -> float:
    """Give an upper bound of the replicas, distinct (worker, key) pairs, of keys with these counts.

    `counts` are messages per key and may be fractional. Options are those of `Sender` that matter here: threshold,
    tolerance, choices. For `planned` it bounds one batch: each pouring step finishes a key or fills a worker.

    >>> replica_model([1000, 10, 1], workers=50, scheme="partial-key")
    5.0
    >>> replica_model([1000, 10, 1], workers=50, scheme="shuffle")
    61.0
    """
    # Imported here because the schemes themselves ask find_choices.
    from keyspread.online.settings import Settings, default_threshold
    from keyspread.schemes import PLANNED, find_scheme

    try:
        counts = np.asarray(counts, np.float64)
    except (TypeError, ValueError):
        counts = np.array(math.nan)  # refused by the next line
    if counts.ndim != 1 or (counts.size and not (counts.min() >= 0 and np.isfinite(counts).all())):
        raise InputError("counts must be a one-dimensional array of numbers that are not negative")
    workers = checks.whole_number("workers", workers)
    total = counts.sum()
    if str(scheme).lower() == PLANNED:
        given = options.get("threshold")
        threshold = default_threshold(workers) if given is None else checks.share("threshold", given)
        head = counts >= hot_from(threshold, total)
        return float(
            np.minimum(counts[~head], 1).sum() + min(head.sum() + workers, np.minimum(counts[head], workers).sum())
        )
    rule = find_scheme(scheme)
    settings = Settings.of(rule, workers, **options)
    head = (counts >= hot_from(settings.threshold, total)) & rule.tracks_head
    hottest_first = np.sort(counts[head])[::-1]
    choices = rule.choices_of_each(settings, hottest_first / max(total, 1e-300))
    tail_choices = min(2, workers) if rule.tracks_head else rule.choices(settings, counts[:0])
    return float(np.minimum(hottest_first, choices).sum() + np.minimum(counts[~head], tail_choices).sum())
