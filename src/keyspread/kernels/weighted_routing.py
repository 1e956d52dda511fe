"""Routing of messages that differ in weight, or to workers that differ in capacity: least load per capacity wins.

One loop serves all schemes. It looks at every candidate: loads do not grow by one, so there are no levels to search.
With equal workers and weights of 1 it returns the same workers as the loops in `routing` and `candidate_lists`.

    loads 60 and 50, relative capacities 1.5 and 0.5: 40 and 100 per capacity, so the first worker is less loaded
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Bits, Counts, Indices, Int, Keys
from keyspread.kernels.balance import precedes
from keyspread.kernels.candidate_lists import LEAD
from keyspread.kernels.capacities import Capacities, draw_candidate
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.intrinsics import trailing_zeros
from keyspread.kernels.routing import Candidates, Identity

_ONE = np.uint64(1)
FIRST, LESS_OF_TWO, FIRST_OR_SECOND = range(3)  # rules for a cold key
CHOICES, ANYONE, OWN_LIST, IN_TURN = range(4)  # rules for a hot key


class Rules(NamedTuple):
    """What a scheme does with a message."""

    cold: int  # FIRST, LESS_OF_TWO or FIRST_OR_SECOND
    hot: int  # CHOICES, ANYONE, OWN_LIST or IN_TURN
    choices: int  # of CHOICES: the number of candidates
    unit: float  # of FIRST_OR_SECOND: the mean weight of a message
    turn: int  # of IN_TURN: the worker of the next hot message


@part
def _is_better(load: float, other_load: float, worker: Int, other: Int, start: Int) -> bool:
    """Return whether `worker`, with this load per capacity, is chosen before `other`."""
    return load < other_load or (load == other_load and precedes(worker, other, start))


@part
def _least_of(
    key: np.uint64, identity: Identity, loads: Counts, capacities: Capacities, choices: int, start: Int
) -> np.int64:
    """Return the least loaded of the first `choices` candidates."""
    best = draw_candidate(capacities, key, identity.salt, 0)
    least = loads[best] * capacities.inverse[best]
    for number in range(1, choices):
        worker = draw_candidate(capacities, key, identity.salt, number)
        load = loads[worker] * capacities.inverse[worker]
        if _is_better(load, least, worker, best, start):
            best, least = worker, load
    return best


@part
def _least_of_all(loads: Counts, capacities: Capacities, start: Int) -> np.int64:
    """Return the least loaded of all workers."""
    best, least = np.int64(0), loads[0] * capacities.inverse[0]
    for worker in range(1, loads.size):
        load = loads[worker] * capacities.inverse[worker]
        if _is_better(load, least, worker, best, start):
            best, least = np.int64(worker), load
    return best


@part
def _least_in_row(rows: Bits, row: Int, loads: Counts, capacities: Capacities, start: Int) -> np.int64:
    """Return the least loaded of the workers in a row of bits."""
    best, least = np.int64(-1), 0.0
    for word in range(rows.shape[1]):
        rest = rows[row, word]
        while rest:
            worker = (word << 6) + trailing_zeros(rest)
            rest &= rest - _ONE
            load = loads[worker] * capacities.inverse[worker]
            if best < 0 or _is_better(load, least, worker, best, start):
                best, least = np.int64(worker), load
    return best


@part
def _first_or_second(
    key: np.uint64, identity: Identity, loads: Counts, capacities: Capacities, lead: float
) -> np.int64:
    """Return the first worker of a cold key, or the second if the first is more than `lead` ahead."""
    first = draw_candidate(capacities, key, identity.salt, 0)
    second = draw_candidate(capacities, key, identity.salt, 1)
    ahead = loads[first] * capacities.inverse[first] - loads[second] * capacities.inverse[second]
    return second if ahead > lead else first


@part
def _worker_of_cold_key(
    rules: Rules, key: np.uint64, identity: Identity, loads: Counts, capacities: Capacities, start: Int
) -> np.int64:
    """Return the worker of a message whose key is not hot."""
    if rules.cold == FIRST:
        return draw_candidate(capacities, key, identity.salt, 0)
    if rules.cold == LESS_OF_TWO:
        return _least_of(key, identity, loads, capacities, 2, start)
    return _first_or_second(key, identity, loads, capacities, LEAD * rules.unit)


@entry
def route_weighted(
    keys: Keys,
    weights: Counts,
    out: Indices,
    messages: int,
    identity: Identity,
    loads: Counts,
    capacities: Capacities,
    candidates: Candidates,
    rules: Rules,
) -> int:
    """Route messages by `rules`. As in `routing`, out[i] is the counter of a hot key or -1, then the worker.

    Return the worker whose turn is next, for hot messages that are routed in turn.
    """
    workers, turn = loads.size, rules.turn
    start = (identity.start + messages) % workers
    for i in range(keys.size):
        row = np.int64(-1)
        if out[i] >= 0 and rules.hot == OWN_LIST:
            row = np.int64(candidates.row_of[out[i]])
            if row >= 0 and candidates.owner[row] != keys[i]:
                row = np.int64(-1)
        if out[i] < 0 or (rules.hot == OWN_LIST and row < 0):
            worker = _worker_of_cold_key(rules, keys[i], identity, loads, capacities, start)
        elif rules.hot == OWN_LIST:
            worker = _least_in_row(candidates.rows, row, loads, capacities, start)
        elif rules.hot == CHOICES:
            worker = _least_of(keys[i], identity, loads, capacities, rules.choices, start)
        elif rules.hot == ANYONE:
            worker = _least_of_all(loads, capacities, start)
        else:
            worker = np.int64(turn)
            turn = turn + 1 if turn + 1 < workers else 0
        loads[worker] += weights[i]
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    return turn
