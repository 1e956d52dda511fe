"""The threshold: the share of all messages from which a key is hot."""

from typing import Any

from keyspread import checks


def default_threshold(workers: int) -> float:
    """Return 1/(5n): two workers are enough for any key with a smaller share (Sec. 3.1)."""
    return 1 / (5 * workers)


def checked_threshold(threshold: Any, workers: int) -> float:
    """Return `threshold` as a share in (0, 1], or the default for this many workers if it is None.

    >>> checked_threshold(None, workers=10), checked_threshold(0.5, workers=10)
    (0.02, 0.5)
    """
    return default_threshold(workers) if threshold is None else checks.share("threshold", threshold)


def least_hot_count(threshold: float, total: float) -> float:
    """Return the smallest count of a hot key among `total` messages: its share is the threshold or more.

    The result is slightly smaller than the product, which rounding may make too large: 1/75 of 525 is 7, not
    7.000000000000001.
    """
    return threshold * total * (1 - 1e-12)
