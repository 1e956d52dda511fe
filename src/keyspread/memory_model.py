"""The memory that a scheme costs, from the counts of the keys alone (the paper's Sec. 4.2)."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.online.settings import SenderSettings
from keyspread.schemes import Kind, resolve
from keyspread.threshold import checked_threshold, least_hot_count


def replica_model(counts: npt.ArrayLike, workers: int, scheme: str, **options: Any) -> float:
    """Return an upper bound of the replicas, distinct (worker, key) pairs, of keys with these counts.

    `counts` are messages per key and may be fractional. The options are those of the scheme; threshold, tolerance and
    choices matter here.

    For key, partial-key and shuffle the bound holds for any stream. For `planned` it holds for one batch: each step of
    the packing either finishes a key or fills a worker. The other schemes learn the hot keys as the stream goes on. For
    them the bound holds if every sender treats exactly the hot keys of the whole stream as hot. There are more replicas
    than that if a key is hot only for a while, or if many keys are just below the threshold: chance lifts them above it
    now and then.

    Args:
        counts: The messages of every key, which may be fractional.
        workers: The number of workers.
        scheme: The name of a scheme.
        options: Those of the scheme.

    Returns:
        The number of (worker, key) pairs, at most.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> replica_model([1000, 10, 1], workers=50, scheme="partial-key")
    5.0
    >>> replica_model([1000, 10, 1], workers=50, scheme="shuffle")
    61.0
    """
    counts = _checked_counts(counts)
    workers = checks.whole_number("workers", workers)
    found = resolve(scheme)
    taken = found.accept(options)
    total = counts.sum()
    if found.kind is Kind.PLANNED:
        head = counts >= least_hot_count(checked_threshold(taken.get("threshold"), workers), total)
        tail_replicas = np.minimum(counts[~head], 1).sum()
        return float(tail_replicas + min(head.sum() + workers, np.minimum(counts[head], workers).sum()))
    rule = found.rule
    if rule is None:
        raise InputError(f"there is no model of the replicas of {found.name}: use keyspread.simulate")
    settings = SenderSettings.of(rule, workers, **taken)
    head = (counts >= least_hot_count(settings.threshold, total)) & rule.tracks_head
    hottest_first = np.sort(counts[head])[::-1]
    choices = rule.choices_of_each(settings, hottest_first / max(total, 1e-300))
    tail_choices = min(2, workers) if rule.tracks_head else rule.choices(settings, counts[:0])
    return float(np.minimum(hottest_first, choices).sum() + np.minimum(counts[~head], tail_choices).sum())


def _checked_counts(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        checked = np.asarray(counts, np.float64)
    except (TypeError, ValueError):
        checked = np.array(math.nan)  # refused by the next line
    if checked.ndim != 1 or (checked.size and not (checked.min() >= 0 and np.isfinite(checked).all())):
        raise InputError("counts must be a one-dimensional array of numbers that are not negative")
    return checked
