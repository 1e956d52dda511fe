"""Hot keys that have lists of workers of different lengths, stored as rows of bits; and routing by these lists.

The workers of a list are the key's candidates F_0, F_1, F_2, … in this order, without repetition. So a longer list
starts with the shorter one, and every list starts with the two workers that the key had when it was cold.

    F_0 F_1 F_2 … = 5 2 5 7 1: the list of three workers is 5 2 7, the list of four 5 2 7 1
"""

import numpy as np

from keyspread.kernels.array_types import Counts, Floats, Indices, Int, Keys
from keyspread.kernels.balance import Balance, add, least_loaded
from keyspread.kernels.capacities import Capacities, draw_candidate
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros
from keyspread.kernels.mixing import candidate
from keyspread.kernels.routing import Candidates, Identity, least_of_few
from keyspread.kernels.summary import Summary, find

_ONE, _NONE = np.uint64(1), np.uint64(0)
_ROUNDING = 1e-9  # sums of capacities differ by less than this, depending on the order in which they are added
COVERED, FIRST_LIST = 0, 1  # row 0: the workers that are on any list; from row 1 on: the lists, hottest key first
LEAD = 2  # a cold key's first worker may be ahead of its second by this many messages of mean weight
_MOST_DRAWS = 4  # draws per worker, after which a list takes everyone: the last few workers are hardly ever drawn


@part
def _write_list(
    candidates: Candidates,
    row: Int,
    key: np.uint64,
    size: float,
    missing: float,
    identity: Identity,
    loads: Counts,
    capacities: Capacities,
) -> tuple[float, float]:
    """Write the first workers of `key`, until they hold as much as `size` mean workers and add `missing` to COVERED.

    Return the capacity of the list, and the capacity that it added to COVERED, both in mean workers.
    """
    rows, workers = candidates.rows, loads.size
    for word in range(rows.shape[1]):
        rows[row, word] = _NONE
    number, length, held, added = 0, 0, 0.0, 0.0
    first = draw_candidate(capacities, key, identity.salt, 0)
    least, least_relative = loads[first], loads[first] * capacities.inverse[first]
    most = _MOST_DRAWS * workers
    while length < workers and (held < size - _ROUNDING or added < missing - _ROUNDING or number >= most):
        # after the last draw: everyone, in the order 0, 1, 2, …
        drawn = number < most
        worker = draw_candidate(capacities, key, identity.salt, number) if drawn else np.int64(number - most)
        number += 1
        at, bit = worker >> 6, _ONE << np.uint64(worker & 63)
        if rows[row, at] & bit:
            continue
        rows[row, at] |= bit
        length += 1
        held += capacities.relative[worker]
        least = min(least, loads[worker])
        least_relative = min(least_relative, loads[worker] * capacities.inverse[worker])
        if not rows[COVERED, at] & bit:
            rows[COVERED, at] |= bit
            added += capacities.relative[worker]
    candidates.least[row], candidates.least_relative[row] = least, least_relative
    candidates.owner[row] = key
    candidates.draws[row] = number
    return held, added


@entry
def write_lists(
    candidates: Candidates,
    counters: Counts,
    keys: Keys,
    sizes: Floats,
    needed: float,
    identity: Identity,
    loads: Counts,
    capacities: Capacities,
) -> None:
    """Write the lists of `keys`, which have these counters, hottest first; sizes are capacities in mean workers.

    Together the lists cover at least `needed` workers: the list of the hottest key, which is written last, takes in
    the workers that the others leave out. On return `sizes` holds the capacities that the lists have.
    """
    for counter in range(candidates.row_of.size):
        candidates.row_of[counter] = -1
    for word in range(candidates.rows.shape[1]):
        candidates.rows[COVERED, word] = _NONE
    listed = min(counters.size, candidates.least.size - FIRST_LIST)  # no room: the coldest keep their two workers
    covered = 0.0
    for place in range(listed - 1, -1, -1):
        counter = counters[place]
        missing = needed - covered if place == 0 else 0.0
        row = FIRST_LIST + place
        sizes[place], added = _write_list(
            candidates, row, keys[place], sizes[place], missing, identity, loads, capacities
        )
        covered += added
        candidates.row_of[counter] = row
    candidates.used[0] = FIRST_LIST + listed


@entry
def measure_lists(
    candidates: Candidates,
    counters: Counts,
    keys: Keys,
    loads: Counts,
    capacities: Capacities,
    sizes: Floats,
    least: Floats,
) -> None:
    """Add the capacity of each key's list to `sizes`, and write its least load per capacity to `least`.

    Both arrays are zero before the call, and stay zero for a key that has no list.
    """
    for place in range(counters.size):
        row = candidates.row_of[counters[place]]
        if row < 0 or candidates.owner[row] != keys[place]:
            continue
        for word in range(candidates.rows.shape[1]):
            rest = candidates.rows[row, word]
            while rest:
                worker = (word << 6) + trailing_zeros(rest)
                rest &= rest - _ONE
                relative_load = loads[worker] * capacities.inverse[worker]
                least[place] = relative_load if sizes[place] == 0 else min(least[place], relative_load)
                sizes[place] += capacities.relative[worker]


@entry
def find_lists(candidates: Candidates, summary: Summary) -> None:
    """Point every counter to the list of its key again, after keys have moved to other counters."""
    for counter in range(candidates.row_of.size):
        candidates.row_of[counter] = -1
    for row in range(FIRST_LIST, candidates.used[0]):
        found = find(summary, candidates.owner[row])
        if found >= 0:
            candidates.row_of[found] = row


@part
def _first_or_second(loads: Counts, key: np.uint64, identity: Identity) -> np.int64:
    """Return the first worker of a cold key, or the second if the first is more than LEAD ahead.

    Most messages of a cold key then go to the same worker, and most cold keys have one replica. The hot keys even out
    the loads.
    """
    # loads 7 and 5: the first, although it has more; 8 and 5: the second
    first = candidate(key, identity.salt, 0, loads.size)
    second = candidate(key, identity.salt, 1, loads.size)
    return second if loads[first] - loads[second] > LEAD else first


@entry
def route_head_to_own_row(
    keys: Keys, out: Indices, messages: int, identity: Identity, balance: Balance, candidates: Candidates
) -> None:
    """Route a key that has a list to the least loaded worker of it, and any other key to its first or second."""
    workers = balance.loads.size
    start = (identity.start + messages) % workers
    for i in range(keys.size):
        row = candidates.row_of[out[i]] if out[i] >= 0 else np.int32(-1)
        if row >= 0 and candidates.owner[row] == keys[i]:
            worker, least = least_loaded(balance, candidates.rows, row, candidates.least[row], start)
            candidates.least[row] = least
            add(balance, worker, least)
        else:
            worker = _first_or_second(balance.loads, keys[i], identity)
            add(balance, worker, balance.loads[worker])
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker


@entry
def route_head_to_own_few(
    keys: Keys, out: Indices, messages: int, identity: Identity, loads: Counts, candidates: Candidates
) -> None:
    """Route like `route_head_to_own_row`, for lists so short that it is quicker to look at each worker."""
    start = (identity.start + messages) % loads.size
    for i in range(keys.size):
        row = candidates.row_of[out[i]] if out[i] >= 0 else np.int32(-1)
        if row >= 0 and candidates.owner[row] == keys[i]:
            worker = least_of_few(loads, keys[i], identity, start, candidates.draws[row])
        else:
            worker = _first_or_second(loads, keys[i], identity)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
