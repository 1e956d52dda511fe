"""Measures of the loads of workers: imbalance, skew score."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import checked_threshold, least_hot_count
from keyspread.errors import InputError
from keyspread.sender.registry import Kind, resolve
from keyspread.sender.settings import SenderSettings


def imbalance(loads: npt.NDArray[Any]) -> float:
    """Return I = largest share of a worker - 1/n: 0 is perfect, also without any load.

    >>> imbalance(np.array([50, 25, 25, 0]))
    0.25
    """
    total = loads.sum()
    return float(loads.max() / total - 1 / loads.size) if total else 0.0


def skew_score(loads: npt.NDArray[Any]) -> float:
    """Return the mean absolute deviation of the loads over their mean: 0 is perfect (Flink's data skew score).

    >>> skew_score(np.array([3, 1]))
    0.5
    """
    mean = loads.mean()
    return float(np.abs(loads - mean).mean() / mean) if mean else 0.0


# The memory that a scheme costs, from the counts of the keys alone (the paper's Sec. 4.2).


def replica_model(
    counts: npt.ArrayLike,
    workers: int,
    scheme: str,
    *,
    threshold: float | None = None,
    tolerance: float | None = None,
    choices: int | None = None,
) -> float:
    """Return an upper bound of the replicas, distinct (worker, key) pairs, of keys with these counts.

    For key, partial-key and shuffle the bound holds for any stream. For `planned` it holds for one batch: each step of
    the packing either finishes a key or fills a worker. The other schemes learn the hot keys as the stream goes on. For
    them the bound holds if every sender treats exactly the hot keys of the whole stream as hot. There are more replicas
    than that if a key is hot only for a while, or if many keys are just below the threshold: chance lifts them above it
    now and then.

    Args:
        counts: The messages of every key, which may be fractional.
        workers: The number of workers.
        scheme: The name of a scheme.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        tolerance: Of d-choices and per-key: the imbalance that they allow.
        choices: Of greedy: the number of workers per hot key.

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
    described = resolve(scheme)
    threshold = checked_threshold(threshold, workers)
    total = counts.sum()
    head = counts >= least_hot_count(threshold, total)
    if described.kind is Kind.PLANNED:
        described.require({"choices": choices})
        tail_replicas = np.minimum(counts[~head], 1).sum()
        return float(tail_replicas + min(head.sum() + workers, np.minimum(counts[head], workers).sum()))
    rule = described.rule
    if rule is None:
        raise InputError(f"there is no model of the replicas of {described.name}: use keyspread.simulate")
    options = described.require({"tolerance": tolerance, "choices": choices})
    settings = SenderSettings.of(rule, workers, threshold=threshold, **options)
    head &= rule.tracks_head
    hottest_first = np.sort(counts[head])[::-1]
    workers_of_each = rule.choices_of_each(settings, hottest_first / max(total, 1e-300))
    tail_choices = min(2, workers) if rule.tracks_head else rule.choices(settings, counts[:0])
    return float(np.minimum(hottest_first, workers_of_each).sum() + np.minimum(counts[~head], tail_choices).sum())


def _checked_counts(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        checked = np.asarray(counts, np.float64)
    except (TypeError, ValueError):
        checked = np.array(math.nan)  # refused by the next line
    if checked.ndim != 1 or (checked.size and not (checked.min() >= 0 and np.isfinite(checked).all())):
        raise InputError("counts must be a one-dimensional array of numbers that are not negative")
    return checked
