"""What is measured of an assignment of messages to workers: imbalance, replicas, load of head and tail."""

from typing import Any

import numpy as np
import numpy.typing as npt

_MOST_CELLS = 1 << 30  # of the (key, worker) table: more are counted in several rounds


def imbalance(loads: npt.NDArray[Any]) -> float:
    """Give I = largest share of a worker - 1/n: 0 is perfect, and nothing has no imbalance.

    >>> imbalance(np.array([50, 25, 25, 0]))
    0.25
    """
    total = loads.sum()
    return float(loads.max() / total - 1 / loads.size) if total else 0.0


def hot_from(threshold: float, total: float) -> float:
    """Give the count from which a key's share of `total` is the threshold or more.

    A hair below the product, which rounding may push above: 1/75 of 525 is 7, not 7.000000000000001.
    """
    return threshold * total * (1 - 1e-12)


def skew_score(loads: npt.NDArray[Any]) -> float:
    """Give the mean absolute deviation of the loads over their mean: 0 is perfect (Flink's data skew score).

    >>> skew_score(np.array([3, 1]))
    0.5
    """
    mean = loads.mean()
    return float(np.abs(loads - mean).mean() / mean) if mean else 0.0


def window_ends(messages: int, windows: int) -> npt.NDArray[np.int64]:
    """Give the ends of windows with equal message counts (they differ by one at most); none is empty.

    >>> window_ends(10, 4).tolist()
    [2, 5, 7, 10]
    """
    windows = min(windows, messages)
    return np.arange(1, windows + 1, dtype=np.int64) * messages // max(1, windows)


def loads_by_window(
    assignment: npt.NDArray[np.int32], workers: int, ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Give the messages of each worker in each window: an array [window, worker]."""
    table = np.zeros((ends.size, workers), np.int64)
    begin = 0
    for window, end in enumerate(ends.tolist()):
        table[window] = np.bincount(assignment[begin:end], minlength=workers)
        begin = end
    return table


def workers_per_key(
    ids: npt.NDArray[Any], assignment: npt.NDArray[np.int32], keys: int, workers: int
) -> npt.NDArray[np.int64]:
    """Give the number of distinct workers of each key 0 … keys-1; their sum is the number of replicas.

    >>> workers_per_key(np.array([0, 0, 1]), np.array([3, 1, 3]), keys=2, workers=4).tolist()
    [2, 1]
    """
    counts = np.zeros(keys, np.int64)
    step = max(1, _MOST_CELLS // workers)
    for begin in range(0, keys, step):
        size = min(step, keys - begin)
        own = slice(None) if size == keys else (ids >= begin) & (ids < begin + size)
        seen = np.zeros(size * workers, np.bool_)
        seen[(ids[own].astype(np.int64) - begin) * workers + assignment[own]] = True
        counts[begin : begin + size] = seen.reshape(size, workers).sum(axis=1)
    return counts
