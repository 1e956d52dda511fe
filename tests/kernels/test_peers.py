"""The loop of `fish` picks the workers that its plain rule picks, also when keys lose their counters."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import naive
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels.peers import new_widths, route_by_recent_counts

keys = st.lists(st.one_of(st.integers(0, 3), st.integers(4, 2**64 - 1)), max_size=150)
hash_salts = st.integers(0, 2**64 - 1)
workers_of = st.sampled_from([1, 2, 3, 10, 64])


@settings(max_examples=150, deadline=None)
@example([0, 0], 0, 3, 0.5, 1, 4)  # hash 0, which is also what an unused counter has as owner
@given(keys, hash_salts, workers_of, st.floats(0.001, 0.5), st.integers(1, 12), st.integers(0, 60))
def test_route_by_recent_counts(stream, hash_salt, workers, threshold, capacity, top):
    """Also with fewer counters than keys: then a key that takes over a counter starts with two workers."""
    summary, twin = SpaceSaving(capacity), SpaceSaving(capacity)
    widths = new_widths(capacity, workers)
    out, loads = np.empty(len(stream), np.int32), np.zeros(workers, np.int64)
    last_top = route_by_recent_counts(
        np.array(stream, np.uint64), out, summary.arrays, widths, np.uint64(hash_salt), loads, threshold, top
    )
    plain_loads, widest, routed = [0] * workers, {}, []
    for key in stream:
        twin.offer(key)
        count = twin.bounds(key)[1]
        top = max(top, count)
        counted = {h % 2**64 for h, _, _ in twin.top(capacity)}
        widest = {other: most for other, most in widest.items() if other in counted}
        choices = naive.fish_choices(count, top, twin.total, threshold, widest.get(key, min(2, workers)), workers)
        widest[key] = max(widest.get(key, 0), choices)
        routed.append(naive.fish_worker(key, choices, hash_salt, plain_loads))
        plain_loads[routed[-1]] += 1
    assert (out.tolist(), loads.tolist(), last_top) == (routed, plain_loads, top)
