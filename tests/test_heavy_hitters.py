"""SpaceSaving: the bounds hold on any stream, after merging and fading, and no hot key is missing."""

import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import SpaceSaving
from keyspread.streams import zipf

capacities = st.integers(1, 25)
streams = st.lists(st.integers(-20, 40), max_size=200)
# A few keys often, many keys rarely: counters fill up and are taken over.
skewed = st.lists(st.one_of(st.integers(0, 3), st.integers(4, 60)), max_size=200)
shares = st.floats(0.001, 1)


def summary_of(stream, capacity):
    summary = SpaceSaving(capacity)
    summary.offer_many(np.array(stream, np.int64))
    return summary


def state_of(summary):
    return summary.total, summary.capacity, summary.top(summary.capacity)


def check_guarantees(summary, true, slack=0):
    """Check all that SpaceSaving promises. `true` are the counts of the stream; fading adds `slack` to the width."""
    listed = {key: (lower, upper) for key, lower, upper in summary.top(summary.capacity)}
    least = min((upper for _, upper in listed.values()), default=0) if len(listed) == summary.capacity else 0
    assert len(listed) == len(summary) <= summary.capacity
    for key in true.keys() | listed.keys() | {999}:
        lower, upper = summary.bounds(key)
        assert 0 <= lower <= true[key] <= upper
        assert (upper - lower) * summary.capacity <= summary.total + slack * summary.capacity
        assert (lower, upper) == listed.get(key, (0, least))
    for threshold in (Fraction(1, summary.capacity), Fraction(1, 4), Fraction(1)):
        check_head(summary, true, float(threshold))


def check_head(summary, true, threshold):
    head = summary.head(threshold)
    total = max(1, summary.total)
    assert head == [entry for entry in summary.top(summary.capacity) if entry[2] / total >= threshold]
    if Fraction(threshold) * summary.capacity >= 1:
        hot = {key for key, count in true.items() if count and count >= Fraction(threshold) * summary.total}
        assert hot <= {key for key, _, _ in head}  # no false negatives


@settings(max_examples=100, deadline=None)
@given(st.one_of(streams, skewed), capacities)
def test_bounds_hold_on_any_stream(stream, capacity):
    summary = summary_of(stream, capacity)
    assert summary.total == len(stream)
    check_guarantees(summary, Counter(stream))


@settings(max_examples=100, deadline=None)
@given(skewed, shares)
def test_no_key_at_or_above_the_threshold_is_missing_and_none_is_listed_far_below(stream, threshold):
    capacity = int(1 / threshold) + 1
    summary, true = summary_of(stream, capacity), Counter(stream)
    check_head(summary, true, threshold)
    for key, _, _ in summary.head(threshold):
        assert true[key] >= (threshold - 1 / capacity) * len(stream) - 1e-9


@pytest.mark.parametrize("workers", [5, 15, 50, 75, 100])
def test_a_key_exactly_at_the_threshold_is_in_the_head(workers):
    """7 of 525 messages are a share of 1/75, although 1/75 * 525 is 7.000000000000001 in floating point."""
    for count in range(1, 40):
        summary = SpaceSaving(10 * workers)
        summary.offer(1, count)
        summary.offer(2, 5 * workers * count - count)
        assert count / summary.total == 1 / (5 * workers)
        assert [key for key, _, _ in summary.head(1 / (5 * workers))] == [2, 1]


@settings(max_examples=60, deadline=None)
@given(st.one_of(streams, skewed), capacities)
def test_top_is_sorted_by_upper_bound_and_cut_at_k(stream, capacity):
    summary = summary_of(stream, capacity)
    everything = summary.top(capacity)
    assert everything == sorted(everything, key=lambda entry: (-entry[2], entry[0]))
    assert summary.counts().tolist() == [upper for _, _, upper in everything]
    for k in (0, 1, 3, 1000):
        assert summary.top(k) == everything[:k]


@settings(max_examples=80, deadline=None)
@given(skewed, capacities, st.lists(st.integers(0, 200), max_size=4))
def test_many_at_once_is_the_same_as_one_by_one(stream, capacity, cuts):
    one_by_one, in_parts = SpaceSaving(capacity), SpaceSaving(capacity)
    for key in stream:
        one_by_one.offer(key)
    for part in np.split(np.array(stream, np.int64), sorted(min(cut, len(stream)) for cut in cuts)):
        in_parts.offer_many(part)
    assert state_of(one_by_one) == state_of(in_parts) == state_of(summary_of(stream, capacity))


def test_a_hash_is_64_bits_signed_or_not():
    summary = SpaceSaving(4)
    summary.offer(-1)
    summary.offer(2**64 - 1)
    summary.offer_many(np.array([2**64 - 1], np.uint64))
    summary.offer(np.int64(-1))
    assert summary.top(4) == [(-1, 4, 4)]
    assert summary.bounds(-1) == summary.bounds(2**64 - 1) == (4, 4)


def test_an_empty_summary():
    summary = SpaceSaving(3)
    summary.offer_many(np.empty(0, np.int64))
    assert summary.total == len(summary) == 0
    assert summary.top(3) == summary.head(0.5) == []
    assert summary.bounds(1) == (0, 0)
    assert repr(summary) == "SpaceSaving(capacity=3, used=0, total=0)"


def test_a_pickled_copy_counts_on_in_the_same_way():
    summary = summary_of(range(100), 10)
    copy = pickle.loads(pickle.dumps(summary))
    for either in (summary, copy):
        either.offer_many(np.arange(50, 300))
    assert state_of(summary) == state_of(copy)


# Merging.


@settings(max_examples=120, deadline=None)
@given(skewed, streams, capacities, capacities, skewed)
def test_a_merge_keeps_all_guarantees_for_both_streams_and_for_later_messages(left, right, a, b, more):
    one, other = summary_of(left, a), summary_of(right, b)
    before = state_of(one), state_of(other)
    merged = one.merge(other)
    assert (state_of(one), state_of(other)) == before
    assert merged.capacity == min(a, b)
    assert merged.total == len(left) + len(right)
    check_guarantees(merged, Counter(left) + Counter(right))
    for key in more:
        merged.offer(key)
        check_guarantees(
            merged, Counter(left) + Counter(right) + Counter(more[: merged.total - len(left) - len(right)])
        )
    assert (state_of(one), state_of(other)) == before


def test_the_order_of_a_merge_does_not_matter():
    left, right = summary_of(zipf(1.1, 500, 5000, seed=1), 40), summary_of(zipf(1.1, 500, 3000, seed=2), 60)
    assert state_of(left.merge(right)) == state_of(right.merge(left))


# Fading.


# Long streams, and streams that are hard to count.


def test_memory_does_not_grow_with_the_number_of_keys():
    small, large = summary_of(np.arange(1000), 100), summary_of(np.arange(1_000_000), 100)
    assert len(pickle.dumps(large)) == pytest.approx(len(pickle.dumps(small)), rel=0.05)


# Weights.


def test_large_weights_need_no_long_search():
    """Weights up to a million, and a new key with every message: every message needs the least counter."""
    summary = SpaceSaving(1000)
    summary.offer_many(np.arange(300_000), np.random.default_rng(1).integers(1, 1 << 20, 300_000))
    assert max(upper for _, _, upper in summary.top(1)) <= summary.total / 1000 * 1.2


# What the rest of the package uses.


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3000)), max_size=100),
    st.lists(st.integers(0, 60), max_size=100),
    st.integers(1, 20),
    st.booleans(),
)
def test_a_loaded_state_continues_exactly_like_the_saved_one(messages, more, capacity, fade):
    """The queue is part of the state: of several least counters, both take the same."""
    summary, copy = SpaceSaving(capacity), SpaceSaving(capacity)
    keys, weights = np.array([key for key, _ in messages], np.int64), np.array([w for _, w in messages], np.int64)
    summary.offer_many(keys, weights)
    if fade:
        summary.fade()
    copy.load_state({name: array.copy() for name, array in summary.save_state().items()})
    for key in more:
        summary.offer(key)
        copy.offer(key)
        assert state_of(copy) == state_of(summary)


def test_replaced_counters_are_all_that_is_left():
    summary = summary_of(range(100), 10)
    summary.replace_counters(np.array([7, 8], np.uint64), np.array([30, 20]), np.array([5, 0]), total=60, messages=20)
    assert summary.top(10) == [(7, 25, 30), (8, 20, 20)]
    assert (summary.total, summary.unit, len(summary), summary.bounds(50)) == (60, 3.0, 2, (0, 0))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 12), max_size=200),
    st.lists(st.integers(5, 20), max_size=200),
    st.integers(0, 5),
)
def test_fading_equals_the_exact_counts_while_counters_are_free(past, recent, halvings):
    summary, exact = SpaceSaving(25), naive.ExactCounts()
    for part in (past, recent):
        summary.offer_many(np.array(part, np.int64))
        for key in part:
            exact.offer(key)
        if part is past:
            mark, exact_mark = summary.mark(), exact.mark()
    summary.fade_until(mark, halvings)
    exact.fade_until(exact_mark, halvings)
    assert (summary.counts().tolist(), summary.total) == (exact.counts(), exact.total)
    summary.fade()
    exact.fade()
    assert (summary.counts().tolist(), summary.total, summary.unit) == (exact.counts(), exact.total, exact.unit)
