"""Loads of the workers, and the least loaded of any set of them without looking at every load.

The workers of one load form a level: a row of bits, one a worker. The least loaded of a set of candidates (a
row of bits too) is a bit of the lowest level that the two rows share: 64 workers are tested at a time. A message
moves one bit up one level.

    loads 4 1 3, candidates {0, 2}: level 1 is 010 and shares nothing with 101; level 3 is 100: worker 2
    (the bit of worker 0 is the rightmost)

A level of many words carries a digest, one bit a word that is not zero, so that a level with few workers costs
little. Levels are kept for a window of loads [base, base + levels). It moves up when most loads have left it.
Loads above it are read one by one; that is rare, because what lies far above the rest is what nobody chooses.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros

BASE, ABOVE, PATIENCE = range(3)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_TABLE_WORDS = 32768  # 256 KiB of levels, of which few are in use at a time
_DIGEST_FROM = 4  # words: with fewer, reading all of them is quicker than asking the digest


class Balance(NamedTuple):
    """One sender's view of the workers."""

    loads: npt.NDArray[np.int64]
    levels: npt.NDArray[np.uint64]  # [load modulo its length, word of 64 workers]
    digests: npt.NDArray[np.uint64]  # [load modulo its length, word of 64 words]
    scalars: npt.NDArray[np.int64]


def words_for(bits: int) -> int:
    """Give the number of 64-bit words that hold so many bits."""
    return (bits + 63) // 64


def new_balance(workers: int) -> Balance:
    """Make the view of a sender that has sent nothing."""
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
def _flip(levels: Any, digests: Any, load: Any, worker: Any) -> None:
    """Put `worker` into the level of `load`, or take it out."""
    level = load & (levels.shape[0] - 1)
    word = worker >> 6
    before = levels[level, word]
    after = before ^ (_ONE << np.uint64(worker & 63))
    levels[level, word] = after
    if levels.shape[1] >= _DIGEST_FROM and (before == _NONE or after == _NONE):
        digests[level, word >> 6] ^= _ONE << np.uint64(word & 63)


@entry
def regroup(balance: Any) -> None:
    """Write all levels anew from the loads, with the least load as base."""
    loads, levels, digests, scalars = balance
    base = loads[0]
    for worker in range(loads.size):
        base = min(base, loads[worker])
    # Where some workers stay above the window for good, moving it would not help: wait longer each time.
    if base - scalars[BASE] >= levels.shape[0] // 2:
        scalars[PATIENCE] = loads.size // 16 + 1
    else:
        scalars[PATIENCE] = min(2 * scalars[PATIENCE] + loads.size // 16 + 1, loads.size * levels.shape[0])
    scalars[BASE] = base
    scalars[ABOVE] = 0
    for level in range(levels.shape[0]):  # loops, because a slice takes Numba half a second to compile
        for word in range(levels.shape[1]):
            levels[level, word] = _NONE
        for word in range(digests.shape[1]):
            digests[level, word] = _NONE
    for worker in range(loads.size):
        if loads[worker] < base + levels.shape[0]:
            _flip(levels, digests, loads[worker], worker)


@part
def add(balance: Any, worker: Any) -> None:
    """One more message for `worker`."""
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
def _first_in_words(levels: Any, level: Any, rows: Any, row: Any, begin: Any, end: Any) -> Any:
    """Return the first worker whose bit is set both in the level and in the row, words begin … end-1; -1 if none."""
    for word in range(begin, end):
        shared = levels[level, word] & rows[row, word]
        if shared:
            return (word << 6) + trailing_zeros(shared)
    return np.int64(-1)


@part
def _first_by_digest(levels: Any, digests: Any, level: Any, rows: Any, row: Any, begin: Any, end: Any) -> Any:
    """Do what `_first_in_words` does, but read only the words that the digest calls not empty."""
    if begin >= end:
        return np.int64(-1)
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
    return np.int64(-1)


@part
def _first_shared(levels: Any, digests: Any, level: Any, rows: Any, row: Any, start: Any) -> Any:
    """Return the first worker at or after `start`, going round, in both the level and the row; -1 if there is none."""
    words = levels.shape[1]
    at = start >> 6
    from_start = _ALL << np.uint64(start & 63)
    shared = levels[level, at] & rows[row, at]
    if shared & from_start:
        return (at << 6) + trailing_zeros(shared & from_start)
    if words >= _DIGEST_FROM:
        worker = _first_by_digest(levels, digests, level, rows, row, at + 1, words)
        if worker < 0:
            worker = _first_by_digest(levels, digests, level, rows, row, 0, at)
    else:
        worker = _first_in_words(levels, level, rows, row, at + 1, words)
        if worker < 0:
            worker = _first_in_words(levels, level, rows, row, 0, at)
    if worker < 0 and shared:  # what is left of the first word lies before the start
        worker = (at << 6) + trailing_zeros(shared)
    return worker


@part
def comes_first(worker: Any, other: Any, start: Any) -> Any:
    """Whether `worker` is met before `other` going round from `start`."""
    # start 3: 3 4 5 … come before 0 1 2, and each side is in order
    return (worker < start, worker) < (other < start, other)


@part
def least_loaded(balance: Any, rows: Any, row: Any, at_least: Any, start: Any) -> Any:
    """Return the least loaded of the workers in `rows[row]`, the first from `start` among equals.

    None of them has a load below `at_least`: loads only grow, so the caller remembers the last answer's load.
    """
    loads, levels, digests, scalars = balance
    for load in range(max(at_least, scalars[BASE]), scalars[BASE] + levels.shape[0]):
        worker = _first_shared(levels, digests, load & (levels.shape[0] - 1), rows, row, start)
        if worker >= 0:
            return worker
    best = np.int64(-1)
    for word in range(rows.shape[1]):
        rest = rows[row, word]
        while rest:
            worker = (word << 6) + trailing_zeros(rest)
            rest &= rest - _ONE
            if (
                best < 0
                or loads[worker] < loads[best]
                or (loads[worker] == loads[best] and comes_first(worker, best, start))
            ):
                best = worker
    return best
