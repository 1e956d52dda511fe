"""Workers as queues, first come first served: what a balance of loads is worth in messages a second and in waiting.

A model: no clock, no engine. Every message takes its worker the same time.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError

Times = npt.NDArray[np.float64]


def saturation(loads: npt.NDArray[np.int64], work: float) -> float:
    """Give the messages a second that workers with these loads can take: the busiest one has no more time.

    >>> saturation(np.array([50, 25, 25]), work=0.001)  # half of all messages on one worker: twice its own rate
    2000.0
    """
    loads = np.asarray(loads)
    if loads.sum() <= 0:
        raise InputError(f"loads must have a message at least, got {loads.tolist()}")
    return float(loads.sum() / loads.max() / checks.number("work", work))


def finish_times(sent: Times, workers: npt.NDArray[np.int32], work: float) -> Times:
    """Give when each message is finished, if a worker takes its messages in order and each takes it `work` seconds.

    `sent` must not decrease. Message k of a worker is finished at (k + 1)·work + the largest of sent_j - j·work over
    its messages j <= k: since the worker was idle last, it has worked without a pause.

    >>> finish_times(np.array([0.0, 0.1, 0.2, 9.0]), np.array([0, 0, 1, 0]), work=1.0).tolist()
    [1.0, 2.0, 1.2, 10.0]
    """
    finished = np.empty(sent.size)
    for own in _by_worker(workers):
        turn = np.arange(own.size) * work
        finished[own] = turn + work + np.maximum.accumulate(sent[own] - turn)
    return finished


@dataclass(frozen=True)
class Waiting:
    """How long messages took from being sent to being finished, in seconds, and how many stood in line."""

    highest_average: float
    """The largest of the workers' averages, as the paper has it."""
    p50: float
    p95: float
    p99: float
    longest_queue: int
    """The most messages that one worker had, sent and not finished."""


def waiting(sent: Times, finished: Times, workers: npt.NDArray[np.int32]) -> Waiting:
    """Summarise what every message carries: when it was sent, when it was finished, and by which worker.

    >>> waiting(np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 2.0]), np.array([0, 0, 1])).highest_average
    1.5
    """
    if not sent.size:
        raise InputError("there is no message to look at: send one at least")
    took = finished - sent
    averages, longest = [], 0
    for own in _by_worker(workers):
        averages.append(took[own].mean())
        # At the moment a message is sent: those sent up to then, without those finished by then.
        order = np.sort(sent[own])
        gone = np.searchsorted(np.sort(finished[own]), order, side="right")
        longest = max(longest, int((np.arange(1, own.size + 1) - gone).max()))
    p50, p95, p99 = np.percentile(took, [50, 95, 99]).tolist()
    return Waiting(float(max(averages)), p50, p95, p99, longest)


def _by_worker(workers: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int64]]:
    """Give the messages of each worker that has any, in order."""
    order = np.argsort(workers, kind="stable")
    borders = np.flatnonzero(np.diff(workers[order])) + 1
    return np.split(order, borders) if order.size else []
