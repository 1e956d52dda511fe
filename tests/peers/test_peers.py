"""Peers follow their published rule, the same for the same seed, and are simulated like any scheme."""

import numpy as np
import pytest

import naive
from keyspread import InputError, simulate
from keyspread.peers import PEERS
from keyspread.schemes import resolve
from keyspread.streams import zipf

any_peer = pytest.mark.parametrize("name", PEERS)


@any_peer
@pytest.mark.parametrize("workers", [1, 2, 30])
def test_every_message_gets_one_of_the_workers(name, workers):
    stream = zipf(1.3, 500, 5000)
    one = resolve(name.upper()).peer(workers, source=2, seed=3)
    routed = one.route(stream)
    assert (routed.dtype, routed.min() >= 0, routed.max() < workers) == (np.int32, True, True)
    assert one.loads.tolist() == np.bincount(routed, minlength=workers).tolist()
    assert routed.tolist() == resolve(name).peer(workers, source=2, seed=3).route(stream).tolist()


@any_peer
def test_batches_give_the_same_workers(name):
    stream = zipf(1.3, 500, 5000)
    whole, parts = (resolve(name).peer(20, seed=1) for _ in range(2))
    routed = np.concatenate([parts.route(part) for part in np.split(stream, [1, 999, 1000, 3210])])
    assert routed.tolist() == whole.route(stream).tolist()


@any_peer
def test_simulated_like_a_scheme(name):
    stream = zipf(1.3, 500, 5000)
    done = simulate(stream, name, 10, assignment=True, half_life=100)
    assert done.scheme == name
    assert done.replicas == naive.replicas(stream.tolist(), done.assignment.tolist())
    assert done.imbalance == pytest.approx(naive.imbalance(done.assignment.tolist(), 10))
    with pytest.raises(InputError, match=f"unknown option 'colour'; {name} takes threshold"):
        simulate(stream, name, 10, colour="red")


def test_salting_gives_every_key_as_many_workers_as_there_are_salts():
    routed = resolve("salting").peer(1000, salts=4).route(np.full(1000, 7))
    assert np.unique(routed).size == 4
    assert np.bincount(routed).max() < 400  # about 250 each


def test_fanout_takes_turns_for_hot_keys_and_leaves_others_alone():
    routed = resolve("hot-key-fanout").peer(1000, hot=[7], fanout=3).route(np.array([7, 8] * 30))
    assert np.unique(routed[1::2]).size == 1
    assert routed[0::2].tolist() == routed[0:6:2].tolist() * 10
    assert np.unique(routed[0::2]).size == 3


def test_fanout_is_told_the_hot_keys_of_the_stream():
    stream = np.array([7] * 900 + list(range(100, 200)))
    done = simulate(stream, "hot-key-fanout", 1000, sources=1, threshold=0.5, fanout=3)
    assert (done.head_replicas, done.replicas) == (3, 103)


def test_fish_halves_the_workers_for_every_halving_of_the_frequency():
    stream = np.tile([1] * 14 + [2] * 5 + [3], 500)  # the second has 1/2.8 of the first, the third 1/14
    fish = resolve("fish").peer(64, epoch=20_000)
    sets = naive.workers_of_keys(stream.tolist(), fish.route(stream).tolist())
    assert fish._widest[:3].tolist() == [64, 32, 8]
    assert all(len(sets[key]) <= most for key, most in {1: 64, 2: 32, 3: 8}.items())


def test_fish_forgets_what_was_hot():
    """A key with all of 5,000 messages counts for nothing after some more epochs without it."""
    fish = resolve("fish").peer(20)
    fish.route(np.ones(5000, np.int64))
    assert fish._hitters.bounds(1) == (fish._hitters.total, 249)  # 1000 · (0.2 + 0.2² + …), rounded down
    fish.route(np.arange(1000, 9000) % 50)
    assert fish._hitters.bounds(1)[1] < 0.05 * fish._hitters.total
