"""Loads of the workers, and the least loaded worker of any set without a look at every load.

The workers that have the same load form a level: a row of bits, one bit per worker. A set of candidates is a row of
bits too. The least loaded candidate is a bit that the set shares with the lowest possible level; one operation tests
64 workers. A message moves one bit up by one level.

    loads 4 1 3, candidates {0, 2} (worker 0 is the rightmost bit, so the candidates are 101):
    level 1 is 010 and shares nothing with 101; level 3 is 100 and shares worker 2, which wins (3 < 4)

A level of many words has a digest: one bit per word, set if the word is not zero. A level with few workers is then
quick to read. Levels exist for a window of loads [base, base + levels). The window moves up when most loads have left
it. Loads above the window are compared one by one. That is rare: nobody chooses a worker far above the rest.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Bits, Counts, Int
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros

# Balance.scalars: the lowest load of the window; the messages above the window since the levels were written; how many
# of those are tolerated before the levels are written again
BASE, ABOVE, PATIENCE = range(3)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_TABLE_WORDS = 32768  # 256 KiB of levels; few of them are in use at a time
_DIGEST_FROM = 4  # words per level: with fewer, it is quicker to read all words than to read the digest


class Balance(NamedTuple):
    """The loads of the workers as one sender knows them, and the levels that show these loads."""

    loads: Counts
    levels: Bits  # [load modulo the number of levels, word of 64 workers]
    digests: Bits  # [load modulo the number of levels, word of 64 words]
    scalars: Counts


def words_for(bits: int) -> int:
    """Return the number of 64-bit words that hold this many bits: 2 for 65."""
    return (bits + 63) // 64


def new_balance(workers: int) -> Balance:
    """Make the balance of a sender that has sent nothing."""
    words = words_for(workers)
    levels = 1 << max(4, min(15, (_TABLE_WORDS // words).bit_length() - 1))
    balance = Balance(
        np.zeros(workers, np.int64),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words_for(words)), np.uint64),
        np.zeros(3, np.int64),
    )
    regroup(balance)
    return balance


@part
def _flip(levels: Bits, digests: Bits, load: Int, worker: Int) -> None:
    """Add `worker` to the level of `load` if it is not there, remove it if it is."""
    level = load & (levels.shape[0] - 1)
    word = worker >> 6
    before = levels[level, word]
    after = before ^ (_ONE << np.uint64(worker & 63))
    levels[level, word] = after
    if levels.shape[1] >= _DIGEST_FROM and (before == _NONE or after == _NONE):
        digests[level, word >> 6] ^= _ONE << np.uint64(word & 63)


@entry
def regroup(balance: Balance) -> None:
    """Rebuild all levels from the loads. The least load becomes the base of the window."""
    loads, levels, digests, scalars = balance
    base = loads[0]
    for worker in range(loads.size):
        base = min(base, loads[worker])
    # If some workers are always above the window, moving it does not help: wait longer each time.
    if base - scalars[BASE] >= levels.shape[0] // 2:
        scalars[PATIENCE] = loads.size // 16 + 1
    else:
        scalars[PATIENCE] = min(2 * scalars[PATIENCE] + loads.size // 16 + 1, loads.size * levels.shape[0])
    scalars[BASE] = base
    scalars[ABOVE] = 0
    for level in range(levels.shape[0]):  # loops, because Numba needs half a second to compile a slice
        for word in range(levels.shape[1]):
            levels[level, word] = _NONE
        for word in range(digests.shape[1]):
            digests[level, word] = _NONE
    for worker in range(loads.size):
        if loads[worker] < base + levels.shape[0]:
            _flip(levels, digests, loads[worker], worker)


@part
def add(balance: Balance, worker: Int) -> None:
    """Add one message to the load of `worker`."""
    loads, levels, digests, scalars = balance
    load = loads[worker]
    loads[worker] = load + 1
    end = scalars[BASE] + levels.shape[0]
    if load + 1 < end:
        _flip(levels, digests, load, worker)
        _flip(levels, digests, load + 1, worker)
        return
    if load < end:
        _flip(levels, digests, load, worker)
    scalars[ABOVE] += 1
    if scalars[ABOVE] > scalars[PATIENCE]:
        regroup(balance)


@part
def _first_in_words(levels: Bits, level: Int, rows: Bits, row: Int, begin: Int, end: Int) -> int:
    """Return the first worker in both the level and the row, in words begin … end-1; -1 if there is none."""
    for word in range(begin, end):
        shared = levels[level, word] & rows[row, word]
        if shared:
            return (word << 6) + trailing_zeros(shared)
    return -1


@part
def _first_by_digest(levels: Bits, digests: Bits, level: Int, rows: Bits, row: Int, begin: Int, end: Int) -> int:
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
def _first_shared(levels: Bits, digests: Bits, level: Int, rows: Bits, row: Int, start: Int) -> Int:
    """Return the first worker from `start` on, wrapping around, in both the level and the row; -1 if there is none."""
    words = levels.shape[1]
    at = start >> 6
    from_start = _ALL << np.uint64(start & 63)
    shared = levels[level, at] & rows[row, at]
    if shared & from_start:
        return (at << 6) + trailing_zeros(shared & from_start)
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
def least_loaded(balance: Balance, rows: Bits, row: Int, at_least: Int, start: Int) -> Int:
    """Return the least loaded of the workers in `rows[row]`; among equals, the first from `start` on.

    The caller knows that none of them has a load below `at_least`. Loads only grow, so this is the load that the
    worker returned last time had.
    """
    loads, levels, digests, scalars = balance
    for load in range(max(at_least, scalars[BASE]), scalars[BASE] + levels.shape[0]):
        worker = _first_shared(levels, digests, load & (levels.shape[0] - 1), rows, row, start)
        if worker >= 0:
            return worker
    best = -1
    for word in range(rows.shape[1]):
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
    return best
