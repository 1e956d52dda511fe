"""Loads per capacity, and the least of any set of workers without a look at every worker.

`balance` does the same for loads that grow by one. With weights or capacities, loads per capacity are any numbers. So a
level is an interval of them, and the workers that a set shares with its lowest level are compared with each other.

    loads per capacity 4.2 1.5 3.9 3.1, levels of width 1, candidates {0, 2, 3} (the bits 1101):
    level 1 is 0010 and shares nothing; level 3 is 1100 and shares workers 2 and 3, of which 3 wins (3.1 < 3.9)

Levels share the rows of a ring: row r holds the levels r, r + rows, r + 2 * rows, … There is no window that moves,
because groups of workers may grow at different heights: hot keys whose lists have nothing in common do not even out.

The width of a level adapts to the work that it causes: wide levels hold many workers to compare, narrow ones must be
searched one after the other. No choice depends on the width.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Bits, Counts, Floats, Int
from keyspread.kernels.balance import precedes, words_for
from keyspread.kernels.capacities import Capacities
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros

# RelativeLoads.work, since the width was last checked: searches; rows of the ring searched; workers compared on the
# level in question; workers looked at in vain, because the row held other levels or because the ring was too short
SEARCHES, SEARCHED, COMPARED, IN_VAIN = range(4)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST_ROWS, _RING_WORDS = 4096, 1 << 17  # at most 1 MiB, of which little is in use at a time
_HIGHEST = 2.0**62  # the last level: numbers of levels must fit into 64 bits
_PERIOD = 1024  # searches between two checks of the width
_MANY_SEARCHED, _MANY_COMPARED, _MANY_IN_VAIN = 6, 8, 8  # per search
_WORKERS_PER_LEVEL = 4  # to begin with, if all loads were within one message of each other
_MESSAGES_PER_RING = 4  # to begin with: the ring is as long as this many messages per worker


class RelativeLoads(NamedTuple):
    """The load per capacity of every worker as one sender knows it, and the levels that show it."""

    values: Floats
    ring: Bits  # [level modulo the number of rows, word of 64 workers]
    digests: Bits  # [row, word of 64 words]: which words are not zero
    filled: Bits  # one bit per row: whether it has workers
    lowest: Floats  # per row: no worker in it has less
    scale: Floats  # [levels per unit of load per capacity], a power of two
    work: Counts


def new_relative_loads(workers: int) -> RelativeLoads:
    """Make room for the loads per capacity of this many workers; `show_loads` fills it."""
    words = words_for(workers)
    most = min(_MOST_ROWS, 1 << (_RING_WORDS // words).bit_length() - 1)
    rows = max(64, min(most, 1 << (16 * workers - 1).bit_length()))
    return RelativeLoads(
        np.zeros(workers),
        np.zeros((rows, words), np.uint64),
        np.zeros((rows, words_for(words)), np.uint64),
        np.zeros(words_for(rows), np.uint64),
        np.zeros(rows),
        np.ones(1),
        np.zeros(4, np.int64),
    )


@part
def _level_of(relative: RelativeLoads, value: float) -> np.int64:
    """Return the level of a load per capacity. A larger value is never on a lower level."""
    return np.int64(min(value * relative.scale[0], _HIGHEST))


# The two functions below have no branches: which worker is the first or last of its word is random, and a processor
# that guesses wrong loses more time than it takes to write a bit that is already there.


@part
def _enter(relative: RelativeLoads, row: Int, worker: Int) -> None:
    """Add a worker to a row of the ring."""
    word, value = worker >> 6, relative.values[worker]
    relative.ring[row, word] |= _ONE << np.uint64(worker & 63)
    relative.digests[row, word >> 6] |= _ONE << np.uint64(word & 63)
    bit, filled = _ONE << np.uint64(row & 63), relative.filled[row >> 6]
    relative.filled[row >> 6] = filled | bit
    relative.lowest[row] = min(value, relative.lowest[row] if filled & bit else value)


@part
def _leave(relative: RelativeLoads, row: Int, worker: Int) -> None:
    """Remove a worker from a row of the ring."""
    word = worker >> 6
    rest = relative.ring[row, word] & ~(_ONE << np.uint64(worker & 63))
    relative.ring[row, word] = rest
    relative.digests[row, word >> 6] &= ~(np.uint64(rest == _NONE) << np.uint64(word & 63))
    left = _NONE
    for block in range(relative.digests.shape[1]):
        left |= relative.digests[row, block]
    relative.filled[row >> 6] &= ~(np.uint64(left == _NONE) << np.uint64(row & 63))


@part
def _fill_ring(relative: RelativeLoads) -> None:
    """Write the ring from the values."""
    for row in range(relative.ring.shape[0]):  # loops, because Numba needs half a second to compile a slice
        if relative.filled[row >> 6] >> np.uint64(row & 63) & _ONE:
            for word in range(relative.ring.shape[1]):
                relative.ring[row, word] = _NONE
            for block in range(relative.digests.shape[1]):
                relative.digests[row, block] = _NONE
    for block in range(relative.filled.size):
        relative.filled[block] = _NONE
    for worker in range(relative.values.size):
        level = _level_of(relative, relative.values[worker])
        _enter(relative, level & (relative.ring.shape[0] - 1), worker)


@entry
def show_loads(relative: RelativeLoads, loads: Counts, capacities: Capacities, unit: float) -> None:
    """Show these loads. `unit` is about the weight of a message; it only decides how wide the levels are at first."""
    for worker in range(loads.size):
        relative.values[worker] = loads[worker] * capacities.inverse[worker]
    # unit 1000, 400 workers: 100 levels per message, so a width of 10, and 8 is the next power of two
    wanted = min(loads.size / _WORKERS_PER_LEVEL, relative.ring.shape[0] / _MESSAGES_PER_RING) / unit
    scale = 1.0
    while scale < wanted:
        scale *= 2
    while scale > 2 * wanted:
        scale /= 2
    relative.scale[0] = scale
    _fill_ring(relative)


@part
def set_value(relative: RelativeLoads, worker: Int, value: float) -> None:
    """Change the load per capacity of one worker to a value that is not below the present one."""
    before, after = _level_of(relative, relative.values[worker]), _level_of(relative, value)
    relative.values[worker] = value
    if before != after:
        last = relative.ring.shape[0] - 1
        _leave(relative, before & last, worker)
        _enter(relative, after & last, worker)


@part
def _least_between(
    relative: RelativeLoads, level: Int, rows: Bits, row: Int, begin: Int, end: Int, best: np.int64, lowest: float
) -> np.int64:
    """Return the least loaded of the workers begin … end-1 on `level` that are in `rows[row]`, the first among equals.

    Return `best` if none is below it. The search ends at a worker that has `lowest`, as none has less.
    """
    values, at = relative.values, level & (relative.ring.shape[0] - 1)
    first, last = begin >> 6, (end - 1) >> 6
    for block in range(first >> 6, (last >> 6) + 1):
        filled = relative.digests[at, block]
        if block == first >> 6:
            filled &= _ALL << np.uint64(first & 63)
        while filled:
            word = (block << 6) + trailing_zeros(filled)
            filled &= filled - _ONE
            if word > last:
                break
            shared = relative.ring[at, word] & rows[row, word]
            if word == first:
                shared &= _ALL << np.uint64(begin & 63)
            if word == last:
                shared &= _ALL >> np.uint64(63 - ((end - 1) & 63))
            while shared:
                worker = np.int64((word << 6) + trailing_zeros(shared))
                shared &= shared - _ONE
                if _level_of(relative, values[worker]) != level:
                    relative.work[IN_VAIN] += 1
                    continue
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
            relative.work[IN_VAIN] += 1
            if (
                best < 0
                or values[worker] < values[best]
                or (values[worker] == values[best] and precedes(worker, best, start))
            ):
                best = worker
    return best


@part
def _next_filled(relative: RelativeLoads, level: np.int64, end: np.int64) -> np.int64:
    """Return the first level of level … end-1 whose row of the ring has workers; `end` if there is none."""
    # at most one turn of the ring, so every word of `filled` is read once, and the first perhaps twice
    rows = relative.ring.shape[0]
    while level < end:
        at = level & (rows - 1)
        filled = relative.filled[at >> 6] >> np.uint64(at & 63)
        if filled:
            return min(level + trailing_zeros(filled), end)
        level += 64 - (at & 63)
    return end


@part
def _adapt_width(relative: RelativeLoads) -> None:
    """Halve or double the width of the levels if the searches since the last check call for it."""
    work, scale = relative.work, relative.scale[0]
    if work[IN_VAIN] > max(_MANY_IN_VAIN * work[SEARCHES], 2 * work[COMPARED]):
        relative.scale[0] /= 2
    elif work[COMPARED] > _MANY_COMPARED * work[SEARCHES]:
        relative.scale[0] *= 2
    elif work[SEARCHED] > _MANY_SEARCHED * work[SEARCHES]:
        relative.scale[0] /= 2
    for number in range(work.size):
        work[number] = 0
    if relative.scale[0] != scale:
        _fill_ring(relative)


@part
def least_relative(relative: RelativeLoads, rows: Bits, row: Int, at_least: float, start: Int) -> np.int64:
    """Return the worker of `rows[row]` with the least load per capacity; among equals, the first from `start` on.

    The caller knows that none of them is below `at_least`. Loads only grow, so this is what the worker returned last
    time had.
    """
    work, workers = relative.work, relative.values.size
    if work[SEARCHES] >= max(_PERIOD, workers):
        _adapt_width(relative)
    work[SEARCHES] += 1
    level, best = _level_of(relative, at_least), np.int64(-1)
    end = level + relative.ring.shape[0]
    level = _next_filled(relative, level, end)
    while level < end:
        work[SEARCHED] += 1
        lowest = max(at_least, relative.lowest[level & (relative.ring.shape[0] - 1)])
        best = _least_between(relative, level, rows, row, start, workers, best, lowest)
        if start > 0 and (best < 0 or relative.values[best] > lowest):
            best = _least_between(relative, level, rows, row, 0, start, best, lowest)
        if best >= 0:
            return best
        level = _next_filled(relative, level + 1, end)
    return _least_in_row(relative, rows, row, start)
