"""Packing: the same placements as the plain loop, for any counts, tolerance and previous plan."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import Plan
from keyspread.kernels.packing import DIGITS, sort_largest_first
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import HotKey

HASHES = st.integers(-(2**63), 2**63 - 1)


@st.composite
def hot_keys(draw, hashes):
    keys = draw(st.lists(st.sampled_from(hashes), unique=True, max_size=8))
    counted = [(key, draw(st.one_of(st.integers(1, 60), st.integers(1, 2**45)))) for key in keys]
    return tuple(sorted(counted, key=lambda pair: (-pair[1], pair[0])))


@st.composite
def previous_plans(draw, workers, buckets, hashes):
    """A plan for perhaps another number of workers or buckets, and perhaps with other hot keys."""
    many = draw(st.sampled_from([workers, workers, max(1, workers - 1), workers + 2]))
    count = draw(st.sampled_from([buckets, buckets, buckets + 1]))
    owners = draw(st.lists(st.integers(0, many - 1), min_size=count, max_size=count))
    head = [
        HotKey(
            *naive.cut_by_weight(
                key, dict.fromkeys(draw(st.lists(st.integers(0, many - 1), min_size=1, unique=True)), 1)
            )
        )
        for key in draw(st.lists(st.sampled_from(hashes), max_size=5))  # the last one counts if a key is there twice
    ]
    return Plan(many, np.array(owners, np.int32), head, np.zeros(many, np.int64))


@st.composite
def cases(draw):
    workers = draw(st.sampled_from([1, 2, 3, 5, 9]))
    sizes = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 100), st.integers(0, 2**40))
    buckets = draw(st.lists(sizes, min_size=1, max_size=24))
    hashes = draw(st.lists(HASHES, min_size=1, max_size=8, unique=True))
    previous = draw(st.one_of(st.none(), previous_plans(workers, len(buckets), hashes)))
    tolerance = draw(st.sampled_from([0.0, 0.0, 0.01, 0.3, 5.0]))
    most_moved = draw(st.sampled_from([None, 0.0, 0.1]))
    aim = Aim.of(workers, tolerance, most_moved)
    return aim, buckets, draw(hot_keys(hashes)), previous, draw(st.integers(0, workers - 1))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_placements_are_those_of_the_plain_loop(case):
    aim, buckets, hot, previous, first_worker = case
    old_owners, old_hot = [-1] * len(buckets), {}
    if previous is not None:
        old_hot = {key.hash: key.workers for key in previous.head}
        if previous.buckets.size == len(buckets):
            old_owners = [owner if owner < aim.workers else -1 for owner in previous.buckets.tolist()]
    old = [old_hot.get(key, (old_owners[naive.bucket_of(key, len(buckets))],)) for key, _ in hot]
    old = [[worker for worker in workers if 0 <= worker < aim.workers] for workers in old]
    expected = naive.place(
        aim.slack,
        None if previous is None else aim.most_moved,
        buckets,
        hot,
        aim.workers,
        old_owners,
        old,
        first_worker,
    )
    placed = place(Counts(np.array(buckets, np.int64), hot), aim, previous, first_worker)
    assert placed.buckets.tolist() == expected.owners
    assert placed.loads.tolist() == expected.loads
    assert [dict(zip(key.workers, key.weights, strict=True)) for key in placed.head] == expected.pieces
    assert [key.workers for key in placed.head] == [tuple(pieces) for pieces in expected.pieces]
    assert placed.moved == (0.0 if previous is None else expected.moved)
    assert [list(key.ends) for key in placed.head] == [naive.ends_by_weight(key.weights) for key in placed.head]


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 5000), st.integers(0, 2**62)), max_size=50))
def test_buckets_are_sorted_by_size_then_by_number(sizes):
    order = np.arange(len(sizes))
    sort_largest_first(np.array(sizes, np.int64), order, np.empty_like(order), np.zeros(DIGITS, np.int64))
    assert order.tolist() == sorted(range(len(sizes)), key=lambda bucket: -sizes[bucket])
