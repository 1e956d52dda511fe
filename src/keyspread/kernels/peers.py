"""The loops of the peers (see `keyspread.peers`). They look at every candidate: they are here to be compared with."""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.compilation import Counts, Flags, Indices, Keys, entry
from keyspread.kernels.mixing import candidate
from keyspread.kernels.summary import TOTAL, Summary, offer


class Widths(NamedTuple):
    """How many workers the keys of FISH have, one entry per counter."""

    widest: Counts  # the largest number so far
    owner: Keys  # the key that it belongs to


def new_widths(capacity: int, workers: int) -> Widths:
    """Make the widths of keys that have not been seen: two workers, as for any cold key."""
    return Widths(np.full(capacity, min(2, workers), np.int64), np.zeros(capacity, np.uint64))


@entry
def route_by_salt(keys: Keys, salts: Counts, out: Indices, hash_salt: np.uint64, loads: Counts) -> None:
    """Route every message to the worker of (its key, its salt)."""
    for i in range(keys.size):
        worker = candidate(keys[i], hash_salt, salts[i], loads.size)
        loads[worker] += 1
        out[i] = worker


@entry
def route_by_fanout(
    keys: Keys, hot: Flags, out: Indices, hash_salt: np.uint64, loads: Counts, fanout: int, nonce: int
) -> int:
    """Route messages of hot keys to the workers of (key, nonce), others to the worker of (key, 0).

    The nonce goes up by one with every hot message, from fanout - 1 back to 0. Return the next nonce.
    """
    for i in range(keys.size):
        worker = candidate(keys[i], hash_salt, nonce if hot[i] else 0, loads.size)
        if hot[i]:
            nonce = nonce + 1 if nonce + 1 < fanout else 0
        loads[worker] += 1
        out[i] = worker
    return nonce


@entry
def route_by_recent_counts(
    keys: Keys,
    out: Indices,
    summary: Summary,
    widths: Widths,
    hash_salt: np.uint64,
    loads: Counts,
    threshold: float,
    top: int,
) -> int:
    """Route the messages of one epoch of FISH to the least loaded of each key's workers; return the largest count.

    `top` is the largest count so far. A key with half of it has half of the workers, a key with a quarter has a
    quarter, but never fewer than it had.
    """
    workers = loads.size
    for i in range(keys.size):
        counter = offer(summary, keys[i], 1, 1)
        count = summary.counts[counter]
        top = max(top, count)
        if widths.owner[counter] != keys[i]:
            widths.owner[counter] = keys[i]
            widths.widest[counter] = min(2, workers)
        choices = min(2, workers)
        if count > threshold * summary.scalars[TOTAL]:
            # count 30, top 100, 16 workers: 30 can be doubled once up to 100, so 16 is halved once: 8 workers
            choices = workers
            part = count
            while 2 * part <= top and choices > 2:
                part *= 2
                choices //= 2
            choices = max(choices, widths.widest[counter])
            widths.widest[counter] = choices
        first = candidate(keys[i], hash_salt, 0, workers)
        best = first
        for step in range(1, choices):  # its workers are neighbours on a ring
            worker = first + step if first + step < workers else first + step - workers
            if loads[worker] < loads[best]:
                best = worker
        loads[best] += 1
        out[i] = np.int32(best)
    return top
