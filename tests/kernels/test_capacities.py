"""Candidates are drawn in proportion to capacity."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.capacities import draw_candidate, new_capacities


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=60).filter(lambda given: len(set(given)) > 1))
def test_slots_equal_the_plain_ones(given_capacities):
    mean = sum(given_capacities) / len(given_capacities)
    relative = [capacity / mean for capacity in given_capacities]
    if len(set(relative)) == 1:
        return  # differences that the division rounded away
    capacities = new_capacities(len(relative), relative)
    assert capacities.slots.tolist() == naive.slots_for(relative)
    assert capacities.slots.size == 64 * len(relative)
    assert set(capacities.slots.tolist()) == set(range(len(relative)))  # a candidate of some key, however small
    assert capacities.relative.tolist() == relative
    assert capacities.inverse.tolist() == [1 / capacity for capacity in relative]


@pytest.mark.parametrize("workers", [1, 2, 77])
def test_equal_workers_have_one_slot_each(workers):
    capacities = new_capacities(workers, None)
    assert capacities.slots.tolist() == list(range(workers)) == naive.slots_for([1.0] * workers)
    assert set(capacities.relative.tolist()) == set(capacities.inverse.tolist()) == {1.0}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 1000), st.booleans())
def test_a_candidate_is_drawn_from_the_slots(key, salt, number, equal):
    relative = [1.0] * 4 if equal else [0.4, 0.8, 1.2, 1.6]
    capacities = new_capacities(4, None if equal else relative)
    expected = naive.slot_candidates(key, salt, number + 1, naive.slots_for(relative))[number]
    assert draw_candidate(capacities, np.uint64(key), np.uint64(salt), number) == expected


def test_a_worker_with_four_times_the_capacity_is_drawn_about_four_times_as_often():
    capacities = new_capacities(2, [0.4, 1.6])
    drawn = Counter(int(draw_candidate(capacities, np.uint64(key), np.uint64(9), 0)) for key in range(20_000))
    assert drawn[1] / 20_000 == pytest.approx(0.8, abs=0.02)
