"""How many workers a hot key needs, and how many distinct workers random draws reach (the paper's Sec. 4).

Shares go in, numbers come out: nothing here depends on a stream or a sender.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels import mixing

Shares = Sequence[float] | npt.NDArray[np.floating[Any]]


def find_choices(head_probabilities: Shares, workers: int, tolerance: float = 1e-4) -> int:
    """Return the smallest d for which every prefix of the head fits on its workers: 2 <= d <= workers (Prop. 4.1).

    `head_probabilities` are the hot keys' shares of the stream; the tail has the rest of 1. A result equal to
    `workers` means that no smaller d is enough, and that a hot key may use any worker, as in W-Choices. Without a
    head the result is 2. With one worker it is 1.

    Args:
        head_probabilities: The shares of the hot keys.
        workers: The number of workers.
        tolerance: The imbalance that is acceptable.

    Returns:
        The number of choices d, from 2 to `workers`; 1 for one worker.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> find_choices([0.3, 0.1, 0.05], workers=50)
    26
    >>> find_choices([], workers=50)
    2
    """
    workers = checks.whole_number("workers", workers)
    tolerance = checks.not_negative("tolerance", tolerance)
    return int(mixing.find_choices(np.cumsum(_shares(head_probabilities)), workers, tolerance))


def _shares(values: Shares) -> npt.NDArray[np.float64]:
    """Check the shares and return them hottest first."""
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
    """Return b_h = n - n((n-1)/n)^draws, the expected number of distinct workers that uniform draws reach.

    The h hottest keys with d choices each make h * d draws.

    Args:
        workers: The number of workers n.
        draws: How often a worker is drawn at random.

    Returns:
        The expected number of distinct workers.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> round(expected_workers(100, 100), 2)
    63.4
    """
    workers = checks.whole_number("workers", workers)
    draws = checks.not_negative("draws", draws)
    if workers == 1:
        return float(draws > 0)
    return -workers * math.expm1(draws * math.log1p(-1.0 / workers))
