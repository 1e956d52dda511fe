"""Loads per capacity, and the least of any set of workers without a look at every worker.

`balance` does the same for loads that grow by one. With weights or capacities, loads per capacity are any numbers. So a
level is an interval of them, and the workers that a set shares with its lowest level are compared with each other.

    loads per capacity 4.2 1.5 3.9 3.1, levels of width 1, candidates {0, 2, 3} (the bits 1101):
    level 1 is 0010 and shares nothing; level 3 is 1100 and shares workers 2 and 3, of which 3 wins (3.1 < 3.9)

Levels exist for a window that moves up as in `balance`. Their width adapts to the work that it causes: wide levels hold
many workers to compare, narrow ones must be searched one after the other. No choice depends on the width.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Bits, Counts, Floats, Int
from keyspread.kernels.balance import precedes, words_for
from keyspread.kernels.capacities import Capacities
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros

# RelativeLoads.window: where it begins, and the number of levels per unit of load per capacity (a power of two)
BEGIN, SCALE = range(2)
# RelativeLoads.work: the messages above the window since the levels were written; how many of those are tolerated; and
# since the width was last checked: searches, levels searched, workers compared in levels and above the window
ABOVE, PATIENCE, SEARCHES, SEARCHED, COMPARED, COMPARED_ABOVE = range(6)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST_LEVELS = 1024
_PERIOD = 1024  # searches between two checks of the width
_MANY_COMPARED, _MANY_SEARCHED = 12, 6  # per search: the width is halved, or doubled
_WORKERS_PER_LEVEL = 4  # to begin with, if all loads were within one message of each other


class RelativeLoads(NamedTuple):
    """The load per capacity of every worker as one sender knows it, and the levels that show it."""

    values: Floats
    levels: Bits  # [level, word of 64 workers]
    digests: Bits  # [level, word of 64 words]: which words are not zero
    filled: Bits  # one bit per level: whether it has workers
    lowest: Floats  # per level: no worker in it has less
    window: Floats
    work: Counts


def new_relative_loads(workers: int) -> RelativeLoads:
    """Make room for the loads per capacity of this many workers; `write_levels` fills it."""
    words = words_for(workers)
    levels = min(_MOST_LEVELS, 1 << max(6, (4 * workers - 1).bit_length()))
    return RelativeLoads(
        np.zeros(workers),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words_for(words)), np.uint64),
        np.zeros(words_for(levels), np.uint64),
        np.zeros(levels),
        np.array([0.0, 1.0]),
        np.zeros(6, np.int64),
    )


@part
def _level_of(relative: RelativeLoads, value: float) -> np.int64:
    """Return the level of a load per capacity; the number of levels if it is above the window."""
    levels = relative.levels.shape[0]
    # Rounded subtraction and multiplication keep the order, so a larger value is never on a lower level.
    offset = (value - relative.window[BEGIN]) * relative.window[SCALE]
    return np.int64(offset) if offset < levels else np.int64(levels)


@part
def _enter(relative: RelativeLoads, level: Int, worker: Int) -> None:
    """Add a worker to a level."""
    word, value = worker >> 6, relative.values[worker]
    if relative.levels[level, word] == _NONE:
        relative.digests[level, word >> 6] |= _ONE << np.uint64(word & 63)
    relative.levels[level, word] |= _ONE << np.uint64(worker & 63)
    bit = _ONE << np.uint64(level & 63)
    if not relative.filled[level >> 6] & bit:
        relative.filled[level >> 6] |= bit
        relative.lowest[level] = value
    elif value < relative.lowest[level]:
        relative.lowest[level] = value


@part
def _leave(relative: RelativeLoads, level: Int, worker: Int) -> None:
    """Remove a worker from a level."""
    word = worker >> 6
    rest = relative.levels[level, word] & ~(_ONE << np.uint64(worker & 63))
    relative.levels[level, word] = rest
    if rest:
        return
    relative.digests[level, word >> 6] &= ~(_ONE << np.uint64(word & 63))
    for block in range(relative.digests.shape[1]):
        if relative.digests[level, block]:
            return
    relative.filled[level >> 6] &= ~(_ONE << np.uint64(level & 63))


@part
def _regroup(relative: RelativeLoads) -> None:
    """Rebuild all levels from the values. The least becomes the begin of the window."""
    values, levels, window, work = relative.values, relative.levels, relative.window, relative.work
    begin = values[0]
    for worker in range(values.size):
        begin = min(begin, values[worker])
    # If some workers are always above the window, moving it does not help: wait longer each time.
    if _level_of(relative, begin) >= levels.shape[0] // 2:
        work[PATIENCE] = values.size // 16 + 1
    else:
        work[PATIENCE] = min(2 * work[PATIENCE] + values.size // 16 + 1, values.size * levels.shape[0])
    window[BEGIN] = begin
    work[ABOVE] = 0
    for level in range(levels.shape[0]):
        if relative.filled[level >> 6] >> np.uint64(level & 63) & _ONE:
            for word in range(levels.shape[1]):
                levels[level, word] = _NONE
            for block in range(relative.digests.shape[1]):
                relative.digests[level, block] = _NONE
    for block in range(relative.filled.size):
        relative.filled[block] = _NONE
    for worker in range(values.size):
        level = _level_of(relative, values[worker])
        if level < levels.shape[0]:
            _enter(relative, level, worker)


@entry
def write_levels(relative: RelativeLoads, loads: Counts, capacities: Capacities, unit: float) -> None:
    """Show these loads. `unit` is about the weight of a message; it only decides how wide the levels are at first."""
    for worker in range(loads.size):
        relative.values[worker] = loads[worker] * capacities.inverse[worker]
    scale = relative.window[SCALE]
    # unit 1000, 400 workers: 100 levels per message, so a width of 10, and 8 is the next power of two
    wanted = loads.size / (_WORKERS_PER_LEVEL * unit)
    while scale < wanted:
        scale *= 2
    while scale > 2 * wanted:
        scale /= 2
    relative.window[SCALE] = scale
    relative.work[PATIENCE] = 0
    _regroup(relative)


@part
def set_value(relative: RelativeLoads, worker: Int, value: float) -> None:
    """Change the load per capacity of one worker to a value that is not below the present one."""
    levels, work = relative.levels.shape[0], relative.work
    before, after = _level_of(relative, relative.values[worker]), _level_of(relative, value)
    relative.values[worker] = value
    if before != after:
        _leave(relative, before, worker)
        if after < levels:
            _enter(relative, after, worker)
    if after == levels:
        work[ABOVE] += 1
        if work[ABOVE] > work[PATIENCE]:
            _regroup(relative)


@part
def _least_between(
    relative: RelativeLoads, level: Int, rows: Bits, row: Int, begin: Int, end: Int, best: np.int64
) -> np.int64:
    """Return the first of the least loaded workers begin … end-1 in both level and row; `best` if none is below it.

    The search ends at a worker that has as little as any worker of the level can have.
    """
    values, lowest = relative.values, relative.lowest[level]
    first, last = begin >> 6, (end - 1) >> 6
    for block in range(first >> 6, (last >> 6) + 1):
        filled = relative.digests[level, block]
        if block == first >> 6:
            filled &= _ALL << np.uint64(first & 63)
        while filled:
            word = (block << 6) + trailing_zeros(filled)
            filled &= filled - _ONE
            if word > last:
                break
            shared = relative.levels[level, word] & rows[row, word]
            if word == first:
                shared &= _ALL << np.uint64(begin & 63)
            if word == last:
                shared &= _ALL >> np.uint64(63 - ((end - 1) & 63))
            while shared:
                worker = np.int64((word << 6) + trailing_zeros(shared))
                shared &= shared - _ONE
                relative.work[COMPARED] += 1
                if best < 0 or values[worker] < values[best]:
                    best = worker
                    if values[worker] <= lowest:
                        return best
    return best


@part
def _least_in_row(relative: RelativeLoads, rows: Bits, row: Int, start: Int) -> np.int64:
    """Return the least loaded of the workers in a row of bits, by a look at each of them."""
    values, best = relative.values, np.int64(-1)
    for word in range(rows.shape[1]):
        rest = rows[row, word]
        while rest:
            worker = np.int64((word << 6) + trailing_zeros(rest))
            rest &= rest - _ONE
            relative.work[COMPARED_ABOVE] += 1
            if (
                best < 0
                or values[worker] < values[best]
                or (values[worker] == values[best] and precedes(worker, best, start))
            ):
                best = worker
    return best


@part
def _next_filled(relative: RelativeLoads, level: Int) -> np.int64:
    """Return the first level from `level` on that has workers; the number of levels if there is none."""
    levels = relative.levels.shape[0]
    if level < levels:
        filled = relative.filled[level >> 6] & (_ALL << np.uint64(level & 63))
        for block in range(level >> 6, relative.filled.size):
            if block > level >> 6:
                filled = relative.filled[block]
            if filled:
                return np.int64((block << 6) + trailing_zeros(filled))
    return np.int64(levels)


@part
def _adapt_width(relative: RelativeLoads) -> None:
    """Halve or double the width of the levels if the searches since the last check call for it."""
    work, window = relative.work, relative.window
    scale = window[SCALE]
    if work[COMPARED_ABOVE] > work[SEARCHES]:
        window[SCALE] /= 4
    elif work[COMPARED] > _MANY_COMPARED * work[SEARCHES]:
        window[SCALE] *= 2
    elif work[SEARCHED] > _MANY_SEARCHED * work[SEARCHES]:
        window[SCALE] /= 2
    for number in range(SEARCHES, COMPARED_ABOVE + 1):
        work[number] = 0
    if window[SCALE] != scale:
        _regroup(relative)


@part
def least_relative(relative: RelativeLoads, rows: Bits, row: Int, at_least: float, start: Int) -> np.int64:
    """Return the worker of `rows[row]` with the least load per capacity; among equals, the first from `start` on.

    The caller knows that none of them is below `at_least`. Loads only grow, so this is what the worker returned last
    time had.
    """
    work, levels, workers = relative.work, relative.levels.shape[0], relative.values.size
    if work[SEARCHES] >= max(_PERIOD, workers):
        _adapt_width(relative)
    work[SEARCHES] += 1
    level = _next_filled(relative, _level_of(relative, max(at_least, relative.window[BEGIN])))
    while level < levels:
        work[SEARCHED] += 1
        best = _least_between(relative, level, rows, row, start, workers, np.int64(-1))
        if start > 0 and (best < 0 or relative.values[best] > relative.lowest[level]):
            best = _least_between(relative, level, rows, row, 0, start, best)
        if best >= 0:
            return best
        level = _next_filled(relative, level + 1)
    return _least_in_row(relative, rows, row, start)
