"""The search for the number of choices asks few prefixes first and finds what a plain search finds."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.mixing import _prefix_fits, find_choices


@st.composite
def heads(draw):
    weights = sorted(draw(st.lists(st.floats(0.001, 1), min_size=1, max_size=25)), reverse=True)
    mass = draw(st.floats(0.01, 1))
    return [weight / math.fsum(weights) * mass for weight in weights]


@settings(max_examples=150, deadline=None)
@given(heads(), st.integers(2, 80), st.sampled_from([0.0, 1e-4, 1e-3, 0.02]))
def test_find_choices_equals_the_plain_search(head, workers, tolerance):
    expected = naive.find_choices(head, workers, tolerance)
    assume(expected == naive.find_choices(head, workers, tolerance + 1e-12))  # no tie, which rounding would decide
    assert find_choices(np.cumsum(head), workers, tolerance) == expected


@settings(max_examples=150, deadline=None)
@given(heads(), st.integers(2, 80), st.integers(2, 80), st.sampled_from([0.0, 1e-4, 1e-3, 0.02]))
def test_all_prefixes_fit_if_and_only_if_the_formula_says_so(head, choices, workers, tolerance):
    expected = naive.every_prefix_fits(head, choices, workers, tolerance)
    assume(expected == naive.every_prefix_fits(head, choices, workers, tolerance + 1e-12))
    cumulative = np.cumsum(head)
    fits = all(
        _prefix_fits(choices, prefix, cumulative[prefix - 1], cumulative[-1], workers, tolerance)
        for prefix in range(1, len(head) + 1)
    )
    assert fits == expected


@pytest.mark.parametrize(("head", "workers", "choices"), [([], 1, 1), ([0.5], 1, 1), ([], 10, 2), ([1.0], 10, 10)])
def test_the_edges(head, workers, choices):
    assert find_choices(np.cumsum(head), workers, 1e-4) == choices == naive.find_choices(head, workers)
