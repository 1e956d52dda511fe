"""SpaceSaving on arrays, message by message: every offer leads to a state that the plain rule allows."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import naive
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels import summary as kernels

weighted_messages = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 1, 2, 17, 90, 3000])), max_size=150)


def counters_of(summary):
    size = summary.scalars[kernels.SIZE]
    rows = zip(summary.keys[:size].tolist(), summary.counts.tolist(), summary.errors.tolist(), strict=False)
    return {key: (count, error) for key, count, error in rows}


def check_offer(summary, key, amount, offer=kernels.offer_counts, messages=None):
    """Offer once, and check the counters, the total and the number of messages."""
    before, scalars = counters_of(summary), summary.scalars.tolist()
    offer(summary, np.array([key], np.uint64), np.array([amount], np.int64))
    assert counters_of(summary) in naive.after_offer(before, key, amount, summary.keys.size)
    assert summary.scalars[kernels.TOTAL] == scalars[kernels.TOTAL] + amount
    assert summary.scalars[kernels.MESSAGES] == scalars[kernels.MESSAGES] + (amount if messages is None else messages)
    assert summary.scalars[kernels.WEIGHED] == (scalars[kernels.WEIGHED] or amount > 1)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 1, 1, 2, 17, 500])), max_size=150),
)
def test_every_offer_takes_the_keys_own_counter_a_free_one_or_a_least_one(capacity, offers):
    summary = kernels.with_heap(kernels.new_summary(capacity))
    for key, amount in offers:
        check_offer(summary, key, amount)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 20), weighted_messages)
def test_every_weighted_offer_takes_a_least_counter(capacity, messages):
    summary = kernels.with_heap(kernels.new_summary(capacity))
    for key, weight in messages:
        check_offer(summary, key, weight, kernels.offer_weighted, messages=1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), weighted_messages, st.integers(0, 150))
def test_with_weights_the_counts_alone_decide_which_counter_is_taken(capacity, messages, cut):
    """So a heap that is built from the counts, as after a restore, continues as the old one would have."""
    one = kernels.with_heap(kernels.new_summary(capacity))
    for key, weight in [(1, 2), *messages[:cut]]:
        check_offer(one, key, weight, kernels.offer_weighted, messages=1)
    other = kernels.with_heap(kernels.new_summary(capacity))
    size = one.scalars[kernels.SIZE]
    kernels.refill(other, one.keys[:size].copy(), one.counts[:size].copy(), one.errors[:size].copy())
    other.scalars[kernels.WEIGHED] = 1
    for key, weight in messages[cut:]:
        for summary in (one, other):
            kernels.offer_weighted(summary, np.array([key], np.uint64), np.array([weight], np.int64))
        assert [array[:capacity].tolist() for array in one[:3]] == [array[:capacity].tolist() for array in other[:3]]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), st.lists(st.integers(0, 40), max_size=150), st.lists(st.integers(0, 60), max_size=60))
def test_a_ring_that_is_listed_and_filled_again_is_the_same_queue(capacity, stream, more):
    one, other = kernels.new_summary(capacity), kernels.new_summary(capacity)
    kernels.offer_many(one, np.array(stream, np.uint64))
    counters, levels = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
    found = kernels.list_ring(one, counters, levels) if one.scalars[kernels.QUEUE] == kernels.RING else 0
    assert len(set(counters[:found].tolist())) == found
    size = one.scalars[kernels.SIZE]
    kernels.refill(other, one.keys[:size].copy(), one.counts[:size].copy(), one.errors[:size].copy())
    other.scalars[:] = one.scalars
    kernels.fill_ring(other, counters[:found], levels[:found])
    for key in more:
        for summary in (one, other):
            kernels.offer_many(summary, np.array([key], np.uint64))
        assert counters_of(one) == counters_of(other)


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
def test_streams_that_are_hard_for_the_lazy_queue(capacity, stream):
    summary = kernels.new_summary(capacity)
    for key in stream(np.random.default_rng(5)):
        check_offer(summary, key % 2**64, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=200), st.integers(1, 20))
def test_offering_many_equals_offering_one_by_one(stream, capacity):
    at_once, one_by_one = kernels.new_summary(capacity), kernels.new_summary(capacity)
    kernels.offer_many(at_once, np.array(stream, np.uint64))
    for key in stream:
        check_offer(one_by_one, key, 1)
    for array, other in zip(at_once, one_by_one, strict=True):
        assert array.tolist() == other.tolist()


@settings(max_examples=60, deadline=None)
@given(weighted_messages, st.floats(0.001, 1), st.floats(0, 10), st.integers(1, 45), st.booleans())
def test_observe_marks_the_messages_whose_count_is_high_enough_at_that_moment(
    messages, threshold, margin, capacity, weighted
):
    stream = [key for key, _ in messages]
    weights = [weight if weighted else 1 for _, weight in messages]
    summary, keys = kernels.with_heap(kernels.new_summary(capacity)), np.array(stream, np.uint64)
    marks = np.empty(len(stream), np.int32)
    if weighted:
        kernels.observe_weighted(summary, keys, np.array(weights, np.int64), marks, threshold, margin)
    else:
        kernels.observe(summary, keys, marks, threshold, margin)
    one_by_one, exact, hot, exactly_hot = SpaceSaving(capacity), naive.ExactCounts(), [], []
    for key, weight in zip(stream, weights, strict=True):
        one_by_one.offer_many(np.array([key]), np.array([weight]))
        exact.offer(key, weight)
        counter = kernels.look_up(one_by_one.arrays, np.uint64(key))
        least = threshold * exact.total + margin * exact.unit
        hot.append(int(counter) if counter >= 0 and one_by_one.arrays.counts[counter] >= least else -1)
        exactly_hot.append(exact.bounds(key)[1] >= max(least, 1))  # without weight so far, a key has no counter
    assert marks.tolist() == hot
    if len(set(stream)) <= capacity:
        assert (marks >= 0).tolist() == exactly_hot
        counted = sorted(summary.counts[: summary.scalars[kernels.SIZE]].tolist(), reverse=True)
        assert counted == [count for count in exact.counts() if count]


def test_keys_in_the_same_chain_of_the_table_are_distinguished():
    """Ten keys have the same home: the last of the chain is found, one in the middle is removed."""
    summary = kernels.new_summary(10)
    at = kernels.home(summary, np.uint64(0))
    same_home = [key for key in range(2000) if kernels.home(summary, np.uint64(key)) == at][:14]
    assert len(same_home) == 14
    for key in same_home[:10] + same_home[3:7] + same_home + same_home[::-1]:
        check_offer(summary, key, 1)
    for key, (count, _) in counters_of(summary).items():
        assert summary.counts[kernels.look_up(summary, np.uint64(key))] == count
    assert kernels.look_up(summary, np.uint64(5_000_000)) == -1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), weighted_messages, st.data())
def test_refill_replaces_all_counters_and_nothing_else(capacity, messages, data):
    summary = kernels.with_heap(kernels.new_summary(capacity))
    for key, weight in messages:
        check_offer(summary, key, weight, kernels.offer_weighted, messages=1)
    scalars = summary.scalars.tolist()
    keys = data.draw(st.lists(st.integers(0, 60), unique=True, max_size=capacity))
    counts = [data.draw(st.integers(0, 5000)) for _ in keys]
    errors = [data.draw(st.integers(0, count)) for count in counts]
    kernels.refill(summary, np.array(keys, np.uint64), np.array(counts, np.int64), np.array(errors, np.int64))
    assert counters_of(summary) == dict(zip(keys, zip(counts, errors, strict=True), strict=True))
    for unchanged in (kernels.TOTAL, kernels.MESSAGES, kernels.WEIGHED, kernels.SURPLUS):
        assert summary.scalars[unchanged] == scalars[unchanged]
    for key in {key for key, _ in messages} - set(keys):
        assert kernels.look_up(summary, np.uint64(key)) == -1
    for key, weight in messages:  # the queue starts again
        check_offer(summary, key, weight, kernels.offer_weighted, messages=1)


@settings(max_examples=150, deadline=None)
# 3, 4 and 5 take over the counter of 2, one after the other: of its growth by 3, only 1 is surely of key 5.
@example([1] * 10 + [2], [(3, 1), (4, 1), (5, 1)], 2, 0, 0)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=150),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([1, 2, 60])), max_size=150),
    st.integers(1, 40),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([0, 2, 8]),
)
def test_unexpected_growth_equals_the_plain_sum(past, recent, capacity, deviations, messages):
    summary = SpaceSaving(capacity)
    summary.offer_many(np.array(past))
    mark = summary.mark()
    for key, weight in recent:
        summary.offer_many(np.array([key]), np.array([weight]))
    ratio = (summary.total - mark.total) / mark.total
    found = kernels.unexpected_growth(summary.arrays, mark.counts, ratio, deviations, messages, summary.unit)
    assert found == summary.unexpected_growth(mark, deviations, messages)
    pairs = zip(*naive.since(summary, mark), strict=True)
    assert found == naive.unexpected_growth(pairs, ratio, deviations, messages, summary.unit)
    if len({*past, *(key for key, _ in recent)}) <= capacity:  # no counter was taken: the growth is exact
        exact = naive.ExactCounts()
        for key in past:
            exact.offer(key)
        before = exact.mark()
        for key, weight in recent:
            exact.offer(key, weight)
        pairs = zip(*exact.since(before), strict=True)
        expected = naive.unexpected_growth(pairs, ratio, deviations, messages, summary.unit)
        assert math.isclose(found, expected)
