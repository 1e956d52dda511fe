"""Lists of workers of different lengths: written, measured and used as the plain rules say."""

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
from keyspread.kernels.routing import Identity, new_candidates

PLAIN = Identity(np.uint64(1), 0)


def numbers(values):
    return np.array(values, np.int64)


def keys_with(values):
    return np.array(values, np.uint64)


@settings(max_examples=100, deadline=None)
@given(senders(), st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=6), st.data())
def test_lists_equal_the_plain_ones(sender, keys, data):
    identity, _, loads = sender
    workers = len(loads)
    sizes = [data.draw(st.integers(1, workers)) for _ in keys]
    needed = data.draw(st.one_of(st.just(0), st.integers(0, workers)))
    candidates = new_candidates(workers, 10, 10)
    counters = numbers(data.draw(st.permutations(range(10)))[: len(keys)])
    written, loads = numbers(sizes), numbers(loads)
    write_lists(candidates, counters, keys_with(keys), written, needed, identity, loads)

    salt = int(identity.salt)
    lists = naive.lists_for(dict(zip(keys, sizes, strict=True)), needed, salt, workers)
    rows = [candidates.row_of[counter] for counter in counters]
    assert [naive.bits_of(candidates.rows[row]) for row in rows] == [set(listed) for listed in lists.values()]
    assert naive.bits_of(candidates.rows[COVERED]) == {worker for listed in lists.values() for worker in listed}
    assert [int(candidates.owner[row]) for row in rows] == keys
    assert written.tolist() == [len(listed) for listed in lists.values()]
    assert [int(candidates.least[row]) for row in rows] == [loads[listed].min() for listed in lists.values()]
    assert sorted(set(range(10)) - set(counters.tolist())) == np.flatnonzero(candidates.row_of < 0).tolist()
    for row, key in zip(rows, keys, strict=True):  # F_0 … F_draws-1 are the list, unless it took everyone
        drawn = set(naive.salted_candidates(key, salt, int(candidates.draws[row]), workers))
        assert drawn == naive.bits_of(candidates.rows[row]) or len(naive.bits_of(candidates.rows[row])) == workers

    measured, least = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    measure_lists(candidates, counters, keys_with(keys), loads, measured, least)
    assert measured.tolist() == [len(listed) for listed in lists.values()]
    assert least.tolist() == [loads[listed].min() for listed in lists.values()]


def test_a_key_without_a_list_measures_nothing():
    candidates, loads = new_candidates(20, 5, 5), np.full(20, 3, np.int64)
    write_lists(candidates, numbers([2]), keys_with([8]), numbers([4]), 0, PLAIN, loads)
    sizes, least = np.zeros(3, np.int64), np.zeros(3, np.int64)
    asked = keys_with([8, 9, 8])  # its own counter; the same counter, another key; a counter without a list
    measure_lists(candidates, numbers([2, 2, 1]), asked, loads, sizes, least)
    assert (sizes.tolist(), least.tolist()) == ([4, 0, 0], [3, 0, 0])


def test_without_room_the_coldest_have_no_list():
    candidates, sizes = small_candidates(30, rows=3), numbers([9, 7, 5, 3])
    write_lists(candidates, np.arange(4), keys_with(range(4)), sizes, 0, PLAIN, np.zeros(30, np.int64))
    assert candidates.row_of[:4].tolist() == [FIRST_LIST, FIRST_LIST + 1, -1, -1]
    assert sizes.tolist() == [9, 7, 5, 3]


def test_lists_are_found_again_after_keys_have_moved_to_other_counters():
    candidates, keys = new_candidates(30, 6, 6), keys_with([11, 12, 13])
    write_lists(candidates, numbers([0, 1, 2]), keys, numbers([5, 4, 3]), 0, PLAIN, np.zeros(30, np.int64))
    summary = summaries.new_summary(6)
    summaries.refill(summary, keys_with([13, 50, 11]), numbers([9, 8, 7]), np.zeros(3, np.int64))
    find_lists(candidates, summary)  # 12 has no counter any more
    assert candidates.row_of.tolist() == [FIRST_LIST + 2, -1, FIRST_LIST, -1, -1, -1]


@settings(max_examples=100, deadline=None)
@given(streams(), senders(), st.integers(1, 9), st.booleans())
def test_routing_by_lists_equals_the_plain_loop(messages, sender, longest, by_levels):
    identity, sent, loads = sender
    workers, marks, salt = len(loads), marks_of(messages), int(identity.salt)
    counter_of = {key: int(mark) for (key, _, _), mark in zip(messages, marks, strict=True) if mark >= 0}
    listed = [key for number, key in enumerate(counter_of) if number % 3]
    sizes = np.minimum(longest, np.arange(2, 2 + len(listed)))
    lists = naive.lists_for(dict(zip(listed, sizes.tolist(), strict=True)), 0, salt, workers)
    candidates = new_candidates(workers, 20, 20)
    counters = numbers([counter_of[key] for key in listed])
    write_lists(candidates, counters, keys_with(listed), sizes, 0, identity, numbers(loads))
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


@pytest.mark.parametrize(("needs", "length"), [(15, 3), (16, 4)])
def test_a_list_that_takes_4n_draws_holds_everyone(needs, length):
    """Four workers, 16 draws: a key that draws its third worker with the 15th or the 16th."""
    key = next(
        key
        for key in range(200_000)
        if len(set(naive.salted_candidates(key, 1, needs - 1, 4))) == 2
        and len(set(naive.salted_candidates(key, 1, needs, 4))) == 3
    )
    candidates = new_candidates(4, 1, 1)
    write_lists(candidates, numbers([0]), keys_with([key]), numbers([3]), 0, PLAIN, np.zeros(4, np.int64))
    workers = naive.bits_of(candidates.rows[FIRST_LIST])
    assert workers == set(naive.first_distinct(key, 3, 1, 4))
    assert len(workers) == length
