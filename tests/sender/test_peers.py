"""Peers follow their published rules, repeat by seed, and are simulated like any scheme."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import InputError, simulate
from keyspread.sender.peers import PEERS
from keyspread.sender.registry import resolve
from keyspread.streams import zipf

any_peer = pytest.mark.parametrize("name", PEERS)


@any_peer
def test_a_peer_is_simulated_like_a_scheme(name):
    stream = zipf(1.3, 500, 5000)
    result = simulate(stream, name, 10, assignment=True)
    assert result.scheme == name
    assert result.replicas == naive.replicas(stream.tolist(), result.assignment.tolist())
    assert result.imbalance == pytest.approx(naive.imbalance(result.assignment.tolist(), 10))
    with pytest.raises(InputError, match=f"half_life does not apply to {name}, got 9; {name} takes threshold"):
        simulate(stream, name, 10, half_life=9)


def test_simulate_names_the_hot_keys_of_the_stream_for_fanout():
    stream = np.array([7] * 900 + list(range(100, 200)))
    result = simulate(stream, "hot-key-fanout", 1000, sources=1, threshold=0.5)
    assert (result.head_replicas, result.replicas) == (10, 110)


def test_fish_halves_the_workers_for_every_halving_of_the_frequency():
    stream = np.tile([1] * 14 + [2] * 5 + [3], 500)  # key 2 has 1/2.8 of the messages of key 1, key 3 has 1/14
    fish = resolve("fish").peer(64, epoch=20_000)
    sets = naive.workers_of_keys(stream.tolist(), fish.route(stream).tolist())
    assert fish._widths.widest[:3].tolist() == [64, 32, 8]
    assert all(len(sets[key]) <= most for key, most in {1: 64, 2: 32, 3: 8}.items())


def test_fish_forgets_what_was_hot():
    """The count of a key with all of 5,000 messages is all but gone after some epochs without it."""
    fish = resolve("fish").peer(20)
    fish.route(np.ones(5000, np.int64))
    assert fish._hitters.bounds(1) == (fish._hitters.total, 249)  # 1000 · (0.2 + 0.2² + …), rounded down
    fish.route(np.arange(1000, 9000) % 50)
    assert fish._hitters.bounds(1)[1] < 0.05 * fish._hitters.total


# The same workers as the oracles, on random streams.

streams = st.lists(st.one_of(st.integers(0, 3), st.integers(4, 40), st.integers(-(2**63), -1)), max_size=250)
workers_of = st.sampled_from([1, 2, 3, 16, 50])


def hash_salt_of(seed):
    """Peers have candidates of their own: the same at every source."""
    return int(np.random.default_rng(seed).integers(0, 2**63))


@settings(max_examples=60, deadline=None)
@given(streams, workers_of, st.integers(0, 9), st.integers(1, 12))
def test_salting_equals_its_oracle(stream, workers, seed, salts):
    routed = resolve("salting").peer(workers, seed=seed, source=3, salts=salts).route(np.array(stream, np.int64))
    drawn = np.random.default_rng([seed, 3]).integers(0, salts, len(stream)).tolist()
    assert routed.tolist() == naive.route_by_salt(stream, drawn, hash_salt_of(seed), workers)


@settings(max_examples=60, deadline=None)
@given(streams, workers_of, st.integers(0, 9), st.integers(1, 12), st.integers(0, 250))
def test_fanout_equals_its_oracle(stream, workers, seed, fanout, cut):
    hot = {0, 3, *stream[:1]}
    peer = resolve("hot-key-fanout").peer(workers, seed=seed, source=3, hot=sorted(hot), fanout=fanout)
    routed = [worker for some in (stream[:cut], stream[cut:]) for worker in peer.route(np.array(some, np.int64))]
    nonce = int(np.random.default_rng([seed, 3]).integers(0, fanout))
    assert routed == naive.route_by_fanout(stream, hot, fanout, nonce, hash_salt_of(seed), workers)[0]


@settings(max_examples=100, deadline=None)
@given(
    streams,
    workers_of,
    st.integers(0, 9),
    st.sampled_from([0.01, 0.05, 0.3]),
    st.integers(1, 60),
    st.sampled_from([0.1, 0.2, 0.5, 0.9]),
    st.integers(0, 250),
)
def test_fish_equals_its_oracle(stream, workers, seed, threshold, epoch, decay, cut):
    peer = resolve("fish").peer(workers, seed=seed, threshold=threshold, epoch=epoch, decay=decay)
    routed = [worker for some in (stream[:cut], stream[cut:]) for worker in peer.route(np.array(some, np.int64))]
    oracle = naive.Fish(workers, hash_salt_of(seed), threshold, epoch, decay)
    assert routed == oracle.route(stream)
    assert peer.loads.tolist() == oracle.loads
