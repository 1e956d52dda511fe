"""The least loaded of any set of workers, found by levels, is the one that a look at every worker finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.weighted import SEARCHES, add_weight, least_weighted, new_weighted_balance, show_loads


def row_with(members, workers):
    rows = np.zeros((2, (workers + 63) // 64), np.uint64)  # row 0 is not asked for
    rows[0] = np.uint64(2**64 - 1)
    for worker in members:
        rows[1, worker // 64] |= np.uint64(1 << (worker % 64))
    return rows


def balance_of(loads, unit):
    balance = new_weighted_balance(np.array(loads, np.int64))
    show_loads(balance, unit)
    return balance


def check_ring(balance):
    """Check every bit of the ring, of the digests and of `filled`, and the lower bounds."""
    rows = len(balance.ring)
    ring, digests, filled = (np.zeros_like(array) for array in (balance.ring, balance.digests, balance.filled))
    for worker, load in enumerate(balance.loads.tolist()):
        row, word = int(min(load * balance.scale[0], 2.0**62)) % rows, worker // 64
        ring[row, word] |= np.uint64(1 << worker % 64)
        digests[row, word // 64] |= np.uint64(1 << word % 64)
        filled[row // 64] |= np.uint64(1 << row % 64)
        assert balance.lowest[row] <= load
    assert (balance.ring == ring).all()
    assert (balance.digests == digests).all()
    assert (balance.filled == filled).all()


# From 4160 workers on, a digest has two words.
@pytest.mark.parametrize(
    ("workers", "unit"), [(1, 1.0), (3, 1e6), (64, 1e-3), (65, 1.0), (193, 1e6), (300, 1e-3), (300, 1.0), (4160, 1.0)]
)
def test_the_least_equals_a_look_at_every_worker(workers, unit):
    """`unit` is right, or so wrong that the ring is turned many times or all workers are on one level."""
    random = np.random.default_rng(workers)
    loads = random.integers(0, 20, workers).tolist()
    balance = balance_of(loads, unit)
    for message in range(300 if workers < 1000 else 100):
        members = random.choice(workers, size=min(workers, 1 + int(random.integers(8))), replace=False).tolist()
        if message % 3 == 0:
            members = range(workers)
        start = int(random.integers(workers))
        least = min(loads[worker] for worker in members)
        at_least = int(least * random.random()) if message % 2 else least
        worker = int(least_weighted(balance, row_with(members, workers), 1, at_least, start))
        assert worker == naive.least_loaded(loads, members, start)
        chosen = int(random.integers(workers)) if random.random() < 0.3 else worker
        weight = int(random.choice([0, 1, 1, 7, 10**4]))
        loads[chosen] += weight
        add_weight(balance, chosen, weight)
    assert balance.loads.tolist() == loads
    check_ring(balance)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 130), st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e6]), st.integers(1, 2**40))
def test_the_width_adapts_and_no_choice_depends_on_it(workers, seed, unit, heaviest):
    random = np.random.default_rng(seed)
    balance, everyone = balance_of([0] * workers, unit), row_with(range(workers), workers)
    least = 0
    for message in range(60):
        if message % 3 == 0:
            balance.work[SEARCHES] = 10**6 * (message % 2)  # the next search checks the width
            balance.work[SEARCHES + 1 :] = random.integers(0, 10**8, 3)
        start = int(random.integers(workers))
        worker = int(least_weighted(balance, everyone, 1, least, start))
        assert worker == naive.least_loaded(balance.loads.tolist(), range(workers), start)
        least = int(balance.loads[worker])
        add_weight(balance, worker, int(random.integers(0, heaviest)))
    check_ring(balance)


@pytest.mark.parametrize(("work", "factor"), [((1, 9, 0), 2.0), ((1, 1, 9), 0.5), ((7, 1, 0), 0.5), ((1, 1, 0), 1.0)])
def test_levels_get_narrower_if_many_are_compared_and_wider_if_many_are_searched(work, factor):
    balance = balance_of(range(100), 1.0)
    before = balance.scale[0]
    balance.work[:] = [2000, *(2000 * each for each in work)]
    least_weighted(balance, row_with(range(100), 100), 1, 0, 0)
    assert balance.scale[0] == before * factor
