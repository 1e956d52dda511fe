"""Loads of the workers, and the least loaded worker of any set without a look at every load.

The workers that have the same load form a level: a row of bits, one bit per worker. A set of candidates is a row of
bits too. The least loaded candidate is a bit that the set shares with the lowest possible level; one operation tests
64 workers. A message moves one bit up by one level.

    loads 4 1 3, candidates {0, 2} (worker 0 is the rightmost bit, so the candidates are 101):
    level 1 is 010 and shares nothing with 101; level 3 is 100 and shares worker 2, which wins (3 < 4)

The levels are a ring: loads that differ by a multiple of its length share a level. So a worker that is found on a level
may have another load than the one that is looked for. That is rare, because most loads are close to each other; then
the other workers of the level are compared one by one.

A level of many words has a digest: one bit per word, set if the word is not zero. A level with few workers is then
quick to read.

Indices are unsigned in what every message does. Numba tests a signed index for being negative, which costs a fifth of
the time of a message. And `least_loaded` returns the load that it has found, so that nobody waits to read it again.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.compilation import Bits, Counts, Int, entry, part, trailing_zeros

_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_6, _63 = np.uint64(6), np.uint64(63)
_TABLE_WORDS = 32768  # 256 KiB of levels; few of them are in use at a time
_MOST_LEVELS = 1024
_DIGEST_FROM = 4  # words per level: with fewer, it is quicker to read all words than to read the digest


class Balance(NamedTuple):
    """The loads of the workers as one sender knows them, and the levels that show these loads."""

    loads: Counts
    levels: Bits  # [load modulo the number of levels, word of 64 workers]
    digests: Bits  # [load modulo the number of levels, word of 64 words]; no words if levels are short


def words_for(bits: int) -> int:
    """Return the number of 64-bit words that hold this many bits: 2 for 65."""
    return (bits + 63) // 64


def new_balance(workers: int) -> Balance:
    """Make the balance of a sender that has sent nothing."""
    words = words_for(workers)
    levels = 1 << max(4, min(_MOST_LEVELS, _TABLE_WORDS // words).bit_length() - 1)
    digest = words_for(words) if words >= _DIGEST_FROM else 0
    balance = Balance(
        np.zeros(workers, np.int64), np.zeros((levels, words), np.uint64), np.zeros((levels, digest), np.uint64)
    )
    regroup(balance)
    return balance


@part
def _flip(levels: Bits, digests: Bits, load: Int, worker: Int) -> None:
    """Add `worker` to the level of `load` if it is not there, remove it if it is."""
    level = np.uint64(load) & np.uint64(levels.shape[0] - 1)
    word = np.uint64(worker) >> _6
    before = levels[level, word]
    after = before ^ (_ONE << (np.uint64(worker) & _63))
    levels[level, word] = after
    if levels.shape[1] >= _DIGEST_FROM and (before == _NONE or after == _NONE):
        digests[level, word >> _6] ^= _ONE << (word & _63)


@entry
def regroup(balance: Balance) -> None:
    """Rebuild all levels from the loads. Needed when loads have changed by anything else than `add`."""
    loads, levels, digests = balance
    for level in range(levels.shape[0]):  # loops, because Numba needs half a second to compile a slice
        for word in range(levels.shape[1]):
            levels[level, word] = _NONE
        for word in range(digests.shape[1]):
            digests[level, word] = _NONE
    for worker in range(loads.size):
        _flip(levels, digests, loads[worker], worker)


@part
def add(balance: Balance, worker: Int, load: Int) -> None:
    """Add one message to `worker`, which has this load."""
    loads, levels, digests = balance
    loads[np.uint64(worker)] = load + 1
    _flip(levels, digests, load, worker)
    _flip(levels, digests, load + 1, worker)


@part
def _first_in_words(levels: Bits, level: np.uint64, rows: Bits, row: np.uint64, begin: Int, end: Int) -> int:
    """Return the first worker in both the level and the row, in words begin … end-1; -1 if there is none."""
    for word in range(begin, end):
        shared = levels[level, word] & rows[row, word]
        if shared:
            return (word << 6) + trailing_zeros(shared)
    return -1


@part
def _first_by_digest(
    levels: Bits, digests: Bits, level: np.uint64, rows: Bits, row: np.uint64, begin: Int, end: Int
) -> int:
    """Return the same as `_first_in_words`, but skip the words that are empty according to the digest."""
    if begin >= end:
        return -1
    for block in range(begin >> 6, ((end - 1) >> 6) + 1):
        filled = digests[level, block]
        if block == begin >> 6:
            filled &= _ALL << np.uint64(begin & 63)
        while filled:
            word = (block << 6) + trailing_zeros(filled)
            if word >= end:
                break
            shared = levels[level, word] & rows[row, word]
            if shared:
                return (word << 6) + trailing_zeros(shared)
            filled &= filled - _ONE
    return -1


@part
def _first_shared(levels: Bits, digests: Bits, level: np.uint64, rows: Bits, row: np.uint64, start: Int) -> Int:
    """Return the first worker from `start` on, wrapping around, in both the level and the row; -1 if there is none."""
    words = levels.shape[1]
    at = start >> 6
    shared = levels[level, np.uint64(at)] & rows[row, np.uint64(at)]
    from_start = shared & (_ALL << (np.uint64(start) & _63))
    if from_start:
        return (at << 6) + trailing_zeros(from_start)
    if words >= _DIGEST_FROM:
        worker: Int = _first_by_digest(levels, digests, level, rows, row, at + 1, words)
        if worker < 0:
            worker = _first_by_digest(levels, digests, level, rows, row, 0, at)
    else:
        worker = _first_in_words(levels, level, rows, row, at + 1, words)
        if worker < 0:
            worker = _first_in_words(levels, level, rows, row, 0, at)
    if worker < 0 and shared:  # the other bits of the first word come before the start
        worker = (at << 6) + trailing_zeros(shared)
    return worker


@part
def precedes(worker: Int, other: Int, start: Int) -> bool:
    """Return whether `worker` comes before `other` in the order start, start + 1, …, n-1, 0, …, start - 1."""
    # start 3 of 6: the order is 3 4 5 0 1 2, so 5 precedes 0 and 0 precedes 2
    return (worker < start, worker) < (other < start, other)


@part
def _first_with_load(balance: Balance, rows: Bits, row: np.uint64, load: Int, start: Int) -> Int:
    """Return the first worker of the row, from `start` on, that has exactly this load; -1 if there is none."""
    loads, levels, _ = balance
    level = np.uint64(load) & np.uint64(levels.shape[0] - 1)
    best: Int = -1
    for word in range(levels.shape[1]):
        rest = levels[level, word] & rows[row, word]
        while rest:
            worker = (word << 6) + trailing_zeros(rest)
            rest &= rest - _ONE
            if loads[worker] == load and (best < 0 or precedes(worker, best, start)):
                best = worker
    return best


@part
def least_loaded(balance: Balance, rows: Bits, row: Int, at_least: Int, start: Int) -> tuple[Int, Int]:
    """Return the least loaded of the workers in `rows[row]`, and its load; among equals, the first from `start` on.

    The caller knows that none of them has a load below `at_least`. Loads only grow, so this is the load that the
    worker returned last time had.
    """
    loads, levels, digests = balance
    last = np.uint64(levels.shape[0] - 1)
    for load in range(at_least, at_least + levels.shape[0]):
        worker = _first_shared(levels, digests, np.uint64(load) & last, rows, np.uint64(row), start)
        if worker >= 0 and loads[np.uint64(worker)] != load:  # it is on the same level by chance, others may be as well
            worker = _first_with_load(balance, rows, np.uint64(row), load, start)
        if worker >= 0:
            return worker, load
    best = -1
    for word in range(rows.shape[1]):  # all of them have a much higher load
        rest = rows[row, word]
        while rest:
            worker = (word << 6) + trailing_zeros(rest)
            rest &= rest - _ONE
            if (
                best < 0
                or loads[worker] < loads[best]
                or (loads[worker] == loads[best] and precedes(worker, best, start))
            ):
                best = worker
    return best, loads[best]
