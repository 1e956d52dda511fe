"""Routing by a plan, compared with plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import Plan
from keyspread.kernels import planned_routing
from keyspread.planned.plan import HotKey

hashes = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(hashes, max_size=20), st.integers(1, 2**31))
def test_bucket_of_equals_the_oracle(keys, buckets):
    out = np.empty(len(keys), np.int64)
    planned_routing.bucket_of(np.array(keys, np.int64), out, buckets)
    assert out.tolist() == [naive.bucket_of(key, buckets) for key in keys]
    assert all(0 <= bucket < buckets for bucket in out.tolist())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**62))
def test_slot_of_equals_the_oracle(start):
    out = np.empty(10, np.int64)
    planned_routing.slot_of(start, out)
    assert out.tolist() == [naive.scatter(start + i) for i in range(10)]


def test_slots_are_distinct_and_those_of_any_run_of_positions_evenly_spread():
    out = np.empty(1 << 20, np.int64)
    planned_routing.slot_of(0, out)
    assert np.unique(out).size == out.size
    for begin in (0, 12345, 1_000_000):
        slots = np.sort(out[begin : begin + 1000]) / naive.SLOTS
        # 1000 evenly spread numbers: about k of them are below k / 1000
        assert np.abs(slots - np.arange(1000) / 1000).max() < 0.005


@st.composite
def plans(draw):
    workers = draw(st.integers(1, 12))
    number = st.integers(0, workers - 1)
    head = []
    for key in draw(st.lists(st.integers(-50, 50), max_size=12, unique=True)):
        cuts = sorted(draw(st.lists(st.integers(1, naive.SLOTS - 1), max_size=6, unique=True)))
        pieces = len(cuts) + 1
        owners = draw(st.lists(number, min_size=pieces, max_size=pieces))
        head.append(HotKey(key, tuple(owners), (1,) * pieces, (*cuts, naive.SLOTS)))
    buckets = draw(st.lists(number, min_size=1, max_size=40))
    return Plan(workers, np.array(buckets, np.int32), tuple(head), np.zeros(workers, np.int64))


@settings(max_examples=150, deadline=None)
@given(plans(), st.lists(st.integers(-60, 60), max_size=60), st.integers(0, 2**62))
def test_routing_by_any_plan_equals_the_oracle(plan, keys, start):
    routed = plan.route(np.array(keys, np.int64), start=start)
    assert routed.tolist() == naive.route_by_plan(plan, keys, start)


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_many_hot_keys_are_all_found(size):
    random = np.random.default_rng(size)
    keys = random.integers(-(2**63), 2**63, size=size)
    head = tuple(HotKey(key, (2,), (1,), (naive.SLOTS,)) for key in keys.tolist())
    plan = Plan(3, np.array([0, 1], np.int32), head, np.zeros(3, np.int64))
    others = random.integers(-(2**63), 2**63, size=5000)
    assert (plan.route(keys) == 2).all()
    assert (plan.route(others) < 2).all()
