"""Look-ahead: every part of a batch is balanced, and routed the same on every attempt."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import InputError, simulate
from keyspread.planned import look_ahead
from keyspread.streams import DriftingZipfStream, zipf


def loads_of(parts, workers):
    """Return the loads of all senders together, each of which routes one part."""
    routed = [look_ahead.route(part, workers, source=source) for source, part in enumerate(parts)]
    return sum(np.bincount(chosen, minlength=workers) for chosen in routed)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 30), max_size=200), st.integers(1, 12), st.integers(0, 9))
def test_no_worker_gets_more_than_its_share_rounded_up(keys, workers, source):
    """A bucket of tail keys cannot be split, so the largest one may be on top of that."""
    routed = look_ahead.route(np.array(keys, np.int64), workers, source=source)
    assert routed.size == len(keys)
    assert all(0 <= worker < workers for worker in routed.tolist())
    hot = naive.hot_keys(keys, 1 / (5 * workers))
    buckets = Counter(naive.bucket_of(key, 64 * workers) for key in keys if key not in hot)
    loads = np.bincount(routed, minlength=workers)
    assert loads.max() <= max(-(-len(keys) // workers), *buckets.values(), 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-50, 50), max_size=60, unique=True), st.integers(1, 9), st.integers(0, 50))
def test_a_key_that_fits_has_the_worker_of_its_bucket_at_every_sender(keys, workers, source):
    """With few messages per bucket and one hot key that leaves room, bucket b belongs to worker b mod n."""
    tail = np.array(keys, np.int64)
    part = np.concatenate([tail, np.full(200 * workers, 1000)])
    routed = look_ahead.route(part, workers, source=source, threshold=0.5)
    assert routed[: tail.size].tolist() == [naive.bucket_of(key, 64 * workers) % workers for key in keys]


@pytest.mark.parametrize("workers", [20, 50, 7919])
def test_senders_start_at_different_workers(workers):
    """A sender with 1.5 messages per worker fills three quarters of them with 2 and leaves the rest empty.

    Ten senders that start at the same worker would leave a quarter of the workers without a message.
    """
    loads = loads_of([np.full(3 * workers // 2, source) for source in range(10)], workers)
    assert loads.sum() == 10 * (3 * workers // 2)
    assert 12 <= loads.min() <= loads.max() <= 18


def test_the_same_rows_give_the_same_workers_whatever_was_routed_before():
    """A sender keeps nothing: a retried batch, or one after a restart, is routed the same."""
    stream = zipf(1.2, 1000, 9000)
    once = look_ahead.route(stream[4000:], 10, source=1)
    look_ahead.route(stream[:4000], 10, source=1)
    assert look_ahead.route(stream[4000:], 10, source=1).tolist() == once.tolist()
    assert look_ahead.route(stream[4000:], 10, source=2).tolist() != once.tolist()
    windows = simulate(stream, "look-ahead", 10, sources=1, windows=3, assignment=True).assignment
    expected = [look_ahead.route(stream[begin : begin + 3000], 10) for begin in range(0, 9000, 3000)]
    assert windows.tolist() == np.concatenate(expected).tolist()


def test_keys_stay_where_they_were():
    """Over ten batches of one distribution: hardly more replicas than keys, far fewer than by shuffling."""
    stream = zipf(1.2, 2000, 100_000)
    looking = simulate(stream, "look-ahead", 20, windows=10)
    shuffled = simulate(stream, "shuffle", 20, windows=10)
    assert looking.windowed_imbalance <= 5 / 10_000
    assert looking.replicas < 0.5 * shuffled.replicas
    planned = simulate(stream, "planned", 20, windows=10)
    assert planned.replicas <= looking.replicas  # a plan of the whole batch needs fewer still


@pytest.mark.parametrize("rows", [1000, 10_000])
def test_a_drifting_stream_is_balanced_in_every_batch(rows):
    stream = DriftingZipfStream(1.2, 10_000, 60_000, every=5000).hashes()
    looking = simulate(stream, "look-ahead", 50, windows=60_000 // rows)
    two = simulate(stream, "partial-key", 50, windows=60_000 // rows)
    assert looking.window_imbalance.max() <= 5 / rows
    assert looking.windowed_imbalance <= 0.1 * two.windowed_imbalance


def test_choices_are_the_most_workers_of_a_hot_key_per_source():
    """Source 0 has nothing but key 7, split over all 4 workers; every key of source 1 stays whole."""
    stream = np.empty(80, np.int64)
    stream[0::2], stream[1::2] = 7, np.repeat(np.arange(100, 104), 10)
    assert simulate(stream, "look-ahead", 4, sources=2, windows=1).choices == (4, 1)


def test_options():
    assert simulate(np.arange(100), "Look-Ahead", 4, threshold=0.3).threshold == 0.3
    with pytest.raises(InputError, match="threshold is a share"):
        simulate(np.arange(100), "look-ahead", 4, threshold=7)
    with pytest.raises(InputError, match="source must be at least 0, got -1"):
        look_ahead.route(np.arange(10), 4, source=-1)
