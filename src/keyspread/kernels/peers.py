"""The loops of the peers. Plain loops over candidates: they are here to be compared, not to be quick."""

from typing import Any

import numpy as np

from keyspread.kernels.compilation import entry
from keyspread.kernels.mixing import candidate
from keyspread.kernels.summary import TOTAL, offer


@entry
def route_by_salt(keys: Any, salts: Any, out: Any, salt_of_keys: Any, loads: Any) -> None:
    """Send every message to the worker of (its key, its salt)."""
    for i in range(keys.size):
        worker = candidate(keys[i], salt_of_keys, salts[i], loads.size)
        loads[worker] += 1
        out[i] = worker


@entry
def route_by_fanout(keys: Any, hot: Any, out: Any, salt_of_keys: Any, loads: Any, fanout: Any, nonce: Any) -> Any:
    """Send messages of hot keys to the workers of (key, 0), (key, 1), … in turn, others to that of (key, 0)."""
    for i in range(keys.size):
        worker = candidate(keys[i], salt_of_keys, nonce if hot[i] else 0, loads.size)
        if hot[i]:
            nonce = nonce + 1 if nonce + 1 < fanout else 0
        loads[worker] += 1
        out[i] = worker
    return nonce


@entry
def route_by_recent_heat(
    keys: Any, out: Any, summary: Any, widest: Any, owner: Any, salt_of_keys: Any, loads: Any, threshold: Any, top: Any
) -> Any:
    """FISH within an epoch: count, classify, take the least loaded of the key's d workers; return the top count.

    A key with half the frequency of the hottest has half the workers, with a quarter a quarter …, never fewer than it
    had: `widest` is that number, `owner` the key it belongs to.
    """
    workers = loads.size
    for i in range(keys.size):
        counter = offer(summary, keys[i], 1, 1)
        count = summary.counts[counter]
        top = max(top, count)
        if owner[counter] != keys[i]:
            owner[counter] = keys[i]
            widest[counter] = min(2, workers)
        choices = min(2, workers)
        if count > threshold * summary.scalars[TOTAL]:
            choices = workers
            part = count
            while 2 * part <= top and choices > 2:
                part *= 2
                choices //= 2
            choices = max(choices, widest[counter])
            widest[counter] = choices
        first = candidate(keys[i], salt_of_keys, 0, workers)
        best = first
        for step in range(1, choices):  # its workers follow each other on a ring
            worker = first + step if first + step < workers else first + step - workers
            if loads[worker] < loads[best]:
                best = worker
        loads[best] += 1
        out[i] = np.int32(best)
    return top
