"""The least load per capacity of any set of workers, found by levels, is the one that a look at every worker finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.capacities import new_capacities
from keyspread.kernels.relative_loads import (
    SEARCHES,
    least_relative,
    new_relative_loads,
    set_value,
    show_loads,
)


def row_with(members, workers):
    rows = np.zeros((2, (workers + 63) // 64), np.uint64)  # row 0 is not asked for
    rows[0] = np.uint64(2**64 - 1)
    for worker in members:
        rows[1, worker // 64] |= np.uint64(1 << (worker % 64))
    return rows


def ring_shows_the_values(relative):
    """Check every bit of the ring, of the digests and of `filled`, and the lower bounds."""
    rows = len(relative.ring)
    ring, digests, filled = (np.zeros_like(array) for array in (relative.ring, relative.digests, relative.filled))
    for worker, value in enumerate(relative.values.tolist()):
        row, word = int(min(value * relative.scale[0], 2.0**62)) % rows, worker // 64
        ring[row, word] |= np.uint64(1 << worker % 64)
        digests[row, word // 64] |= np.uint64(1 << word % 64)
        filled[row // 64] |= np.uint64(1 << row % 64)
        assert relative.lowest[row] <= value
    assert (relative.ring == ring).all()
    assert (relative.digests == digests).all()
    assert (relative.filled == filled).all()


def capacities_of(workers, kind, random):
    """Equal capacities, two sizes (many ties), or any."""
    if kind == "equal" or workers == 1:
        return new_capacities(workers, None)
    given = np.where(np.arange(workers) % 5, 1.0, 4.0) if kind == "two sizes" else random.uniform(0.1, 3, workers)
    return new_capacities(workers, (given / given.mean()).tolist())


# From 4160 workers on, a digest has two words.
@pytest.mark.parametrize("workers", [1, 2, 3, 63, 64, 65, 193, 300, 4160])
@pytest.mark.parametrize("kind", ["equal", "two sizes", "any"])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_the_least_equals_a_look_at_every_worker(workers, kind, unit):
    """`unit` is right, or so wrong that the ring is turned many times or all workers are on one level."""
    random = np.random.default_rng(workers)
    capacities, relative = capacities_of(workers, kind, random), new_relative_loads(workers)
    loads = random.integers(0, 20, workers)
    show_loads(relative, loads, capacities, unit)
    for message in range(300 if workers < 1000 else 100):
        members = random.choice(workers, size=min(workers, 1 + int(random.integers(8))), replace=False).tolist()
        if message % 3 == 0:
            members = range(workers)
        values, start = (loads * capacities.inverse).tolist(), int(random.integers(workers))
        least = min(values[worker] for worker in members)
        at_least = least * random.random() if message % 2 else least
        found = int(least_relative(relative, row_with(members, workers), 1, at_least, start))
        assert found == naive.least_loaded(values, members, start)
        chosen = int(random.integers(workers)) if random.random() < 0.3 else found
        loads[chosen] += random.choice([0, 1, 1, 7, 10**4])
        set_value(relative, chosen, loads[chosen] * capacities.inverse[chosen])
    assert relative.values.tolist() == (loads * capacities.inverse).tolist()
    ring_shows_the_values(relative)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 130), st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e6]), st.integers(1, 2**40))
def test_the_width_adapts_and_no_choice_depends_on_it(workers, seed, unit, heaviest):
    random = np.random.default_rng(seed)
    capacities, relative = capacities_of(workers, "any", random), new_relative_loads(workers)
    loads, everyone = np.zeros(workers, np.int64), row_with(range(workers), workers)
    show_loads(relative, loads, capacities, unit)
    least = 0.0
    for message in range(60):
        if message % 3 == 0:
            relative.work[SEARCHES] = 10**6 * (message % 2)  # the next search checks the width
            relative.work[SEARCHES + 1 :] = random.integers(0, 10**8, 3)
        start = int(random.integers(workers))
        found = int(least_relative(relative, everyone, 1, least, start))
        assert found == naive.least_loaded((loads * capacities.inverse).tolist(), range(workers), start)
        least = relative.values[found]
        loads[found] += int(random.integers(0, heaviest))
        set_value(relative, found, loads[found] * capacities.inverse[found])
    ring_shows_the_values(relative)


def test_values_beyond_the_last_level_are_still_compared():
    """With very narrow levels, numbers of levels would not fit into 64 bits: all such workers are on one level."""
    relative, capacities = new_relative_loads(3), new_capacities(3, None)
    show_loads(relative, np.array([2**62, 2**62 - 1024, 2**62]), capacities, 1e-9)
    assert least_relative(relative, row_with(range(3), 3), 1, 0.0, 2) == 1
    assert least_relative(relative, row_with([0, 2], 3), 1, 2.0**61, 2) == 2


@pytest.mark.parametrize(("work", "factor"), [((1, 9, 0), 2.0), ((1, 1, 9), 0.5), ((7, 1, 0), 0.5), ((1, 1, 0), 1.0)])
def test_levels_get_narrower_if_many_are_compared_and_wider_if_many_are_searched(work, factor):
    relative = new_relative_loads(100)
    show_loads(relative, np.arange(100), new_capacities(100, None), 1.0)
    before = relative.scale[0]
    relative.work[:] = [2000, *(2000 * each for each in work)]
    least_relative(relative, row_with(range(100), 100), 1, 0.0, 0)
    assert relative.scale[0] == before * factor
