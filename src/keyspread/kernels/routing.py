"""The loops over messages: hashes in, workers out. One a family of schemes, so that each compiles once.

Every loop routes message by message from the sender's state alone, so cutting a stream into batches changes nothing.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.balance import add, comes_first, least_loaded, words_for
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import prefetch
from keyspread.kernels.mixing import candidate

_ONE, _NONE = np.uint64(1), np.uint64(0)
EVERYONE = 0  # the row of candidates that holds all workers


class Identity(NamedTuple):
    """What tells one sender from another. Candidates come from `keys`, ties from `turn`."""

    keys: np.uint64
    turn: int  # the worker at which the first search for a least loaded one starts


class Candidates(NamedTuple):
    """The candidates of the head, a row of bits a key: a memory of what `candidate` gives, it can be dropped."""

    rows: npt.NDArray[np.uint64]
    least: npt.NDArray[np.int64]  # no candidate of the row has a lower load
    owner: npt.NDArray[np.uint64]  # the key a row belongs to
    row_of: npt.NDArray[np.int32]  # counter -> row; valid if the row's owner is the counter's key
    used: npt.NDArray[np.int64]
    draws: npt.NDArray[np.int32]  # F_0 … F_draws-1 make up the row, where rows differ in length


_ROW_BYTES = 1 << 24
_NEAR_WORDS = 1 << 16  # rows of 512 KiB in all: beyond that they do not stay in the cache


def new_candidates(workers: int, capacity: int, most_rows: int) -> Candidates:
    """Make room for the candidates of up to `most_rows` head keys (fewer where rows are long) beside EVERYONE."""
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
    """Make what schemes have that keep no candidates."""
    return new_candidates(1, 0, 0)


@part
def _least_of_two(loads: Any, key: Any, identity: Any, start: Any) -> Any:
    first = candidate(key, identity.keys, 0, loads.size)
    second = candidate(key, identity.keys, 1, loads.size)
    if loads[second] < loads[first]:
        return second
    if loads[second] == loads[first] and comes_first(second, first, start):
        return second
    return first


@part
def _least_of_few(loads: Any, key: Any, identity: Any, start: Any, choices: Any) -> Any:
    """Look at every candidate: for a few of them this is quicker than rows of bits."""
    best = candidate(key, identity.keys, 0, loads.size)
    for number in range(1, choices):
        worker = candidate(key, identity.keys, number, loads.size)
        if loads[worker] < loads[best] or (loads[worker] == loads[best] and comes_first(worker, best, start)):
            best = worker
    return best


@part
def _row(candidates: Any, counter: Any, key: Any, identity: Any, loads: Any, choices: Any) -> Any:
    """Return the row of a head key's candidates, written now if it is not there."""
    row = candidates.row_of[counter]
    if row >= 0 and candidates.owner[row] == key:
        return row
    if candidates.used[0] == candidates.least.size:  # full: forget all of them
        for known in range(candidates.row_of.size):
            candidates.row_of[known] = -1
        candidates.used[0] = 1
    row = np.int32(candidates.used[0])
    candidates.used[0] += 1
    candidates.row_of[counter] = row
    candidates.owner[row] = key
    for word in range(candidates.rows.shape[1]):
        candidates.rows[row, word] = _NONE
    least = loads[candidate(key, identity.keys, 0, loads.size)]
    for number in range(choices):
        worker = candidate(key, identity.keys, number, loads.size)
        candidates.rows[row, worker >> 6] |= _ONE << np.uint64(worker & 63)
        least = min(least, loads[worker])
    candidates.least[row] = least
    return row


@part
def _look_ahead(candidates: Any, out: Any, i: Any, start: Any, workers: Any) -> None:
    """Call for the rows of coming messages, so that they are there in time: with many hot keys they fill no cache."""
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
def route_head_to_anyone(keys: Any, out: Any, messages: Any, identity: Any, balance: Any, candidates: Any) -> None:
    """Route a hot key to the least loaded of all workers, any other to that of two."""
    workers = balance.loads.size
    start = (identity.turn + messages) % workers
    least = candidates.least[EVERYONE]
    for i in range(keys.size):
        if out[i] >= 0:
            worker = least_loaded(balance, candidates.rows, EVERYONE, least, start)
            least = balance.loads[worker]
        else:
            worker = _least_of_two(balance.loads, keys[i], identity, start)
        add(balance, worker)
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    candidates.least[EVERYONE] = least


@entry
def route_head_to_row(
    keys: Any, out: Any, messages: Any, identity: Any, balance: Any, candidates: Any, choices: Any
) -> None:
    """Route a hot key to the least loaded of its `choices` candidates, any other to that of two."""
    workers = balance.loads.size
    start = (identity.turn + messages) % workers
    far = candidates.rows.size > _NEAR_WORDS
    for i in range(keys.size):
        if far:
            _look_ahead(candidates, out, i, start, workers)
        if out[i] >= 0:
            row = _row(candidates, out[i], keys[i], identity, balance.loads, choices)
            worker = least_loaded(balance, candidates.rows, row, candidates.least[row], start)
            candidates.least[row] = balance.loads[worker]
        else:
            worker = _least_of_two(balance.loads, keys[i], identity, start)
        add(balance, worker)
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker


@entry
def route_head_to_few(keys: Any, out: Any, messages: Any, identity: Any, loads: Any, choices: Any) -> None:
    """Do what `route_head_to_row` does, for so few choices that looking at each is quicker."""
    start = (identity.turn + messages) % loads.size
    for i in range(keys.size):
        worker = _least_of_few(loads, keys[i], identity, start, choices if out[i] >= 0 else 2)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker


@entry
def route_head_in_turn(keys: Any, out: Any, messages: Any, identity: Any, loads: Any, turn: Any) -> Any:
    """Route hot messages to all workers in turn, any other to the less loaded of two; return whose turn is next."""
    start = (identity.turn + messages) % loads.size
    for i in range(keys.size):
        if out[i] >= 0:
            worker = turn
            turn = turn + 1 if turn + 1 < loads.size else 0
        else:
            worker = _least_of_two(loads, keys[i], identity, start)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
    return turn


@entry
def route_least_of_two(keys: Any, out: Any, messages: Any, identity: Any, loads: Any) -> None:
    """Route every key to the less loaded of its two candidates."""
    start = (identity.turn + messages) % loads.size
    for i in range(keys.size):
        worker = _least_of_two(loads, keys[i], identity, start)
        start = start + 1 if start + 1 < loads.size else 0
        loads[worker] += 1
        out[i] = worker


@entry
def route_by_key(keys: Any, out: Any, identity: Any, loads: Any) -> None:
    """Route every key to its first candidate."""
    for i in range(keys.size):
        worker = candidate(keys[i], identity.keys, 0, loads.size)
        loads[worker] += 1
        out[i] = worker


def forget(candidates: Candidates) -> None:
    """Drop all rows, because the number of choices has changed."""
    candidates.row_of[:] = -1
    candidates.used[0] = 1
