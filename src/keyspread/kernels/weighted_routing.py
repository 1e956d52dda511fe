"""Routing of messages that differ in weight, or to workers that differ in capacity: least load per capacity wins.

There is one loop for keys that have few candidates, which looks at each of them, and one for hot keys that have many,
which finds the least loaded by levels (see `relative_loads`). With equal workers and weights of 1 they return the same
workers as the loops in `routing` and `candidate_lists`.

    loads 60 and 50, relative capacities 1.5 and 0.5: 40 and 100 per capacity, so the first worker is less loaded
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Counts, Indices, Int, Keys
from keyspread.kernels.balance import precedes
from keyspread.kernels.candidate_lists import LEAD
from keyspread.kernels.capacities import Capacities, draw_candidate
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.relative_loads import RelativeLoads, least_relative, set_value
from keyspread.kernels.routing import EVERYONE, Candidates, Identity, row_of_key

CHOICES, ANYONE, OWN_LIST, IN_TURN = range(4)


class Rules(NamedTuple):
    """What a scheme does with a message. With OWN_LIST, a cold key has a first and a second worker; else two equals."""

    hot: int  # CHOICES, ANYONE, OWN_LIST or IN_TURN
    choices: int  # of CHOICES: the number of candidates
    unit: float  # of OWN_LIST: the mean weight of a message
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
def _first_or_second(
    key: np.uint64, identity: Identity, loads: Counts, capacities: Capacities, lead: float
) -> np.int64:
    """Return the first worker of a cold key, or the second if the first is more than `lead` ahead."""
    first = draw_candidate(capacities, key, identity.salt, 0)
    second = draw_candidate(capacities, key, identity.salt, 1)
    ahead = loads[first] * capacities.inverse[first] - loads[second] * capacities.inverse[second]
    return second if ahead > lead else first


@entry
def route_weighted_by_key(
    keys: Keys, weights: Counts, out: Indices, identity: Identity, loads: Counts, capacities: Capacities
) -> None:
    """Route every key to its first candidate."""
    for i in range(keys.size):
        worker = draw_candidate(capacities, keys[i], identity.salt, 0)
        loads[worker] += weights[i]
        out[i] = worker


@entry
def route_weighted(
    keys: Keys,
    weights: Counts,
    out: Indices,
    messages: int,
    identity: Identity,
    loads: Counts,
    capacities: Capacities,
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
            worker = _least_of(keys[i], identity, loads, capacities, rules.choices if out[i] >= 0 else 2, start)
        loads[worker] += weights[i]
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
    return turn


@part
def _row(
    rules: Rules,
    candidates: Candidates,
    counter: Int,
    key: np.uint64,
    identity: Identity,
    loads: Counts,
    capacities: Capacities,
) -> np.int64:
    """Return the row with the candidates of a hot key; -1 if it has no list of its own and must be treated as cold."""
    if rules.hot == ANYONE:
        return np.int64(EVERYONE)
    if rules.hot == CHOICES:
        return np.int64(row_of_key(candidates, counter, key, identity, loads, capacities, rules.choices))
    row = np.int64(candidates.row_of[counter])
    return row if row >= 0 and candidates.owner[row] == key else np.int64(-1)


@entry
def route_weighted_by_levels(
    keys: Keys,
    weights: Counts,
    out: Indices,
    messages: int,
    identity: Identity,
    loads: Counts,
    relative: RelativeLoads,
    capacities: Capacities,
    candidates: Candidates,
    rules: Rules,
) -> None:
    """Route by ANYONE, CHOICES or OWN_LIST. `relative` shows `loads`, before and after."""
    workers = loads.size
    start = (identity.start + messages) % workers
    for i in range(keys.size):
        row = np.int64(-1)
        if out[i] >= 0:
            row = _row(rules, candidates, out[i], keys[i], identity, loads, capacities)
        if row >= 0:
            worker = least_relative(relative, candidates.rows, row, candidates.least_relative[row], start)
            candidates.least_relative[row] = relative.values[worker]
        elif rules.hot == OWN_LIST:
            worker = _first_or_second(keys[i], identity, loads, capacities, LEAD * rules.unit)
        else:
            worker = _least_of(keys[i], identity, loads, capacities, 2, start)
        loads[worker] += weights[i]
        set_value(relative, worker, loads[worker] * capacities.inverse[worker])
        start = start + 1 if start + 1 < workers else 0
        out[i] = worker
