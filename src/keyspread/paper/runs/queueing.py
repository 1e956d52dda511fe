"""Workers as first-come-first-served queues: what balanced loads are worth in messages per second and in latency.

This is a model, without a clock or an engine. Every message takes its worker the same time.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError

Times = npt.NDArray[np.float64]


def saturation(loads: npt.NDArray[np.int64], work: float) -> float:
    """Return the messages per second that workers with these loads can process: the busiest one is saturated first.

    >>> saturation(np.array([50, 25, 25]), work=0.001)  # half of all messages on one worker: twice its own rate
    2000.0
    """
    loads = np.asarray(loads)
    if loads.sum() <= 0:
        raise InputError(f"loads must have at least one message, got {loads.tolist()}")
    return float(loads.sum() / loads.max() / checks.number("work", work))


def finish_times(sent: Times, workers: npt.NDArray[np.int32], work: float) -> Times:
    """Return when each message is finished, if a worker processes its messages in order, `work` seconds each.

    `sent` must not decrease. Message k of a worker is finished at (k + 1)·work + the largest of sent_j - j·work over
    its messages j <= k: the largest belongs to the message since which the worker has not been idle.

    >>> finish_times(np.array([0.0, 0.1, 0.2, 9.0]), np.array([0, 0, 1, 0]), work=1.0).tolist()
    [1.0, 2.0, 1.2, 10.0]
    """
    finished = np.empty(sent.size)
    for messages in _by_worker(workers):
        busy = np.arange(messages.size) * work
        finished[messages] = busy + work + np.maximum.accumulate(sent[messages] - busy)
    return finished


@dataclass(frozen=True)
class Waiting:
    """The time from sending a message to finishing it, in seconds, and the longest queue."""

    highest_average: float
    """The largest of the workers' averages, as in the paper."""
    p50: float
    """The median over all messages."""
    p95: float
    """The 95th percentile."""
    p99: float
    """The 99th percentile."""
    longest_queue: int
    """The largest number of messages that one worker had, sent and not finished."""


def waiting(sent: Times, finished: Times, workers: npt.NDArray[np.int32]) -> Waiting:
    """Summarise the latencies, from the time each message was sent, the time it was finished, and its worker.

    >>> waiting(np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 2.0]), np.array([0, 0, 1])).highest_average
    1.5
    """
    if not sent.size:
        raise InputError("there is no message: send at least one")
    latency = finished - sent
    averages, longest = [], 0
    for messages in _by_worker(workers):
        averages.append(latency[messages].mean())
        # The queue when a message is sent: all messages sent by then, minus those finished by then.
        order = np.sort(sent[messages])
        done = np.searchsorted(np.sort(finished[messages]), order, side="right")
        longest = max(longest, int((np.arange(1, messages.size + 1) - done).max()))
    p50, p95, p99 = np.percentile(latency, [50, 95, 99]).tolist()
    return Waiting(float(max(averages)), p50, p95, p99, longest)


def _by_worker(workers: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int64]]:
    """Return the messages of each worker that has any, in order."""
    order = np.argsort(workers, kind="stable")
    borders = np.flatnonzero(np.diff(workers[order])) + 1
    return np.split(order, borders) if order.size else []
