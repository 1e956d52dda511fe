"""Looking ahead: every part of a batch is dealt evenly, alike on every attempt, and close to what was before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread import InputError, SnapshotError, simulate
from keyspread.planned.look_ahead import Memory, common_plan, deal
from keyspread.streams import DriftingZipfStream, read_stream, zipf


def batch_of(parts, common):
    """Deal the parts of a batch: the load of all workers together, and the memories."""
    dealt = [deal(part, common, source=source) for source, part in enumerate(parts)]
    loads = sum(np.bincount(workers, minlength=common.workers) for workers, _ in dealt)
    return loads, [memory for _, memory in dealt]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 30), max_size=200), st.integers(1, 12), st.integers(0, 9))
def test_every_message_has_a_worker_and_no_worker_more_than_its_part(keys, workers, source):
    routed, memory = deal(np.array(keys, np.int64), common_plan([], workers), source=source)
    assert routed.size == len(keys)
    assert memory.counts.total == len(keys)
    if keys:
        assert 0 <= routed.min() <= routed.max() < workers
    # A key below the threshold cannot be cut, and is then smaller than a fifth of an even share.
    loads = np.bincount(routed, minlength=workers)
    largest_bucket = int(memory.counts.buckets.max(initial=0))
    assert loads.max() <= max(-(-len(keys) // workers), largest_bucket)


def test_a_batch_is_even_however_many_senders_share_it():
    stream = zipf(1.4, 5000, 40_000)
    for sources in (1, 3, 8):
        loads, _ = batch_of([stream[source::sources] for source in range(sources)], common_plan([], 20))
        assert loads.sum() == 40_000
        assert loads.max() <= 40_000 / 20 + sources


def test_the_surplus_of_several_senders_does_not_meet_on_the_same_workers():
    parts = [np.arange(21) + 1000 * source for source in range(10)]  # 21 keys on 20 workers: one has two
    loads, _ = batch_of(parts, common_plan([], 20))
    assert loads.max() <= 13  # ten senders, 10.5 on average; with one rule for all one worker would get 20


def test_the_same_rows_and_the_same_past_give_the_same_workers():
    stream = zipf(1.2, 1000, 9000)
    _, memories = batch_of([stream[:2000], stream[2000:4000]], common_plan([], 10))
    again = [Memory.from_bytes(memory.to_bytes()) for memory in memories]
    one, other = common_plan(memories, 10), common_plan(again, 10)
    assert one == other
    assert deal(stream[4000:], one, source=1)[0].tolist() == deal(stream[4000:], other, source=1)[0].tolist()


def test_keys_stay_where_they_were():
    """Over ten batches of one law: hardly more replicas than keys, far fewer than by shuffling."""
    stream = zipf(1.2, 2000, 100_000)
    looking = simulate(stream, "look-ahead", 20, windows=10)
    shuffled = simulate(stream, "shuffle", 20, windows=10)
    assert looking.windowed_imbalance <= 5 / 10_000
    assert looking.replicas < 0.5 * shuffled.replicas
    planned = simulate(stream, "planned", 20, windows=10)
    assert planned.replicas <= looking.replicas  # who sees the whole batch needs fewer still


@pytest.mark.parametrize("rows", [1000, 10_000])
def test_a_drifting_stream_is_even_in_every_batch(rows):
    stream = DriftingZipfStream(1.2, 10_000, 60_000, every=5000).hashes()
    looking = simulate(stream, "look-ahead", 50, windows=60_000 // rows)
    two = simulate(stream, "partial-key", 50, windows=60_000 // rows)
    assert looking.window_imbalance.max() <= 5 / rows
    assert looking.windowed_imbalance <= 0.1 * two.windowed_imbalance


def test_a_real_stream_is_even_in_every_batch(shared_data):
    stream = read_stream(shared_data / "cashtags.tsv.gz").hashes[:250_000]
    looking = simulate(stream, "look-ahead", 50, windows=25)
    assert looking.window_imbalance.max() <= 5 / 10_000
    assert looking.windowed_imbalance <= 0.1 * simulate(stream, "partial-key", 50, windows=25).windowed_imbalance


def test_more_or_fewer_sources_than_before():
    stream = zipf(1.4, 500, 12_000)
    _, memories = batch_of([stream[:2000], stream[2000:4000], stream[4000:6000]], common_plan([], 10))
    hot = common_plan(memories, 10).head[0].hash
    for sources in (1, 2, 7):
        common = common_plan(memories, 10)
        loads, later = batch_of([stream[6000 + source :: sources] for source in range(sources)], common)
        assert loads.max() <= 6000 / 10 + sources
        assert common_plan(later, 10).head[0].hash == hot


def test_more_or_fewer_workers_than_before():
    stream = zipf(1.4, 500, 12_000)
    _, memories = batch_of([stream[:6000]], common_plan([], 10))
    for workers in (4, 25):
        loads, _ = batch_of([stream[6000:]], common_plan(memories, workers))
        assert loads.size <= workers
        assert loads.max() <= 6000 / workers + 1


def test_nothing_is_dealt_to_nobody():
    routed, memory = deal(np.empty(0, np.int64), common_plan([], 3))
    assert routed.size == memory.counts.total == 0
    assert common_plan([memory], 3).workers == 3


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"X" + data[1:], lambda data: b"", lambda data: data[:9]]
)
def test_a_damaged_memory_is_noticed(damage):
    _, memory = deal(np.arange(50), common_plan([], 4))
    with pytest.raises(SnapshotError, match="not a memory of a sender, or damaged"):
        Memory.from_bytes(damage(memory.to_bytes()))


def test_options():
    assert simulate(np.arange(100), "Look-Ahead", 4, tolerance=1, threshold=0.3).threshold == 0.3
    with pytest.raises(InputError, match="unknown option 'bucket'; look-ahead takes threshold"):
        simulate(np.arange(100), "look-ahead", 4, bucket=9)
    with pytest.raises(InputError, match="threshold is a share"):
        simulate(np.arange(100), "look-ahead", 4, threshold=7)
