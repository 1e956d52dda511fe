"""Lists of workers of different lengths, one a hot key, kept as rows of bits; and routing by them.

The order of a key's workers is that of its candidates F_0, F_1, F_2, … without repetition: the first two are those
that it had when it was cold, and a longer list starts with the shorter one.
"""

from typing import Any

import numpy as np

from keyspread.kernels.balance import add, least_loaded
from keyspread.kernels.capacities import drawn
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros
from keyspread.kernels.mixing import candidate
from keyspread.kernels.routing import _least_of_few as least_of_few
from keyspread.kernels.summary import find

_ONE, _NONE = np.uint64(1), np.uint64(0)
_HAIR = 1e-9  # sums of capacities differ that much by the order in which they are added
COVERED, FIRST = 0, 1  # row 0: who is on any list; from row 1 on, the lists, hottest key first
LEAD = 2  # messages, of mean weight, that a cold key's first worker may be ahead of its second
_PATIENCE = 4  # draws a worker, after which a list takes everyone: the last few are hardly ever drawn


@part
def _write(candidates: Any, row: Any, key: Any, size: Any, missing: Any, identity: Any, loads: Any, fleet: Any) -> Any:
    """Write the first workers of `key`, as many as hold what `size` mean workers do; more if COVERED lacks `missing`.

    Return what the list has become, and what it added to COVERED, in mean workers too.
    """
    rows, workers = candidates.rows, loads.size
    for word in range(rows.shape[1]):
        rows[row, word] = _NONE
    number, length, held, added = 0, 0, 0.0, 0.0
    least = loads[drawn(fleet, key, identity.keys, 0)]
    patient = _PATIENCE * workers
    while length < workers and (held < size - _HAIR or added < missing - _HAIR or number >= patient):
        worker: Any = drawn(fleet, key, identity.keys, number) if number < patient else np.int64(number - patient)
        number += 1
        word, bit = worker >> 6, _ONE << np.uint64(worker & 63)
        if rows[row, word] & bit:
            continue
        rows[row, word] |= bit
        length += 1
        held += fleet.capacity[worker]
        least = min(least, loads[worker])
        if not rows[COVERED, word] & bit:
            rows[COVERED, word] |= bit
            added += fleet.capacity[worker]
    candidates.least[row] = least
    candidates.owner[row] = key
    candidates.draws[row] = number
    return held, added


@entry
def allot(
    candidates: Any, counters: Any, keys: Any, sizes: Any, needed: Any, identity: Any, loads: Any, fleet: Any
) -> None:
    """Give `keys`, which have these counters, hottest first, lists of `sizes` workers, counted by their capacity.

    Together they reach `needed` workers at least: whom the others leave out, the list of the hottest takes in, and
    sizes[0] tells how long it has become.
    """
    for counter in range(candidates.row_of.size):
        candidates.row_of[counter] = -1
    for word in range(candidates.rows.shape[1]):
        candidates.rows[COVERED, word] = _NONE
    listed = min(counters.size, candidates.least.size - FIRST)  # no room: the coldest keep their two workers
    reached = 0.0
    for place in range(listed - 1, -1, -1):
        counter = counters[place]
        missing = needed - reached if place == 0 else 0.0
        row = FIRST + place
        sizes[place], added = _write(candidates, row, keys[place], sizes[place], missing, identity, loads, fleet)
        reached += added
        candidates.row_of[counter] = row
    candidates.used[0] = FIRST + listed


@entry
def measure(candidates: Any, counters: Any, keys: Any, loads: Any, fleet: Any, sizes: Any, least: Any) -> None:
    """Write the capacity of the list of every key, 0 if it has none, and the least load per capacity on it."""
    for place in range(counters.size):
        row = candidates.row_of[counters[place]]
        if row < 0 or candidates.owner[row] != keys[place]:
            continue
        for word in range(candidates.rows.shape[1]):
            rest = candidates.rows[row, word]
            while rest:
                worker = (word << 6) + trailing_zeros(rest)
                rest &= rest - _ONE
                burden = loads[worker] * fleet.burden[worker]
                least[place] = burden if sizes[place] == 0 else min(least[place], burden)
                sizes[place] += fleet.capacity[worker]


@entry
def find_owners(candidates: Any, summary: Any) -> None:
    """Point the counters to the lists of their keys again, after they have moved."""
    for counter in range(candidates.row_of.size):
        candidates.row_of[counter] = -1
    for row in range(FIRST, candidates.used[0]):
        counter = find(summary, candidates.owner[row])
        if counter >= 0:
            candidates.row_of[counter] = row


@part
def _first_or_second(loads: Any, key: Any, identity: Any) -> Any:
    """Return the first worker of a cold key, or the second where the first is too far ahead.

    Most messages of a cold key then meet the same worker, and most cold keys have one replica: the hot keys fill
    what that leaves uneven.
    """
    first = candidate(key, identity.keys, 0, loads.size)
    second = candidate(key, identity.keys, 1, loads.size)
    return second if loads[first] - loads[second] > LEAD else first


@entry
def route_head_to_own_row(keys: Any, out: Any, messages: Any, identity: Any, balance: Any, candidates: Any) -> None:
    """Route a hot key to the least loaded of its list, any other, or one without a list, to that of two."""
    workers = balance.loads.size
    start = (identity.turn + messages) % workers
    for i in range(keys.size):
        row = candidates.row_of[out[i]] if out[i] >= 0 else np.int32(-1)
        if row >= 0 and candidates.owner[row] == keys[i]:
            worker = least_loaded(balance, candidates.rows, row, candidates.least[row], start)
            candidates.least[row] = balance.loads[worker]
        else:
            worker = _first_or_second(balance.loads, keys[i], identity)
        add(balance, worker)
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker


@entry
def route_head_to_own_few(keys: Any, out: Any, messages: Any, identity: Any, loads: Any, candidates: Any) -> None:
    """Do what `route_head_to_own_row` does, for lists so short that looking at each worker is quicker."""
    start = (identity.turn + messages) % loads.size
    for i in range(keys.size):
        row = candidates.row_of[out[i]] if out[i] >= 0 else np.int32(-1)
        if row >= 0 and candidates.owner[row] == keys[i]:
            worker = least_of_few(loads, keys[i], identity, start, candidates.draws[row])
        else:
            worker = _first_or_second(loads, keys[i], identity)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
