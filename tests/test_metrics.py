"""Metrics: equal to counting by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import metrics


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
    ends = metrics.window_ends(messages, windows).tolist()
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    assert len(ends) == min(windows, messages)
    assert sum(sizes) == messages
    if sizes:
        assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 10))
def test_loads_by_window_count_each_window(assignment, windows):
    ends = metrics.window_ends(len(assignment), windows)
    table = metrics.loads_by_window(np.array(assignment, np.int32), 5, ends)
    assert table.shape == (ends.size, 5)
    begin = 0
    for row, end in zip(table.tolist(), ends.tolist(), strict=True):
        assert row == [assignment[begin:end].count(worker) for worker in range(5)]
        begin = end


@pytest.mark.parametrize("cells", [1, 7, 40, 1 << 30])
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 4)), max_size=80))
def test_workers_per_key_counts_distinct_pairs_in_any_number_of_rounds(pairs, cells):
    keys, workers = [key for key, _ in pairs], [worker for _, worker in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_MOST_CELLS", cells)
        counted = metrics.workers_per_key(np.array(keys, np.int64), np.array(workers, np.int32), 15, 5)
    sets = naive.workers_of_keys(keys, workers)
    assert counted.tolist() == [len(sets.get(key, ())) for key in range(15)]
    assert counted.sum() == naive.replicas(keys, workers)
