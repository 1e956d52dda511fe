"""Hot keys that have lists of workers of different lengths, stored as rows of bits; and routing by these lists.

The workers of a list are the key's candidates F_0, F_1, F_2, … in this order, without repetition. So a longer list
starts with the shorter one, and every list starts with the two workers that the key had when it was cold.

    F_0 F_1 F_2 … = 5 2 5 7 1: the list of three workers is 5 2 7, the list of four 5 2 7 1
"""

import numpy as np

from keyspread.kernels.balance import Balance, add, least_loaded
from keyspread.kernels.compilation import Counts, Indices, Int, Keys, entry, part, trailing_zeros
from keyspread.kernels.mixing import candidate
from keyspread.kernels.routing import Candidates, Identity, least_of_few
from keyspread.kernels.summary import Summary, find

_ONE, _NONE = np.uint64(1), np.uint64(0)
COVERED, FIRST_LIST = 0, 1  # row 0: the workers that are on any list; from row 1 on: the lists, hottest key first
LEAD = 2  # a cold key's first worker may be ahead of its second by this many messages of mean weight
_MOST_DRAWS = 4  # draws per worker, after which a list takes everyone: the last few workers are hardly ever drawn


@part
def _write_list(
    candidates: Candidates, row: Int, key: np.uint64, size: Int, missing: Int, identity: Identity, loads: Counts
) -> tuple[Int, Int]:
    """Write the first workers of `key`, until there are `size` of them and `missing` are new in COVERED.

    Return the number of workers on the list, and how many of them were new in COVERED.
    """
    rows, workers = candidates.rows, loads.size
    for word in range(rows.shape[1]):
        rows[row, word] = _NONE
    number, length, added = 0, 0, 0
    least = loads[candidate(key, identity.salt, 0, workers)]
    most = _MOST_DRAWS * workers
    while length < workers and (length < size or added < missing or number >= most):
        # after the last draw: everyone, in the order 0, 1, 2, …
        worker = candidate(key, identity.salt, number, workers) if number < most else np.int64(number - most)
        number += 1
        at, bit = worker >> 6, _ONE << np.uint64(worker & 63)
        if rows[row, at] & bit:
            continue
        rows[row, at] |= bit
        length += 1
        least = min(least, loads[worker])
        if not rows[COVERED, at] & bit:
            rows[COVERED, at] |= bit
            added += 1
    candidates.least[row] = least
    candidates.owner[row] = key
    candidates.draws[row] = number
    return length, added


@entry
def write_lists(
    candidates: Candidates,
    counters: Counts,
    keys: Keys,
    sizes: Counts,
    needed: Int,
    identity: Identity,
    loads: Counts,
) -> None:
    """Write the lists of `keys`, which have these counters, hottest first, with so many workers each.

    Together the lists cover at least `needed` workers: the list of the hottest key, which is written last, takes in
    the workers that the others leave out. On return `sizes` holds the lengths that the lists have.
    """
    for counter in range(candidates.row_of.size):
        candidates.row_of[counter] = -1
    for word in range(candidates.rows.shape[1]):
        candidates.rows[COVERED, word] = _NONE
    listed = min(counters.size, candidates.least.size - FIRST_LIST)  # no room: the coldest keep their two workers
    covered = np.int64(0)
    for place in range(listed - 1, -1, -1):
        counter = counters[place]
        missing = needed - covered if place == 0 else 0
        row = FIRST_LIST + place
        sizes[place], added = _write_list(candidates, row, keys[place], sizes[place], missing, identity, loads)
        covered += added
        candidates.row_of[counter] = row
    candidates.used[0] = FIRST_LIST + listed


@entry
def measure_lists(
    candidates: Candidates, counters: Counts, keys: Keys, loads: Counts, sizes: Counts, least: Counts
) -> None:
    """Add the length of each key's list to `sizes`, and write the least load of its workers to `least`.

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
                least[place] = loads[worker] if sizes[place] == 0 else min(least[place], loads[worker])
                sizes[place] += 1


@entry
def find_lists(candidates: Candidates, summary: Summary) -> None:
    """Point every counter to the list of its key again, after keys have moved to other counters."""
    for at in range(candidates.row_of.size):
        candidates.row_of[at] = -1
    for row in range(FIRST_LIST, candidates.used[0]):
        counter = find(summary, candidates.owner[row])
        if counter >= 0:
            candidates.row_of[counter] = row


@part
def first_or_second(loads: Counts, key: np.uint64, identity: Identity, lead: float) -> np.int64:
    """Return the first worker of a cold key, or the second if the first is more than `lead` ahead.

    Most messages of a cold key then go to the same worker, and most cold keys have one replica. The hot keys even out
    the loads.
    """
    # lead 2, loads 7 and 5: the first, although it has more; 8 and 5: the second
    first = candidate(key, identity.salt, 0, loads.size)
    second = candidate(key, identity.salt, 1, loads.size)
    return second if loads[first] - loads[second] > lead else first


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
            worker = first_or_second(balance.loads, keys[i], identity, LEAD)
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
            worker = first_or_second(loads, keys[i], identity, LEAD)
        loads[worker] += 1
        start = start + 1 if start + 1 < loads.size else 0
        out[i] = worker
