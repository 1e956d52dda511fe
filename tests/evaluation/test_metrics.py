"""Metrics: equal to counting by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.evaluation import metrics
from keyspread.streams.encoded import window_ends


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), st.data())
def test_imbalance_is_the_largest_share_above_the_fair_one(workers, data):
    assignment = data.draw(st.lists(st.integers(0, workers - 1), max_size=60))
    loads = np.bincount(np.array(assignment, np.int64), minlength=workers)
    assert metrics.imbalance(loads) == pytest.approx(naive.imbalance(assignment, workers), abs=1e-12)


def test_imbalance_at_the_ends():
    assert metrics.imbalance(np.zeros(5, np.int64)) == 0
    assert metrics.imbalance(np.full(4, 7)) == 0
    assert metrics.imbalance(np.array([9])) == 0
    assert metrics.imbalance(np.array([12, 0, 0, 0])) == 0.75


def test_skew_score_is_the_mean_deviation_over_the_mean():
    assert metrics.skew_score(np.array([4, 4, 4])) == 0
    assert metrics.skew_score(np.zeros(3)) == 0
    assert metrics.skew_score(np.array([6, 2, 1])) == pytest.approx((3 + 1 + 2) / 3 / 3)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 3000))
def test_windows_are_equal_up_to_one_message_cover_everything_and_none_is_empty(messages, windows):
    ends = window_ends(messages, windows).tolist()
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    assert len(ends) == min(windows, messages)
    assert sum(sizes) == messages
    if sizes:
        assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1
