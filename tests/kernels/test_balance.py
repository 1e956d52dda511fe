"""The least loaded of any set of workers, found by levels, is the one that a look at every load finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.balance import (
    ABOVE,
    BASE,
    PATIENCE,
    Balance,
    add,
    least_loaded,
    new_balance,
    precedes,
    regroup,
    words_for,
)


def with_few_levels(workers, levels=16):
    """A window of only 16 loads, so that loads leave it all the time."""
    words = words_for(workers)
    balance = Balance(
        np.zeros(workers, np.int64),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words_for(words)), np.uint64),
        np.zeros(3, np.int64),
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
    loads, levels, digests, scalars = balance
    base, end = int(scalars[BASE]), int(scalars[BASE]) + len(levels)
    assert base <= loads.min()
    expected, expected_digests = np.zeros_like(levels), np.zeros_like(digests)
    for worker, load in enumerate(loads.tolist()):
        if base <= load < end:
            word = worker // 64
            expected[load % len(levels), word] |= np.uint64(1 << (worker % 64))
            expected_digests[load % len(levels), word // 64] |= np.uint64(1 << (word % 64))
    assert (levels == expected).all()
    if levels.shape[1] >= 4:
        assert (digests == expected_digests).all()


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
        found = least_loaded(balance, rows, 1, at_least, start)
        assert found == naive.least_loaded(loads, members, start)
        chosen = int(random.integers(2)) % workers if random.random() < pull else found
        add(balance, chosen)
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
        add(balance, int(favourites[random.integers(3)] if random.random() < 0.7 else random.integers(workers)))
    levels_show_the_loads(balance)
    assert balance.loads.sum() == messages


def test_the_window_follows_loads_that_grow_together_and_those_far_above_it_are_still_found():
    balance = with_few_levels(5)
    loads = [0] * 5
    for message in range(600):  # worker 4 runs away, the others grow evenly
        worker = message // 2 % 4 if message % 2 else 4
        add(balance, worker)
        loads[worker] += 1
    assert balance.scalars[BASE] > 0  # it has moved
    assert least_loaded(balance, rows_with([4], 5), 1, 0, 0) == 4  # above the window: by a look at its load
    assert least_loaded(balance, rows_with([3, 4], 5), 1, 0, 0) == naive.least_loaded(loads, [3, 4], 0)


def test_the_least_loaded_is_found_if_all_workers_are_above_the_window():
    balance = with_few_levels(3)
    balance.loads[:] = [50, 40, 40]
    regroup(balance)
    balance.scalars[PATIENCE] = 10**6  # the window will not move by itself
    for _ in range(100):
        add(balance, 0)
        add(balance, 1)
        add(balance, 2)
    assert balance.scalars[BASE] == 40
    assert least_loaded(balance, rows_with(range(3), 3), 1, 40, 2) == 2
    assert least_loaded(balance, rows_with(range(3), 3), 1, 140, 0) == 1


def test_regroup_shows_the_new_loads_after_they_were_halved():
    random = np.random.default_rng(0)
    balance = new_balance(200)
    for worker in random.integers(200, size=2000).tolist():
        add(balance, worker)
    balance.loads[:] >>= 1
    regroup(balance)
    levels_show_the_loads(balance)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 1000), st.data())
def test_precedes_follows_the_order_from_start_on(workers, data):
    worker, other, start = (data.draw(st.integers(0, workers - 1)) for _ in range(3))
    assert precedes(worker, other, start) == naive.precedes(worker, other, start, workers)


def test_the_window_waits_longer_each_time_if_moving_it_does_not_help():
    """Worker 0 is always above the window and worker 1 never moves: the window stays where it is."""
    balance = with_few_levels(2)
    patience = []
    for _ in range(400):
        add(balance, 0)
        if balance.scalars[ABOVE] == 0 and balance.loads[0] >= 16:  # regrouped just now
            patience.append(int(balance.scalars[PATIENCE]))
    assert patience == sorted(patience)
    assert patience[-1] == balance.loads.size * 16  # the most that it waits
    assert balance.scalars[BASE] == 0


def test_the_window_waits_little_after_it_has_moved_far():
    balance = with_few_levels(160)
    assert balance.scalars[PATIENCE] == 11  # a sixteenth of the workers, and one
    regroup(balance)
    assert balance.scalars[PATIENCE] == 2 * 11 + 11  # it did not move
    balance.loads[:] = 8  # half of the window
    regroup(balance)
    assert (balance.scalars[BASE], balance.scalars[PATIENCE]) == (8, 11)
