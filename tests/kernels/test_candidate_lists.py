"""Lists of workers of different lengths: written, measured and used as the plain rules say."""

import operator
from functools import reduce

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
from kernel_streams import keys_of, marks_of, senders, small_candidates, streams
from keyspread.kernels import summary as summaries
from keyspread.kernels.balance import new_balance, regroup
from keyspread.kernels.candidate_lists import (
    COVERED,
    FIRST_LIST,
    find_lists,
    measure_lists,
    route_head_to_own_few,
    route_head_to_own_row,
    write_lists,
)
from keyspread.kernels.capacities import new_capacities
from keyspread.kernels.routing import Identity, new_candidates


def relative_capacities(workers, seed):
    given = np.random.default_rng(seed).integers(1, 5, workers)
    return (given / given.mean()).tolist()


@settings(max_examples=100, deadline=None)
@given(senders(), st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=6), st.booleans(), st.data())
def test_lists_equal_the_plain_ones(sender, keys, equal, data):
    identity, _, loads = sender
    workers = len(loads)
    relative = None if equal or workers == 1 else relative_capacities(workers, data.draw(st.integers(0, 99)))
    sizes = [data.draw(st.floats(1, workers)) for _ in keys]
    needed = data.draw(st.one_of(st.just(0.0), st.floats(0, workers)))
    candidates, capacities = new_candidates(workers, 10, 10), new_capacities(workers, relative)
    counters = np.array(data.draw(st.permutations(range(10)))[: len(keys)], np.int64)
    written, loads = np.array(sizes), np.array(loads, np.int64)
    write_lists(candidates, counters, np.array(keys, np.uint64), written, needed, identity, loads, capacities)

    relative = relative or [1.0] * workers
    slots = naive.slots_for(relative)
    lists = naive.lists_for(dict(zip(keys, sizes, strict=True)), needed, int(identity.salt), relative, slots)
    rows = [candidates.row_of[counter] for counter in counters]
    assert [naive.bits_of(candidates.rows[row]) for row in rows] == [set(workers) for workers in lists.values()]
    assert naive.bits_of(candidates.rows[COVERED]) == {worker for one in lists.values() for worker in one}
    assert [int(candidates.owner[row]) for row in rows] == keys
    assert written.tolist() == pytest.approx([sum(relative[one] for one in some) for some in lists.values()])
    assert [int(candidates.least[row]) for row in rows] == [min(loads[one] for one in some) for some in lists.values()]
    assert sorted(set(range(10)) - set(counters.tolist())) == np.flatnonzero(candidates.row_of < 0).tolist()
    for row, key in zip(rows, keys, strict=True):  # F_0 … F_draws-1 are the list, unless it took everyone
        drawn = set(naive.slot_candidates(key, int(identity.salt), int(candidates.draws[row]), slots))
        assert drawn == naive.bits_of(candidates.rows[row]) or len(naive.bits_of(candidates.rows[row])) == workers

    measured, least = np.zeros(len(keys)), np.zeros(len(keys))
    measure_lists(candidates, counters, np.array(keys, np.uint64), loads, capacities, measured, least)
    for place, some in enumerate(lists.values()):
        # Not `sum`: it rounds only once from Python 3.12 on.
        assert measured[place] == reduce(operator.add, (relative[one] for one in sorted(some)), 0.0)
        assert least[place] == min(loads[one] * (1 / relative[one]) for one in some)


def test_a_key_without_a_list_measures_nothing():
    candidates, capacities, loads = new_candidates(20, 5, 5), new_capacities(20, None), np.full(20, 3, np.int64)
    identity, keys = Identity(np.uint64(1), 0), np.array([8], np.uint64)
    write_lists(candidates, np.array([2]), keys, np.array([4.0]), 0.0, identity, loads, capacities)
    sizes, least = np.zeros(3), np.zeros(3)
    asked = np.array([8, 9, 8], np.uint64)  # its own counter; the same counter, another key; a counter without a list
    measure_lists(candidates, np.array([2, 2, 1]), asked, loads, capacities, sizes, least)
    assert (sizes.tolist(), least.tolist()) == ([4, 0, 0], [3, 0, 0])


def test_without_room_the_coldest_have_no_list():
    candidates, capacities, loads = small_candidates(30, rows=3), new_capacities(30, None), np.zeros(30, np.int64)
    counters, keys, sizes = np.arange(4), np.arange(4, dtype=np.uint64), np.array([9.0, 7.0, 5.0, 3.0])
    write_lists(candidates, counters, keys, sizes, 0.0, Identity(np.uint64(1), 0), loads, capacities)
    assert candidates.row_of[:4].tolist() == [FIRST_LIST, FIRST_LIST + 1, -1, -1]
    assert sizes.tolist() == [9, 7, 5, 3]


def test_lists_are_found_again_after_keys_have_moved_to_other_counters():
    candidates, capacities, loads = new_candidates(30, 6, 6), new_capacities(30, None), np.zeros(30, np.int64)
    keys = np.array([11, 12, 13], np.uint64)
    identity = Identity(np.uint64(1), 0)
    write_lists(candidates, np.array([0, 1, 2]), keys, np.array([5.0, 4.0, 3.0]), 0.0, identity, loads, capacities)
    summary = summaries.new_summary(6)
    summaries.refill(summary, np.array([13, 50, 11], np.uint64), np.array([9, 8, 7]), np.zeros(3, np.int64))
    find_lists(candidates, summary)  # 12 has no counter any more
    assert candidates.row_of.tolist() == [FIRST_LIST + 2, -1, FIRST_LIST, -1, -1, -1]


@settings(max_examples=100, deadline=None)
@given(streams(), senders(), st.integers(1, 9), st.booleans())
def test_routing_by_lists_equals_the_plain_loop(messages, sender, longest, by_levels):
    identity, sent, loads = sender
    workers, marks, salt = len(loads), marks_of(messages), int(identity.salt)
    counter_of = {key: int(mark) for (key, _, _), mark in zip(messages, marks, strict=True) if mark >= 0}
    listed = [key for number, key in enumerate(counter_of) if number % 3]
    sizes = np.minimum(longest, np.arange(2.0, 2.0 + len(listed)))
    ones, before = [1.0] * workers, np.array(loads, np.int64)
    lists = naive.lists_for(dict(zip(listed, sizes.tolist(), strict=True)), 0.0, salt, ones, range(workers))
    candidates = new_candidates(workers, 20, 20)
    counters = np.array([counter_of[key] for key in listed], np.int64)
    keys, capacities = np.array(listed, np.uint64), new_capacities(workers, None)
    write_lists(candidates, counters, keys, sizes, 0.0, identity, before, capacities)
    balance = new_balance(workers)
    balance.loads[:] = loads
    if by_levels:
        regroup(balance)
        route_head_to_own_row(keys_of(messages), marks, sent, identity, balance, candidates)
    else:
        # A list that took everyone is no prefix of the candidates. The scheme uses levels for it.
        assume(all(len(some) < workers for some in lists.values()))
        route_head_to_own_few(keys_of(messages), marks, sent, identity, balance.loads, candidates)
    routed, _ = naive.route_loop(
        messages,
        naive.Rules("first or second", "list", lists=lists),
        salt=salt,
        start=identity.start + sent,
        turn=0,
        loads=loads,
    )
    assert (marks.tolist(), balance.loads.tolist()) == (routed, loads)


def test_a_list_that_takes_4n_draws_holds_everyone():
    """Three workers, 12 draws: a key that draws its second worker with the 11th or the 12th."""
    relative = [2.8, 0.1, 0.1]
    slots, capacities, identity = naive.slots_for(relative), new_capacities(3, relative), Identity(np.uint64(1), 0)
    for needs, length in ((11, 2), (12, 3)):
        key = next(
            key
            for key in range(10_000)
            if all(worker == 0 for worker in naive.slot_candidates(key, 1, needs - 1, slots))
            and naive.slot_candidates(key, 1, needs, slots)[-1] > 0
        )
        candidates, keys = new_candidates(3, 1, 1), np.array([key], np.uint64)
        loads, sizes = np.zeros(3, np.int64), np.array([2.85])
        write_lists(candidates, np.array([0]), keys, sizes, 0.0, identity, loads, capacities)
        workers = naive.bits_of(candidates.rows[FIRST_LIST])
        assert workers == set(naive.first_distinct(key, 2.85, 1, relative, slots))
        assert len(workers) == length
