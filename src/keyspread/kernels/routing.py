"""The loops over messages: hashes in, workers out. There is one loop per family of schemes, so that each compiles once.

Every loop routes message by message from the sender's state alone. So it does not matter how a stream is cut into
batches.

`out` has two uses in the loops over hot keys. Before the call, out[i] is the counter of message i if its key is hot,
else -1 (see `summary.observe`). After the call it is the worker.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.balance import Balance, add, least_loaded, precedes, words_for
from keyspread.kernels.compilation import Bits, Counts, Indices, Int, Keys, entry, part, prefetch
from keyspread.kernels.mixing import candidate

_ONE, _NONE = np.uint64(1), np.uint64(0)
EVERYONE = 0  # the row of candidates that holds all workers


class Identity(NamedTuple):
    """What distinguishes one sender from another."""

    salt: np.uint64  # from the seed: candidates depend on it
    start: int  # from seed and source: the worker that wins the first tie


class Candidates(NamedTuple):
    """The candidates of hot keys, one row of bits per key. A cache of what `candidate` returns: it can be dropped."""

    rows: Bits
    least: Counts  # no candidate of the row has a lower load
    owner: Keys  # the key that a row belongs to
    row_of: Indices  # counter -> row; valid if the row's owner is the counter's key
    used: Counts  # used[0] rows are in use, EVERYONE included
    draws: Indices  # a row holds F_0 … F_draws-1, where rows differ in length


_ROW_BYTES = 1 << 24
_NEAR_WORDS = 1 << 16  # 512 KiB of rows: more do not stay in the cache


def new_candidates(workers: int, capacity: int, most_rows: int) -> Candidates:
    """Make room for the candidates of up to `most_rows` hot keys (fewer if rows are long), and write EVERYONE."""
    words = words_for(workers)
    count = 1 + max(64, min(most_rows, _ROW_BYTES // (8 * words)))
    rows = np.zeros((count, words), np.uint64)
    everyone = np.arange(workers)
    np.bitwise_or.at(rows[EVERYONE], everyone >> 6, np.uint64(1) << (everyone & 63).astype(np.uint64))
    return Candidates(
        rows,
        np.zeros(count, np.int64),
        np.zeros(count, np.uint64),
        np.full(capacity, -1, np.int32),
        np.ones(1, np.int64),
        np.zeros(count, np.int32),
    )


def no_candidates() -> Candidates:
    """Make the candidates of a scheme that does not store any."""
    return new_candidates(1, 0, 0)


def clear_candidates(candidates: Candidates) -> None:
    """Drop all rows but EVERYONE. Needed when the number of choices changes."""
    candidates.row_of[:] = -1
    candidates.used[0] = 1


@part
def _least_of_two(loads: Counts, key: np.uint64, identity: Identity, start: Int) -> np.int64:
    """Return the less loaded of two candidates."""
    first = candidate(key, identity.salt, 0, loads.size)
    second = candidate(key, identity.salt, 1, loads.size)
    if loads[second] < loads[first]:
        return second
    if loads[second] == loads[first] and precedes(second, first, start):
        return second
    return first


@part
def least_of_few(loads: Counts, key: np.uint64, identity: Identity, start: Int, choices: Int) -> np.int64:
    """Return the least loaded of the candidates F_0 … F_choices-1.

    It looks at every candidate: for a few of them this is quicker than rows of bits.
    """
    best = candidate(key, identity.salt, 0, loads.size)
    for number in range(1, choices):
        worker = candidate(key, identity.salt, number, loads.size)
        if loads[worker] < loads[best] or (loads[worker] == loads[best] and precedes(worker, best, start)):
            best = worker
    return best


@part
def row_of_key(
    candidates: Candidates,
    counter: Int,
    key: np.uint64,
    identity: Identity,
    loads: Counts,
    choices: Int,
) -> np.int32:
    """Return the row with the candidates of a hot key; write it first if it does not exist."""
    row: np.int32 = candidates.row_of[counter]
    if row >= 0 and candidates.owner[row] == key:
        return row
    if candidates.used[0] == candidates.least.size:  # all rows are in use: drop all of them
        for other in range(candidates.row_of.size):
            candidates.row_of[other] = -1
        candidates.used[0] = 1
    row = np.int32(candidates.used[0])
    candidates.used[0] += 1
    candidates.row_of[counter] = row
    candidates.owner[row] = key
    for word in range(candidates.rows.shape[1]):
        candidates.rows[row, word] = _NONE
    least = loads[candidate(key, identity.salt, 0, loads.size)]
    for number in range(choices):
        worker = candidate(key, identity.salt, number, loads.size)
        candidates.rows[row, worker >> 6] |= _ONE << np.uint64(worker & 63)
        least = min(least, loads[worker])
    candidates.least[row] = least
    return row


@part
def _prefetch_rows(candidates: Candidates, out: Indices, i: Int, start: Int, workers: Int) -> None:
    """Start to load the rows of the messages after message i: those of many hot keys do not fit into the cache."""
    if i + 16 < out.size and out[i + 16] >= 0:
        prefetch(candidates.row_of, np.int64(out[i + 16]))
    if i + 8 < out.size and out[i + 8] >= 0:
        row = np.int64(candidates.row_of[out[i + 8]])
        if row >= 0:
            soon = start + 8 if start + 8 < workers else start + 8 - workers
            prefetch(candidates.rows.reshape(candidates.rows.size), row * candidates.rows.shape[1] + (soon >> 6))
            prefetch(candidates.least, row)
            prefetch(candidates.owner, row)


@entry
def route_head_to_anyone(
    keys: Keys, out: Indices, messages: int, identity: Identity, balance: Balance, candidates: Candidates
) -> None:
    """Route a hot key to the least loaded of all workers, and any other key to the less loaded of two."""
    workers = balance.loads.size
    start = (identity.start + messages) % workers
    least = candidates.least[EVERYONE]
    for i in range(keys.size):
        if out[i] >= 0:
            worker, least = least_loaded(balance, candidates.rows, EVERYONE, least, start)
            add(balance, worker, least)
        else:
            worker = _least_of_two(balance.loads, keys[i], identity, start)
            add(balance, worker, balance.loads[worker])
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    candidates.least[EVERYONE] = least


@entry
def route_head_to_row(
    keys: Keys,
    out: Indices,
    messages: int,
    identity: Identity,
    balance: Balance,
    candidates: Candidates,
    choices: int,
) -> None:
    """Route a hot key to the least loaded of its `choices` candidates, and any other key to the less loaded of two."""
    workers = balance.loads.size
    start = (identity.start + messages) % workers
    far = candidates.rows.size > _NEAR_WORDS
    for i in range(keys.size):
        if far:
            _prefetch_rows(candidates, out, i, start, workers)
        if out[i] >= 0:
            row = row_of_key(candidates, out[i], keys[i], identity, balance.loads, choices)
            worker, least = least_loaded(balance, candidates.rows, row, candidates.least[row], start)
            candidates.least[row] = least
            add(balance, worker, least)
        else:
            worker = _least_of_two(balance.loads, keys[i], identity, start)
            add(balance, worker, balance.loads[worker])
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker


@entry
def route_head_to_few(keys: Keys, out: Indices, messages: int, identity: Identity, loads: Counts, choices: int) -> None:
    """Route like `route_head_to_row`, for so few choices that it is quicker to look at each."""
    start = (identity.start + messages) % loads.size
    for i in range(keys.size):
        worker = least_of_few(loads, keys[i], identity, start, choices if out[i] >= 0 else 2)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker


@entry
def route_head_in_turn(keys: Keys, out: Indices, messages: int, identity: Identity, loads: Counts, turn: int) -> int:
    """Route hot messages to workers turn, turn + 1, …, and any other message to the less loaded of two.

    Return the worker whose turn is next.
    """
    start = (identity.start + messages) % loads.size
    for i in range(keys.size):
        if out[i] >= 0:
            worker: Int = turn
            turn = turn + 1 if turn + 1 < loads.size else 0
        else:
            worker = _least_of_two(loads, keys[i], identity, start)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
    return turn


@entry
def route_least_of_two(keys: Keys, out: Indices, messages: int, identity: Identity, loads: Counts) -> None:
    """Route every key to the less loaded of its two candidates."""
    start = (identity.start + messages) % loads.size
    for i in range(keys.size):
        worker = _least_of_two(loads, keys[i], identity, start)
        start = start + 1 if start + 1 < loads.size else 0
        loads[worker] += 1
        out[i] = worker


@entry
def route_by_key(keys: Keys, out: Indices, identity: Identity, loads: Counts) -> None:
    """Route every key to its first candidate."""
    for i in range(keys.size):
        worker = candidate(keys[i], identity.salt, 0, loads.size)
        loads[worker] += 1
        out[i] = worker
