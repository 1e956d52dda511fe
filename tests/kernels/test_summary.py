"""SpaceSaving on arrays, message by message: a hit adds, a miss takes a free counter or one of the least."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels import summary as kernels


def counters_of(summary):
    size = summary.scalars[kernels.SIZE]
    rows = zip(summary.keys[:size].tolist(), summary.counts.tolist(), summary.errors.tolist(), strict=False)
    return {key: (count, error) for key, count, error in rows}


def check_one_offer(summary, key, amount):
    """What one offer may do, whichever of several least counters it takes."""
    before = counters_of(summary)
    total = int(summary.scalars[kernels.TOTAL])
    kernels.offer_counts(summary, np.array([key], np.uint64), np.array([amount], np.int64))
    after = counters_of(summary)
    assert summary.scalars[kernels.TOTAL] == total + amount
    if key in before:
        count, error = before[key]
        assert after == before | {key: (count + amount, error)}
    elif len(before) < summary.keys.size:
        assert after == before | {key: (amount, 0)}
    else:
        (gone,) = before.keys() - after.keys()
        least = min(count for count, _ in before.values())
        assert before[gone][0] == least
        del before[gone]
        assert after == before | {key: (least + amount, least)}


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 1, 2, 17, 500])), max_size=150),
)
def test_every_offer_takes_its_own_a_free_or_a_least_counter(capacity, offers):
    summary = kernels.new_summary(capacity)
    for key, amount in offers:
        check_one_offer(summary, key, amount)


@pytest.mark.parametrize("capacity", [1, 2, 16, 17, 100])
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(lambda random: range(2000), id="all distinct"),
        pytest.param(lambda random: [i % 150 for i in range(2000)], id="a cycle longer than the counters"),
        pytest.param(lambda random: [0] * 900 + list(range(1, 1100)), id="one far above the others"),
        pytest.param(
            lambda random: [i % 99 for i in range(1900)] + [99] + list(range(100, 199)), id="one far below the others"
        ),
        pytest.param(lambda random: random.zipf(1.3, 2000).tolist(), id="skewed"),
        pytest.param(lambda random: (random.zipf(1.3, 2000) + np.arange(2000) // 50).tolist(), id="drifting"),
    ],
)
def test_streams_made_against_the_lazy_queue(capacity, stream):
    summary = kernels.new_summary(capacity)
    for key in stream(np.random.default_rng(5)):
        check_one_offer(summary, key % 2**64, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=300), st.floats(0.001, 1), st.floats(0, 10), st.integers(1, 40))
def test_observe_marks_the_messages_whose_count_is_high_enough_by_then(stream, threshold, margin, capacity):
    summary, one_by_one = kernels.new_summary(capacity), SpaceSaving(capacity)
    marks = np.empty(len(stream), np.int32)
    keys = np.array(stream, np.uint64)
    kernels.observe(summary, keys, marks, threshold, margin)
    for key, mark in zip(stream, marks.tolist(), strict=True):
        one_by_one.offer(key)
        hot = one_by_one.bounds(key)[1] >= threshold * one_by_one.total + margin
        assert (mark >= 0) == hot
    exact = naive.ExactCounts()
    if len(set(stream)) <= capacity:
        for key in stream:
            exact.offer(key)
        assert sorted(summary.counts[: len(set(stream))].tolist(), reverse=True) == exact.counts()


def test_a_mark_is_the_counter_of_the_key():
    summary = kernels.new_summary(4)
    keys = np.array([9, 9, 8, 9], np.uint64)
    marks = np.empty(4, np.int32)
    kernels.observe(summary, keys, marks, 0.5, 0.0)
    assert marks.tolist() == [0, 0, -1, 0]
    assert summary.keys[0] == 9


def test_keys_that_share_a_chain_of_the_table_are_told_apart():
    """Ten keys with one home: the last is found, the middle one is taken out."""
    summary = kernels.new_summary(10)
    at = kernels.home(summary, np.uint64(0))
    same_home = [key for key in range(2000) if kernels.home(summary, np.uint64(key)) == at][:14]
    assert len(same_home) == 14
    for key in same_home[:10] + same_home[3:7] + same_home + same_home[::-1]:
        check_one_offer(summary, key, 1)
    for key, (count, _) in counters_of(summary).items():
        assert summary.counts[kernels.look_up(summary, np.uint64(key))] == count
    assert kernels.look_up(summary, np.uint64(5_000_000)) == -1


def test_refill_replaces_everything_but_the_total():
    summary = kernels.new_summary(3)
    for key in [1, 2, 3, 4, 5]:
        check_one_offer(summary, key, 1)
    kernels.refill(summary, np.array([8, 9], np.uint64), np.array([7, 3]), np.array([1, 0]))
    assert counters_of(summary) == {8: (7, 1), 9: (3, 0)}
    assert summary.scalars[kernels.TOTAL] == 5
    assert kernels.look_up(summary, np.uint64(4)) == -1
    for key in [8, 10, 11, 12, 8, 9]:
        check_one_offer(summary, key, 2)
