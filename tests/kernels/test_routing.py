"""Every loop over messages picks the workers that the plain loop picks, and leaves the same loads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernel_streams import keys_of, marks_of, senders, small_candidates, streams
from keyspread.kernels import routing
from keyspread.kernels.balance import new_balance, regroup
from keyspread.kernels.routing import EVERYONE, Identity, clear_candidates, new_candidates

random_messages = settings(max_examples=60, deadline=None)


def expected(messages, sender, rules, turn=0):
    """The workers, the loads and the next turn by the oracle."""
    identity, sent, loads = sender
    loads = list(loads)
    routed, turn = naive.route_loop(
        messages, rules, salt=int(identity.salt), start=identity.start + sent, turn=turn, loads=loads
    )
    return routed, loads, turn


def balance_of(loads):
    balance = new_balance(len(loads))
    balance.loads[:] = loads
    regroup(balance)
    return balance


def numbers(loads):
    return np.array(loads, np.int64)


@random_messages
@given(streams(), senders())
def test_route_head_to_anyone(messages, sender):
    identity, sent, loads = sender
    out, balance, candidates = marks_of(messages), balance_of(loads), new_candidates(len(loads), 20, 10)
    half = len(messages) // 2  # the second call continues where the first ended
    keys = keys_of(messages)
    routing.route_head_to_anyone(keys[:half], out[:half], sent, identity, balance, candidates)
    routing.route_head_to_anyone(keys[half:], out[half:], sent + half, identity, balance, candidates)
    assert (out.tolist(), balance.loads.tolist()) == expected(messages, sender, naive.Rules(hot="all"))[:2]


@random_messages
@given(streams(), senders(), st.integers(1, 40), st.integers(2, 12))
def test_route_head_to_row(messages, sender, choices, rows):
    """With room for one key up to room for all: when it runs out, all rows are dropped and written again."""
    identity, sent, loads = sender
    out, balance, candidates = marks_of(messages), balance_of(loads), small_candidates(len(loads), rows)
    half = len(messages) // 2
    keys = keys_of(messages)
    routing.route_head_to_row(keys[:half], out[:half], sent, identity, balance, candidates, choices)
    routing.route_head_to_row(keys[half:], out[half:], sent + half, identity, balance, candidates, choices)
    assert (out.tolist(), balance.loads.tolist()) == expected(messages, sender, naive.Rules(choices=choices))[:2]
    for row in range(1, int(candidates.used[0])):  # every row holds the candidates of its owner
        key = int(candidates.owner[row])
        among = naive.salted_candidates(key, int(identity.salt), choices, len(loads))
        assert naive.bits_of(candidates.rows[row]) == set(among)
        assert candidates.least[row] <= min(balance.loads[worker] for worker in among)


def test_rows_that_do_not_fit_into_the_cache_are_prefetched_and_change_nothing():
    workers, keys = 3000, np.random.default_rng(1).integers(0, 2**64, 120, np.uint64)
    messages = [(int(key), 1, number % 5 > 0) for number, key in enumerate(np.repeat(keys, 4))]
    sender = Identity(np.uint64(99), 5), 0, [0] * workers
    candidates = new_candidates(workers, 200, 3000)
    assert candidates.rows.size > 1 << 16
    balance, out = balance_of([0] * workers), marks_of(messages)
    routing.route_head_to_row(keys_of(messages), out, 0, sender[0], balance, candidates, 20)
    assert (out.tolist(), balance.loads.tolist()) == expected(messages, sender, naive.Rules(choices=20))[:2]


@pytest.mark.parametrize("workers", [1, 64, 65, 300])
def test_new_candidates_hold_everyone_and_nothing_else(workers):
    candidates = new_candidates(workers, capacity=7, most_rows=100)
    assert naive.bits_of(candidates.rows[EVERYONE]) == set(range(workers))
    assert not candidates.rows[EVERYONE + 1 :].any()
    assert (candidates.row_of.tolist(), candidates.used.tolist()) == ([-1] * 7, [1])
    assert len(candidates.rows) == 101


def test_cleared_candidates_are_written_again_with_the_new_number_of_choices():
    identity, candidates, balance = Identity(np.uint64(3), 0), new_candidates(50, 5, 10), balance_of([0] * 50)
    key = np.array([77], np.uint64)
    for choices in (5, 9):
        clear_candidates(candidates)
        routing.route_head_to_row(key, np.zeros(1, np.int32), 0, identity, balance, candidates, choices)
        assert naive.bits_of(candidates.rows[1]) == set(naive.salted_candidates(77, 3, choices, 50))


def test_the_row_of_all_workers_is_never_given_to_a_key():
    """There is room for 64 hot keys, and 200 come: the rows are dropped and used again, but for row EVERYONE."""
    candidates = new_candidates(50, capacity=200, most_rows=1)
    keys, counters = np.arange(200, dtype=np.uint64), np.arange(200, dtype=np.int32)
    identity, balance = Identity(np.uint64(7), 0), new_balance(50)
    routing.route_head_to_row(keys, counters, 0, identity, balance, candidates, 7)
    assert naive.bits_of(candidates.rows[EVERYONE]) == set(range(50))
