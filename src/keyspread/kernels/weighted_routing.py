"""Routing of messages that differ in weight.

There is one loop for keys that have few candidates, which looks at each of them, and one for hot keys that have many,
which finds the least loaded by levels (see `weighted_balance`). With weights of 1 they return the same workers as the
loops in `routing` and `candidate_lists`.
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Counts, Indices, Int, Keys
from keyspread.kernels.candidate_lists import LEAD, first_or_second
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.routing import EVERYONE, Candidates, Identity, least_of_few, row_of_key
from keyspread.kernels.weighted_balance import WeightedBalance, add_weight, least_weighted

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
