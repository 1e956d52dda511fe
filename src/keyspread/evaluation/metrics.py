"""Measures of the loads of workers: imbalance, skew score."""

from typing import Any

import numpy as np
import numpy.typing as npt


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
