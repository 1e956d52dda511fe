"""The least loaded of any set of workers, found by levels, is the one that a look at every load finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.balance import (
    Balance,
    add,
    least_loaded,
    new_balance,
    precedes,
    regroup,
    words_for,
)


def with_few_levels(workers, levels=16):
    """Levels for only 16 loads, so that different loads share a level all the time."""
    words = words_for(workers)
    balance = Balance(
        np.zeros(workers, np.int64),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words_for(words)), np.uint64),
    )
    regroup(balance)
    return balance


def rows_with(members, workers):
    rows = np.zeros((2, words_for(workers)), np.uint64)  # row 0 is not asked for
    rows[0] = np.uint64(2**64 - 1)
    for worker in members:
        rows[1, worker // 64] |= np.uint64(1 << (worker % 64))
    return rows


def levels_show_the_loads(balance):
    """Check every bit of every level, and every bit of the digests if levels have them."""
    loads, levels, digests = balance
    expected, words = np.zeros_like(levels), levels.shape[1]
    expected_digests = np.zeros((len(levels), words_for(words)), np.uint64)
    for worker, load in enumerate(loads.tolist()):
        word = worker // 64
        expected[load % len(levels), word] |= np.uint64(1 << (worker % 64))
        expected_digests[load % len(levels), word // 64] |= np.uint64(1 << (word % 64))
    assert (levels == expected).all()
    if words >= 4:
        assert (digests == expected_digests).all()


def send(balance, worker):
    add(balance, worker, balance.loads[worker])


# 1 to 3 words are read one by one, 4 and more by digest. From 4160 workers on, a digest has two words.
SIZES = [1, 2, 3, 63, 64, 65, 192, 193, 300, 4160]


@pytest.mark.parametrize("workers", SIZES)
@pytest.mark.parametrize("pull", [0.0, 0.5, 0.98])
def test_least_loaded_equals_looking_at_every_load(workers, pull):
    """`pull`: how often a message goes to one of two overloaded workers instead of to the least loaded of a set."""
    random = np.random.default_rng(workers)
    balance = with_few_levels(workers)
    loads = [0] * workers
    for message in range(600 if workers < 1000 else 150):
        members = random.choice(workers, size=min(workers, 1 + int(random.integers(8))), replace=False).tolist()
        if message % 3 == 0:
            members = range(workers)
        start = int(random.integers(workers))
        least = min(loads[worker] for worker in members)
        at_least = int(random.integers(least + 1)) if message % 2 else least
        rows = rows_with(members, workers)
        found, load = least_loaded(balance, rows, 1, at_least, start)
        assert found == naive.least_loaded(loads, members, start)
        assert load == loads[found]
        chosen = int(random.integers(2)) % workers if random.random() < pull else found
        send(balance, chosen)
        loads[chosen] += 1
    assert balance.loads.tolist() == loads
    levels_show_the_loads(balance)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 260), st.integers(0, 2**32), st.integers(0, 400), st.booleans())
def test_levels_show_the_loads_after_any_messages(workers, seed, messages, few):
    random = np.random.default_rng(seed)
    balance = with_few_levels(workers) if few else new_balance(workers)
    favourites = random.integers(workers, size=3)
    for _ in range(messages):
        send(balance, int(favourites[random.integers(3)] if random.random() < 0.7 else random.integers(workers)))
    levels_show_the_loads(balance)
    assert balance.loads.sum() == messages


@pytest.mark.parametrize("gap", [15, 16, 17, 160])
def test_a_worker_on_the_same_level_with_another_load_is_not_taken(gap):
    """With 16 levels, the loads 40 and 40 + 16 are on the same one."""
    balance = with_few_levels(70)
    balance.loads[:] = 40 + gap
    balance.loads[[10, 66]] = 40
    regroup(balance)
    assert least_loaded(balance, rows_with(range(70), 70), 1, 40, 0) == (10, 40)
    assert least_loaded(balance, rows_with(range(70), 70), 1, 40, 50) == (66, 40)
    assert least_loaded(balance, rows_with(range(70), 70), 1, 30, 69) == (10, 40)
    assert least_loaded(balance, rows_with([3, 5], 70), 1, 40, 4) == (5, 40 + gap)


def test_the_least_loaded_is_found_if_the_loads_have_grown_by_more_than_there_are_levels():
    balance = with_few_levels(3)
    balance.loads[:] = [150, 140, 140]
    regroup(balance)
    assert least_loaded(balance, rows_with(range(3), 3), 1, 40, 2) == (2, 140)
    assert least_loaded(balance, rows_with(range(3), 3), 1, 140, 0) == (1, 140)
    assert least_loaded(balance, rows_with([0], 3), 1, 40, 0) == (0, 150)


def test_regroup_shows_the_new_loads_after_they_were_halved():
    random = np.random.default_rng(0)
    balance = new_balance(200)
    for worker in random.integers(200, size=2000).tolist():
        send(balance, worker)
    balance.loads[:] >>= 1
    regroup(balance)
    levels_show_the_loads(balance)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 1000), st.data())
def test_precedes_follows_the_order_from_start_on(workers, data):
    worker, other, start = (data.draw(st.integers(0, workers - 1)) for _ in range(3))
    assert precedes(worker, other, start) == naive.precedes(worker, other, start, workers)
