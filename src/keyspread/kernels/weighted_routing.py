"""Routing where messages differ in weight, or workers in capacity: least loaded means least load per capacity.

One loop for all schemes, which looks at every candidate: loads do not grow by one, so there are no levels to search.
With equal workers and weights of 1 it gives the same workers as the loops in `routing` and `own_rows`.
"""

from typing import Any

import numpy as np

from keyspread.kernels.balance import comes_first
from keyspread.kernels.candidate_lists import LEAD
from keyspread.kernels.capacities import drawn
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros

_ONE = np.uint64(1)
FIRST, LESS_OF_TWO, FIRST_OR_SECOND = range(3)  # what a cold key may use
CHOICES, ANYONE, OWN_LIST, IN_TURN = range(4)  # what a hot key may use


@part
def _better(burden: Any, other_burden: Any, worker: Any, other: Any, start: Any) -> Any:
    return burden < other_burden or (burden == other_burden and comes_first(worker, other, start))


@part
def _least_of(key: Any, identity: Any, loads: Any, fleet: Any, choices: Any, start: Any) -> Any:
    """Return the least loaded of the first `choices` candidates."""
    best = drawn(fleet, key, identity.keys, 0)
    least = loads[best] * fleet.burden[best]
    for number in range(1, choices):
        worker = drawn(fleet, key, identity.keys, number)
        burden = loads[worker] * fleet.burden[worker]
        if _better(burden, least, worker, best, start):
            best, least = worker, burden
    return best


@part
def _least_of_all(loads: Any, fleet: Any, start: Any) -> Any:
    best, least = np.int64(0), loads[0] * fleet.burden[0]
    for worker in range(1, loads.size):
        burden = loads[worker] * fleet.burden[worker]
        if _better(burden, least, worker, best, start):
            best, least = np.int64(worker), burden
    return best


@part
def _least_in_row(rows: Any, row: Any, loads: Any, fleet: Any, start: Any) -> Any:
    best, least = np.int64(-1), 0.0
    for word in range(rows.shape[1]):
        rest = rows[row, word]
        while rest:
            worker = (word << 6) + trailing_zeros(rest)
            rest &= rest - _ONE
            burden = loads[worker] * fleet.burden[worker]
            if best < 0 or _better(burden, least, worker, best, start):
                best, least = np.int64(worker), burden
    return best


@part
def _first_or_second(key: Any, identity: Any, loads: Any, fleet: Any, lead: Any) -> Any:
    first, second = drawn(fleet, key, identity.keys, 0), drawn(fleet, key, identity.keys, 1)
    ahead = loads[first] * fleet.burden[first] - loads[second] * fleet.burden[second]
    return second if ahead > lead else first


@part
def _cold(rule: Any, key: Any, identity: Any, loads: Any, fleet: Any, start: Any, lead: Any) -> Any:
    if rule == FIRST:
        return drawn(fleet, key, identity.keys, 0)
    if rule == LESS_OF_TWO:
        return _least_of(key, identity, loads, fleet, 2, start)
    return _first_or_second(key, identity, loads, fleet, lead)


@entry
def route_uneven(
    keys: Any,
    weights: Any,
    out: Any,
    messages: Any,
    identity: Any,
    loads: Any,
    fleet: Any,
    candidates: Any,
    cold: Any,
    hot: Any,
    choices: Any,
    unit: Any,
    turn: Any,
) -> Any:
    """Route messages; `out` holds what the heavy hitters say of each (-1: cold), then its worker.

    `unit` is the mean weight of a message. Return whose turn is next, where hot messages go in turn.
    """
    workers = loads.size
    start = (identity.turn + messages) % workers
    for i in range(keys.size):
        row = np.int64(-1)
        if out[i] >= 0 and hot == OWN_LIST:
            row = np.int64(candidates.row_of[out[i]])
            if row >= 0 and candidates.owner[row] != keys[i]:
                row = np.int64(-1)
        if out[i] < 0 or (hot == OWN_LIST and row < 0):
            worker = _cold(cold, keys[i], identity, loads, fleet, start, LEAD * unit)
        elif hot == OWN_LIST:
            worker = _least_in_row(candidates.rows, row, loads, fleet, start)
        elif hot == CHOICES:
            worker = _least_of(keys[i], identity, loads, fleet, choices, start)
        elif hot == ANYONE:
            worker = _least_of_all(loads, fleet, start)
        else:
            worker = np.int64(turn)
            turn = turn + 1 if turn + 1 < workers else 0
        loads[worker] += weights[i]
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    return turn
