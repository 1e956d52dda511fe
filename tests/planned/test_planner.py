"""Plans: balanced for their batch, close to the previous plan, and the same on every attempt."""

import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forgery
import naive
from keyspread import InputError, Plan, plan
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import buckets_of
from keyspread.planned.planner import cut_by_cells
from keyspread.streams import zipf

batches = st.lists(st.one_of(st.integers(0, 3), st.integers(-100, 100)), max_size=150)
workers_up_to_12 = st.integers(1, 12)
thresholds = st.sampled_from([None, 0.02, 0.1, 0.3, 1.0])


def array(keys):
    return np.array(keys, np.int64)


def tail_loads(planned, batch):
    """Return the load that the buckets bring to each worker."""
    hot = {key.hash for key in planned.head}
    loads = [0] * planned.workers
    for key in batch:
        if key not in hot:
            loads[planned.buckets[naive.bucket_of(key, planned.buckets.size)]] += 1
    return loads


def check_plan(planned, batch, workers, threshold=None):
    """Check everything that a plan promises for its batch, counted by hand."""
    routed = planned.route(array(batch))
    counts = Counter(batch)
    share = 1 / (5 * workers) if threshold is None else threshold
    hot = naive.hot_keys(batch, share)
    fair = math.ceil(len(batch) / workers)
    tail = tail_loads(planned, batch)

    assert planned.workers == workers
    assert routed.dtype == np.int32
    assert routed.tolist() == naive.route_by_plan(planned, batch)
    # The plan's loads are exact, and balanced unless the tail alone overfills a worker.
    got = Counter(routed.tolist())
    assert planned.loads.tolist() == [got[worker] for worker in range(workers)]
    assert planned.loads.sum() == len(batch)
    assert max(planned.loads) <= max(fair, *tail)
    assert planned.imbalance == pytest.approx(naive.imbalance(routed.tolist(), workers), abs=1e-12)
    # The head is every hot key and no other, hottest first.
    assert [key.hash for key in planned.head] == sorted(hot, key=lambda key: (-hot[key], key))
    sets = naive.workers_of_keys(batch, routed.tolist())
    for key in planned.head:
        assert key.messages == sum(key.weights) == counts[key.hash]
        assert min(key.weights) > 0
        assert len(set(key.workers)) == len(key.workers)
        assert list(key.ends) == sorted(key.ends)
        assert key.ends[-1] == naive.SLOTS
        assert sets.pop(key.hash) == set(key.workers)
    # A tail key has one worker.
    assert all(len(of_key) == 1 for of_key in sets.values())
    return tail, fair


@settings(max_examples=120, deadline=None)
@given(batches, workers_up_to_12, thresholds)
def test_balanced_for_any_batch(batch, workers, threshold):
    planned = plan(array(batch), workers, threshold=threshold)
    check_plan(planned, batch, workers, threshold)
    assert planned.moved == 0
    assert planned.buckets.size == 64 * workers
    # Each step of splitting hot keys finishes a key or fills a worker.
    assert sum(len(key.workers) for key in planned.head) <= len(planned.head) + workers


@settings(max_examples=80, deadline=None)
@given(st.lists(batches, min_size=2, max_size=4), workers_up_to_12, thresholds)
def test_balanced_for_any_batch_after_any_other(parts, workers, threshold):
    previous = None
    for batch in parts:
        planned = plan(array(batch), workers, previous=previous, threshold=threshold)
        check_plan(planned, batch, workers, threshold)
        assert planned.moved == pytest.approx(moved(planned, previous, batch))
        previous = planned


def moved(planned, previous, batch):
    """Return the share of the messages whose worker did not have their bucket or hot key before."""
    if previous is None or not batch:
        return 0
    hot, hot_before = {key.hash for key in planned.head}, {key.hash: key for key in previous.head}
    gone = 0
    for key, worker in zip(batch, planned.route(array(batch)).tolist(), strict=True):
        had = {int(previous.buckets[naive.bucket_of(key, previous.buckets.size)])}
        if key in hot and key in hot_before:
            had = set(hot_before[key].workers)
        gone += worker not in had
    return gone / len(batch)


@settings(max_examples=100, deadline=None)
@given(batches, workers_up_to_12, thresholds)
def test_planning_the_same_batch_again_moves_nothing(batch, workers, threshold):
    first = plan(array(batch), workers, threshold=threshold)
    again = plan(array(batch), workers, previous=first, threshold=threshold)
    if max(tail_loads(first, batch)) <= math.ceil(len(batch) / workers):  # else balance comes first
        assert again.moved == 0
        assert again == first


@pytest.mark.parametrize(("skew", "workers"), [(0.5, 10), (1.0, 100), (1.5, 2), (2.0, 10), (0.5, 100)])
def test_a_batch_like_the_one_before_moves_little(skew, workers):
    first = plan(zipf(skew, 10_000, 50_000, seed=1), workers)
    batch = zipf(skew, 10_000, 50_000, seed=2)
    planned = plan(batch, workers, previous=first)
    check_plan(planned, batch.tolist(), workers)
    assert planned.imbalance <= 3e-3
    assert planned.moved < 0.1
    assert plan(batch, workers).moved == 0  # without a previous plan there is nothing to move from


@pytest.mark.parametrize("workers", [3, 100])
def test_a_plan_for_many_more_workers_is_as_balanced_as_a_first_one(workers):
    """Without hot keys to fill up the room the buckets must be small enough for the new number of workers."""
    batch = np.random.default_rng(0).integers(0, 100_000, size=200_000)
    planned = plan(batch, workers, previous=plan(batch, 2))
    check_plan(planned, batch.tolist(), workers)
    assert planned.imbalance < 1e-3


def test_another_number_of_buckets_forgets_where_they_were_but_not_the_hot_keys():
    batch = zipf(1.2, 5000, 50_000)
    first = plan(batch, 10)
    planned = plan(batch, 10, previous=first, buckets=100)
    assert planned.buckets.size == 100
    check_plan(planned, batch.tolist(), 10)
    assert 0 < planned.moved < 1


# Routing.


@settings(max_examples=80, deadline=None)
@given(batches, batches, workers_up_to_12, st.integers(0, 2**61), st.lists(st.integers(0, 150), max_size=4))
def test_routing_in_parts_is_routing_whole(batch, other, workers, start, cuts):
    planned = plan(array(batch), workers)
    whole = planned.route(array(other), start=start)
    parts, begin = [], start
    for part in np.split(array(other), sorted(min(cut, len(other)) for cut in cuts)):
        parts.append(planned.route(part, start=begin))
        begin += part.size
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_a_key_that_was_not_counted_goes_by_its_bucket():
    planned = plan(zipf(1.5, 100, 10_000), 7)
    unknown = np.random.default_rng(0).integers(-(2**63), 2**63, size=7000)
    routed = planned.route(unknown)
    assert routed.tolist() == [
        int(planned.buckets[naive.bucket_of(key, planned.buckets.size)]) for key in unknown.tolist()
    ]
    assert np.bincount(routed, minlength=7).min() > 0


def test_a_hot_key_is_split_by_weight_at_any_position_of_a_longer_stream():
    batch = np.full(10_000, 5)
    planned = plan(batch, 4)
    for start in (0, 123_456, 2**40):
        assert np.bincount(planned.route(batch, start=start)).tolist() == pytest.approx([2500] * 4, abs=25)


# The ends.


@pytest.mark.parametrize("workers", [1, 2, 50])
def test_the_plan_of_an_empty_batch_routes_any_key(workers):
    planned = plan(np.empty(0, np.int64), workers)
    check_plan(planned, [], workers)
    assert planned.head == ()
    assert planned.route(np.empty(0, np.int64)).shape == (0,)
    routed = planned.route(np.random.default_rng(0).integers(0, 2**63, size=100 * workers))
    assert np.unique(routed).size == workers
    again = plan(np.arange(1000), workers, previous=planned)
    check_plan(again, list(range(1000)), workers)
    assert plan(np.empty(0, np.int64), workers, previous=again).moved == 0


@pytest.mark.parametrize("weights", [[0, 0, 0, 0], [0, 5, 0, 5]])
def test_a_key_without_weight_is_never_hot(weights):
    """Nothing of it can be cut into pieces, so it goes by its bucket, even if the whole batch weighs nothing."""
    batch = np.array([1, 2, 3, 2])
    planned = plan(batch, 3, weights=np.array(weights))
    assert [key.hash for key in planned.head] == [2] * any(weights)
    assert planned.loads.sum() == sum(weights)
    assert Plan.from_json(planned.to_json()) == planned
    keys = np.arange(100)
    assert (planned.route(keys) == planned.buckets[buckets_of(keys, planned.buckets.size)])[keys != 2].all()


def test_a_tail_that_does_not_fit_is_packed_as_well_as_it_can_be():
    """Two buckets, three tail keys: one worker has too much, and the hot key is placed where there is room."""
    batch = [1] * 40 + [2] * 40 + [3] * 20
    planned = plan(array(batch), 2, threshold=0.5, buckets=2)
    check_plan(planned, batch, 2, threshold=0.5)


# Plans from counts alone, for an engine that counts by itself.


def test_a_plan_from_counts_is_right_on_average():
    batch = zipf(1.4, 10_000, 200_000)
    exact = plan(batch, 20)
    hot = tuple((key.hash, key.messages) for key in exact.head)
    cold = batch[~np.isin(batch, [key for key, _ in hot])]
    buckets = np.bincount([naive.bucket_of(key, 1280) for key in cold.tolist()], minlength=1280)
    counts = Counts(buckets, hot)
    assert counts.total == 200_000
    placed = place(counts, Aim(20))
    assert placed.loads.tolist() == exact.loads.tolist()
    assert [(key.workers, key.weights) for key in placed.head] == [(key.workers, key.weights) for key in exact.head]
    off_by_weight = off(placed, batch)
    # It is closer if we know how the slots of each key are spread over 4096 cells.
    slots = np.array([naive.scatter(position) for position in range(batch.size)])
    cells = {key: np.bincount(slots[batch == key] >> 19, minlength=4096) for key, _ in hot}
    assert off(cut_by_cells(placed, cells), batch) < min(off_by_weight, 2e-4)


def off(planned, batch):
    return np.bincount(planned.route(batch), minlength=planned.workers).max() / batch.size - 1 / planned.workers


# As JSON and as objects.


@settings(max_examples=60, deadline=None)
@given(batches, workers_up_to_12, thresholds)
def test_json_there_and_back_is_equal(batch, workers, threshold):
    planned = plan(array(batch), workers, threshold=threshold)
    back = Plan.from_json(planned.to_json())
    assert back == planned
    assert hash(back) == hash(planned)
    assert back.head == planned.head
    assert back.route(array(batch)).tolist() == planned.route(array(batch)).tolist()
    assert plan(array(batch), workers, previous=back) == plan(array(batch), workers, previous=planned)


GOOD = json.loads(plan(np.repeat([1, 2, 3], [70, 20, 10]), 2).to_json())


@pytest.mark.parametrize(
    "text",
    ["", "not json", "[]", "5", "null", '"text"', "{}", json.dumps({**GOOD, "head": 5}), None, 5],
)
def test_what_is_not_a_plan_is_refused(text):
    with pytest.raises(
        InputError, match=r"^not a keyspread plan \(.*\); pass the text that Plan.to_json\(\) returned$"
    ):
        Plan.from_json(text)


@pytest.mark.parametrize("version", [2, True, 1.0, "1", None])
def test_another_format_is_named(version):
    """In Python true is equal to 1, and so is 1.0: neither is the format that `to_json` writes."""
    message = re.escape(f"the plan has format {version!r}, this keyspread reads 1: plan the batch again")
    with pytest.raises(InputError, match=f"^{message}$"):
        Plan.from_json(json.dumps({**GOOD, "format": version}))


@pytest.mark.parametrize(
    "change",
    [
        {"workers": 1},
        {"workers": 0},
        {"workers": "2"},
        {"workers": True},
        {"buckets": []},
        {"buckets": [True, False]},
        {"head": [{"hash": True, "workers": [0], "weights": [1], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 1, "workers": [0, 1], "weights": [1, 2], "ends": [False, naive.SLOTS]}]},
        {"buckets": [0, 2]},
        {"buckets": [-1]},
        {"loads": [1]},
        {"loads": [-1, 101]},
        {"moved": "much"},
        {"head": [{"hash": 1, "workers": [], "weights": [], "ends": []}]},
        {"head": [{"hash": 1, "workers": [0], "weights": [1], "ends": [5]}]},
        {"head": [{"hash": 1, "workers": [2], "weights": [1], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 1, "workers": [0], "weights": [-1], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 1, "workers": [0], "weights": [1, 2], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 1, "workers": [0, 1], "weights": [1, 2], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 2**70, "workers": [0], "weights": [1], "ends": [naive.SLOTS]}]},
        {"head": [{"hash": 1, "workers": [0, 1], "weights": [1, 2], "ends": ["x", naive.SLOTS]}]},
    ],
    ids=str,
)
def test_a_plan_changed_by_hand_is_refused_when_read_not_when_used(change):
    with pytest.raises(InputError) as caught:
        Plan.from_json(json.dumps({**GOOD, **change}))
    assert "\n" not in str(caught.value)
    assert "plan" in str(caught.value)


def test_a_cut_by_weight_falls_where_the_sum_is_closest():
    """A third of 7000 lies between two messages of weight 7: the nearer end of the message counts."""
    batch, weights = np.full(1000, 5), np.full(1000, 7)
    planned = plan(batch, 3, weights=weights)
    (key,) = planned.head
    routed = planned.route(batch)
    got = np.cumsum([int(weights[routed == worker].sum()) for worker in key.workers])
    assert np.abs(got - np.cumsum(key.weights)).max() <= 3.5


# A plan that was changed by hand: refused in one line, or it still routes to its workers.


@pytest.mark.parametrize("seed", range(30))
def test_a_forged_plan_is_refused_or_harmless(seed):
    forgery.try_plan(seed)
