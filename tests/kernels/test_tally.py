"""Loads and replicas of routed messages, counted in compiled code and in plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.balance import words_for
from keyspread.kernels.planned_routing import tally

words = st.integers(0, 2**64 - 1)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([1, 3, 64, 65, 200]), st.lists(st.booleans(), min_size=1, max_size=9), st.booleans(), st.data())
def test_tally_equals_the_plain_count(workers, is_head, weighted, data):
    message = st.tuples(st.integers(0, len(is_head) - 1), st.integers(0, workers - 1), st.integers(0, 10**6))
    messages = data.draw(st.lists(message, max_size=60))
    ids, routed, weights = (np.array([m[at] for m in messages], np.int64) for at in range(3))
    loads, head_loads = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    replicas = np.zeros((len(is_head), words_for(workers)), np.uint64)
    half = len(messages) // 2  # a second call adds to the first
    for some in (slice(half), slice(half, None)):
        own = weights[some] if weighted else weights[:0]
        ids_, routed_ = ids[some].astype(np.int32), routed[some].astype(np.int32)
        tally(ids_, routed_, own, np.array(is_head), loads, head_loads, replicas)
    counted = weights.tolist() if weighted else [1] * len(messages)
    expected = naive.tally(ids.tolist(), routed.tolist(), counted, is_head, workers)
    assert (loads.tolist(), head_loads.tolist(), [naive.bits_of(row) for row in replicas]) == expected
