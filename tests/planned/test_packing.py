"""Packing by weight, and how much may move from plan to plan."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread import InputError, Plan, plan
from keyspread.streams import zipf


def array(values):
    return np.array(values, np.int64)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.one_of(st.integers(0, 3), st.integers(-100, 100)), st.integers(0, 50)), max_size=150),
    st.integers(1, 9),
    st.sampled_from([None, 0.02, 0.1, 0.3, 1.0]),
)
def test_weights_of_any_batch(batch, workers, threshold):
    """Loads are sums of weights; a worker exceeds its share by at most one message, or by its tail alone."""
    keys, weights = array([key for key, _ in batch]), array([weight for _, weight in batch])
    total = int(weights.sum())
    planned = plan(keys, workers, threshold=threshold, weights=weights)
    routed = planned.route(keys)
    got = np.bincount(routed, weights=weights, minlength=workers)
    heaviest = weights.max(initial=0)
    hot = {key.hash for key in planned.head}
    tail = np.zeros(workers)
    for key, weight, worker in zip(keys.tolist(), weights.tolist(), routed.tolist(), strict=True):
        tail[worker] += 0 if key in hot else weight
    by_key = Counter()
    for key, weight in batch:
        by_key[key] += weight
    share = 1 / (5 * workers) if threshold is None else threshold
    assert hot == {key for key, weight in by_key.items() if weight and weight >= share * total * (1 - 1e-12)}
    assert planned.loads.sum() == total
    for key in planned.head:
        assert key.messages == by_key[key.hash]
    # A cut is between two messages: each piece is off by half a message at either end.
    assert (np.abs(got - planned.loads) <= heaviest * (len(planned.head) + 1)).all()
    assert (planned.loads <= np.maximum(-(-total // workers), tail)).all()
    assert Plan.from_json(planned.to_json()) == planned


def drifting(windows=6, size=20_000):
    """Return Zipf windows; in each, a third of the keys is new."""
    return [zipf(1.1, 3000, size, seed=number) + 1000 * number for number in range(windows)]


@pytest.mark.parametrize("most", [0.0, 0.02, 0.1])
def test_no_more_moves_than_allowed(most):
    previous = None
    for batch in drifting():
        free = plan(batch, 20, previous=previous)
        bound = plan(batch, 20, previous=previous, most_moved=most)
        if previous is not None:
            assert bound.moved <= most + 1e-12
            assert free.moved > 0.1  # without a bound much moves
            assert bound.imbalance >= free.imbalance
        previous = bound


def test_what_must_move_moves_whatever_the_bound():
    """Workers that no longer exist cannot keep anything."""
    batch = zipf(1.0, 3000, 20_000, seed=1)
    fewer = plan(batch, 15, previous=plan(batch, 20), most_moved=0.0)
    assert np.bincount(fewer.route(batch), minlength=15).tolist() == fewer.loads.tolist()
    assert 0.2 < fewer.moved < 0.35


def test_tolerance_keeps_buckets_at_home():
    """If the stream does not drift, a plan with tolerance moves little and stays within the tolerance."""
    batches = [zipf(1.0, 3000, 20_000, seed=number) for number in range(2, 6)]
    previous = {0.0: plan(batches[0], 20), 0.005: plan(batches[0], 20)}
    moved = dict.fromkeys(previous, 0.0)
    for batch in batches[1:]:
        for tolerance, before in previous.items():
            planned = previous[tolerance] = plan(batch, 20, previous=before, slack=tolerance)
            moved[tolerance] += planned.moved
            assert planned.imbalance <= max(tolerance, plan(batch, 20).imbalance) + 1e-4
    assert moved[0.005] < 0.5 * moved[0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.5]}, "weights must be a one-dimensional array of whole numbers, got float64; pass bytes, or"),
        ({"weights": [1, 2]}, "there must be one weight per message, got 2 for 1"),
        ({"weights": [-1]}, "a weight must be between 0 and 4294967296, got -1"),
        ({"most_moved": -1}, "most_moved must not be negative, got -1"),
        ({"slack": "x"}, "slack must be a number, got 'x'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InputError) as caught:
        plan(array([1]), 3, **options)
    assert str(caught.value).startswith(message)


def test_what_must_move_does_not_use_up_the_bound():
    """Five workers are gone. Beside what they had, 5 % may move, and that is used for balance."""
    batch = zipf(1.0, 3000, 20_000, seed=1)
    before = plan(batch, 20)
    least = plan(batch, 15, previous=before, slack=1.0)
    bound = plan(batch, 15, previous=before, most_moved=0.05)
    assert least.moved < bound.moved <= least.moved + 0.05
    assert bound.imbalance < 0.5 * least.imbalance


def test_a_bucket_that_fills_its_worker_to_the_limit_stays():
    batch = np.array([1] * 50 + [2] * 50)
    first = plan(batch, 2, threshold=1.0)
    assert first.loads.tolist() == [50, 50]
    swapped = replace(first, buckets=1 - first.buckets)
    assert plan(batch, 2, previous=swapped, threshold=1.0).moved == 0
