"""Loads that grow by weights, and the least loaded of any set of workers without a look at every worker.

`balance` does the same for loads that grow by one. With weights, loads are any whole numbers, far apart. So a level is
an interval of them, and the workers that a set shares with its lowest level are compared with each other.

    loads 42 15 39 31, levels of width 10, candidates {0, 2, 3} (the bits 1101):
    level 1 is 0010 and shares nothing; level 3 is 1100 and shares workers 2 and 3, of which 3 wins (31 < 39)

Levels share the rows of a ring: row r holds the levels r, r + rows, r + 2 * rows, … There is no window that moves,
because groups of workers may grow at different heights: hot keys whose lists have nothing in common do not even out.

The width of a level adapts to the work that it causes: wide levels hold many workers to compare, narrow ones must be
searched one after the other. No choice depends on the width.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.balance import precedes, words_for
from keyspread.kernels.candidate_lists import LEAD, first_or_second
from keyspread.kernels.compilation import Bits, Counts, Floats, Indices, Int, Keys, entry, part, trailing_zeros
from keyspread.kernels.routing import EVERYONE, Candidates, Identity, least_of_few, row_of_key

# WeightedBalance.work, since the width was last checked: searches; rows of the ring searched; workers compared on the
# level in question; workers looked at in vain, because the row held other levels or because the ring was too short
SEARCHES, SEARCHED, COMPARED, IN_VAIN = range(4)
_ONE, _NONE, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST_ROWS, _RING_WORDS = 4096, 1 << 17  # at most 1 MiB, of which little is in use at a time
_HIGHEST = 2.0**62  # the last level: numbers of levels must fit into 64 bits
_PERIOD = 1024  # searches between two checks of the width
_MANY_SEARCHED, _MANY_COMPARED, _MANY_IN_VAIN = 6, 8, 8  # per search
_WORKERS_PER_LEVEL = 4  # to begin with, if all loads were within one message of each other
_MESSAGES_PER_RING = 4  # to begin with: the ring is as long as this many messages per worker


class WeightedBalance(NamedTuple):
    """The loads of the workers as one sender knows them, and the levels that show these loads."""

    loads: Counts
    ring: Bits  # [level modulo the number of rows, word of 64 workers]
    digests: Bits  # [row, word of 64 words]: which words are not zero
    filled: Bits  # one bit per row: whether it has workers
    lowest: Counts  # per row: no worker in it has less
    scale: Floats  # [levels per unit of load], a power of two
    work: Counts


def new_weighted_balance(loads: Counts) -> WeightedBalance:
    """Make room for the levels of these loads, which are shared, not copied; `show_loads` fills it."""
    words = words_for(loads.size)
    most = min(_MOST_ROWS, 1 << (_RING_WORDS // words).bit_length() - 1)
    rows = max(64, min(most, 1 << (16 * loads.size - 1).bit_length()))
    return WeightedBalance(
        loads,
        np.zeros((rows, words), np.uint64),
        np.zeros((rows, words_for(words)), np.uint64),
        np.zeros(words_for(rows), np.uint64),
        np.zeros(rows, np.int64),
        np.ones(1),
        np.zeros(4, np.int64),
    )


@part
def _level_of(balance: WeightedBalance, load: Int) -> np.int64:
    """Return the level of a load. A larger load is never on a lower level."""
    return np.int64(min(load * balance.scale[0], _HIGHEST))


# The two functions below have no branches: which worker is the first or last of its word is random, and a processor
# that guesses wrong loses more time than it takes to write a bit that is already there.


@part
def _enter(balance: WeightedBalance, row: Int, worker: Int) -> None:
    """Add a worker to a row of the ring."""
    word, load = worker >> 6, balance.loads[worker]
    balance.ring[row, word] |= _ONE << np.uint64(worker & 63)
    balance.digests[row, word >> 6] |= _ONE << np.uint64(word & 63)
    bit, filled = _ONE << np.uint64(row & 63), balance.filled[row >> 6]
    balance.filled[row >> 6] = filled | bit
    balance.lowest[row] = min(load, balance.lowest[row] if filled & bit else load)


@part
def _leave(balance: WeightedBalance, row: Int, worker: Int) -> None:
    """Remove a worker from a row of the ring."""
    word = worker >> 6
    rest = balance.ring[row, word] & ~(_ONE << np.uint64(worker & 63))
    balance.ring[row, word] = rest
    balance.digests[row, word >> 6] &= ~(np.uint64(rest == _NONE) << np.uint64(word & 63))
    left = _NONE
    for block in range(balance.digests.shape[1]):
        left |= balance.digests[row, block]
    balance.filled[row >> 6] &= ~(np.uint64(left == _NONE) << np.uint64(row & 63))


@part
def _fill_ring(balance: WeightedBalance) -> None:
    """Write the ring from the loads."""
    for row in range(balance.ring.shape[0]):  # loops, because Numba needs half a second to compile a slice
        if balance.filled[row >> 6] >> np.uint64(row & 63) & _ONE:
            for word in range(balance.ring.shape[1]):
                balance.ring[row, word] = _NONE
            for block in range(balance.digests.shape[1]):
                balance.digests[row, block] = _NONE
    for block in range(balance.filled.size):
        balance.filled[block] = _NONE
    for worker in range(balance.loads.size):
        level = _level_of(balance, balance.loads[worker])
        _enter(balance, level & (balance.ring.shape[0] - 1), worker)


@entry
def show_loads(balance: WeightedBalance, unit: float) -> None:
    """Show the loads of now. `unit` is about the weight of a message; it only decides how wide levels are at first."""
    # unit 1000, 400 workers: 100 levels per message, so a width of 10, and 8 is the next power of two
    workers, rows = balance.loads.size, balance.ring.shape[0]
    levels_per_unit = min(workers / _WORKERS_PER_LEVEL, rows / _MESSAGES_PER_RING) / unit
    scale = 1.0
    while scale < levels_per_unit:
        scale *= 2
    while scale > 2 * levels_per_unit:
        scale /= 2
    balance.scale[0] = scale
    _fill_ring(balance)


@part
def add_weight(balance: WeightedBalance, worker: Int, weight: Int) -> None:
    """Add a message of this weight to `worker`."""
    load = balance.loads[worker] + weight
    before, after = _level_of(balance, balance.loads[worker]), _level_of(balance, load)
    balance.loads[worker] = load
    if before != after:
        last = balance.ring.shape[0] - 1
        _leave(balance, before & last, worker)
        _enter(balance, after & last, worker)


@part
def _least_between(
    balance: WeightedBalance, level: Int, rows: Bits, row: Int, begin: Int, end: Int, best: np.int64, lowest: Int
) -> np.int64:
    """Return the least loaded of the workers begin … end-1 on `level` that are in `rows[row]`, the first among equals.

    Return `best` if none is below it. The search ends at a worker that has `lowest`, as none has less.
    """
    loads, at = balance.loads, level & (balance.ring.shape[0] - 1)
    first, last = begin >> 6, (end - 1) >> 6
    for block in range(first >> 6, (last >> 6) + 1):
        filled = balance.digests[at, block]
        if block == first >> 6:
            filled &= _ALL << np.uint64(first & 63)
        while filled:
            word = (block << 6) + trailing_zeros(filled)
            filled &= filled - _ONE
            if word > last:
                break
            shared = balance.ring[at, word] & rows[row, word]
            if word == first:
                shared &= _ALL << np.uint64(begin & 63)
            if word == last:
                shared &= _ALL >> np.uint64(63 - ((end - 1) & 63))
            while shared:
                worker = np.int64((word << 6) + trailing_zeros(shared))
                shared &= shared - _ONE
                if _level_of(balance, loads[worker]) != level:
                    balance.work[IN_VAIN] += 1
                    continue
                balance.work[COMPARED] += 1
                if best < 0 or loads[worker] < loads[best]:
                    best = worker
                    if loads[worker] <= lowest:
                        return best
    return best


@part
def _least_in_row(balance: WeightedBalance, rows: Bits, row: Int, start: Int) -> np.int64:
    """Return the least loaded of the workers in a row of bits, by a look at each of them."""
    loads, best = balance.loads, np.int64(-1)
    for word in range(rows.shape[1]):
        rest = rows[row, word]
        while rest:
            worker = np.int64((word << 6) + trailing_zeros(rest))
            rest &= rest - _ONE
            balance.work[IN_VAIN] += 1
            if (
                best < 0
                or loads[worker] < loads[best]
                or (loads[worker] == loads[best] and precedes(worker, best, start))
            ):
                best = worker
    return best


@part
def _next_filled(balance: WeightedBalance, level: np.int64, end: np.int64) -> np.int64:
    """Return the first level of level … end-1 whose row of the ring has workers; `end` if there is none."""
    # at most one turn of the ring, so every word of `filled` is read once, and the first perhaps twice
    rows = balance.ring.shape[0]
    while level < end:
        at = level & (rows - 1)
        filled = balance.filled[at >> 6] >> np.uint64(at & 63)
        if filled:
            return min(level + trailing_zeros(filled), end)
        level += 64 - (at & 63)
    return end


@part
def _adapt_width(balance: WeightedBalance) -> None:
    """Halve or double the width of the levels if the searches since the last check call for it."""
    work, scale = balance.work, balance.scale[0]
    if work[IN_VAIN] > max(_MANY_IN_VAIN * work[SEARCHES], 2 * work[COMPARED]):
        balance.scale[0] /= 2
    elif work[COMPARED] > _MANY_COMPARED * work[SEARCHES]:
        balance.scale[0] *= 2
    elif work[SEARCHED] > _MANY_SEARCHED * work[SEARCHES]:
        balance.scale[0] /= 2
    for number in range(work.size):
        work[number] = 0
    if balance.scale[0] != scale:
        _fill_ring(balance)


@part
def least_weighted(balance: WeightedBalance, rows: Bits, row: Int, at_least: Int, start: Int) -> np.int64:
    """Return the least loaded of the workers in `rows[row]`; among equals, the first from `start` on.

    The caller knows that none of them has a load below `at_least`. Loads only grow, so this is the load that the
    worker returned last time had.
    """
    work, workers = balance.work, balance.loads.size
    if work[SEARCHES] >= max(_PERIOD, workers):
        _adapt_width(balance)
    work[SEARCHES] += 1
    level, best = _level_of(balance, at_least), np.int64(-1)
    end = level + balance.ring.shape[0]
    level = _next_filled(balance, level, end)
    while level < end:
        work[SEARCHED] += 1
        lowest = max(at_least, balance.lowest[level & (balance.ring.shape[0] - 1)])
        best = _least_between(balance, level, rows, row, start, workers, best, lowest)
        if start > 0 and (best < 0 or balance.loads[best] > lowest):
            best = _least_between(balance, level, rows, row, 0, start, best, lowest)
        if best >= 0:
            return best
        level = _next_filled(balance, level + 1, end)
    return _least_in_row(balance, rows, row, start)


# Routing of messages that differ in weight.
#
# There is one loop for keys that have few candidates, which looks at each of them, and one for hot keys that have many,
# which finds the least loaded by levels (see `weighted_balance`). With weights of 1 they return the same workers as the
# loops in `routing` and `candidate_lists`.


CHOICES, ANYONE, OWN_LIST, IN_TURN = range(4)


class Rules(NamedTuple):
    """What a scheme does with a message. With OWN_LIST, a cold key has a first and a second worker; else two equals."""

    hot: int  # CHOICES, ANYONE, OWN_LIST or IN_TURN
    choices: int  # of CHOICES: the number of candidates
    unit: float  # of OWN_LIST: the mean weight of a message
    turn: int  # of IN_TURN: the worker of the next hot message


@entry
def route_weighted(
    keys: Keys,
    weights: Counts,
    out: Indices,
    messages: int,
    identity: Identity,
    loads: Counts,
    rules: Rules,
) -> int:
    """Route by CHOICES or IN_TURN. As in `routing`, out[i] is the counter of a hot key or -1, then the worker.

    Return the worker whose turn is next, for hot messages that are routed in turn.
    """
    workers, turn = loads.size, rules.turn
    start = (identity.start + messages) % workers
    for i in range(keys.size):
        if out[i] >= 0 and rules.hot == IN_TURN:
            worker = np.int64(turn)
            turn = turn + 1 if turn + 1 < workers else 0
        else:
            worker = least_of_few(loads, keys[i], identity, start, rules.choices if out[i] >= 0 else 2)
        loads[worker] += weights[i]
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    return turn


@part
def _row(
    rules: Rules, candidates: Candidates, counter: Int, key: np.uint64, identity: Identity, loads: Counts
) -> np.int64:
    """Return the row with the candidates of a hot key; -1 if it has no list of its own and must be treated as cold."""
    if rules.hot == ANYONE:
        return np.int64(EVERYONE)
    if rules.hot == CHOICES:
        return np.int64(row_of_key(candidates, counter, key, identity, loads, rules.choices))
    row = np.int64(candidates.row_of[counter])
    return row if row >= 0 and candidates.owner[row] == key else np.int64(-1)


@entry
def route_weighted_by_levels(
    keys: Keys,
    weights: Counts,
    out: Indices,
    messages: int,
    identity: Identity,
    balance: WeightedBalance,
    candidates: Candidates,
    rules: Rules,
) -> None:
    """Route by ANYONE, CHOICES or OWN_LIST. The levels of `balance` show its loads, before and after."""
    loads = balance.loads
    start = (identity.start + messages) % loads.size
    for i in range(keys.size):
        row = np.int64(-1)
        if out[i] >= 0:
            row = _row(rules, candidates, out[i], keys[i], identity, loads)
        if row >= 0:
            worker = least_weighted(balance, candidates.rows, row, candidates.least[row], start)
            candidates.least[row] = loads[worker]
        elif rules.hot == OWN_LIST:
            worker = first_or_second(loads, keys[i], identity, LEAD * rules.unit)
        else:
            worker = least_of_few(loads, keys[i], identity, start, 2)
        add_weight(balance, worker, weights[i])
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
