"""All schemes side by side: the numbers are those of `simulate`, and the advice follows from them."""

import numpy as np
import pytest

from keyspread import InputError, simulate
from keyspread.evaluation.compare import ALL, Compared, advice, best, compare, frontier
from keyspread.schemes import resolve
from keyspread.streams import zipf
from keyspread.streams.encoded import Encoded


def one(scheme, windowed, replicas, workers=10):
    return Compared(scheme, windowed, windowed, 1 + windowed * workers, replicas, 1, replicas / 100, 1e6)


def test_the_numbers_are_those_of_simulate():
    stream = zipf(1.4, 300, 5000)
    found = compare(Encoded.of(stream), 8, sources=3, seed=2, windows=5, threshold=0.05)
    assert [compared.scheme for compared in found] == list(ALL)
    for compared in found:
        recommended = resolve(compared.scheme).recommended
        done = simulate(stream, compared.scheme, 8, sources=3, seed=2, windows=5, threshold=0.05, **recommended)
        assert (compared.imbalance, compared.windowed_imbalance) == (done.imbalance, done.windowed_imbalance)
        assert (compared.replicas, compared.head_replicas) == (done.replicas, done.head_replicas)
        assert compared.replicas_per_key == done.replicas / done.keys
        assert compared.busiest == pytest.approx(1 + 8 * done.windowed_imbalance)
        assert compared.rate > 0


@pytest.mark.parametrize(("alias", "name"), [("pk", "per-key"), ("Dc", "d-choices"), ("FISH", "fish")])
def test_an_alias_is_compared_like_the_name(alias, name):
    """An alias must not lose the option that is recommended for per-key."""
    stream = Encoded.of(np.concatenate([zipf(1.5, 300, 5000, seed=1), zipf(1.5, 300, 5000, seed=2) + 1000]))
    by_alias, by_name = (compare(stream, 8, [scheme])[0].to_dict() | {"rate": 0} for scheme in (alias, name))
    assert by_alias == by_name
    recommended = resolve(name).recommended
    assert (by_name["windowed_imbalance"] != simulate(stream, name, 8).windowed_imbalance) == bool(recommended)


def test_nobody_on_the_frontier_is_beaten_in_both():
    many = [one("a", 0.3, 100), one("b", 0.1, 150), one("c", 0.1, 160), one("d", 0.0, 900), one("e", 0.2, 140)]
    assert [compared.scheme for compared in frontier(many)] == ["d", "b", "e", "a"]


def test_equal_ones_beat_nobody():
    assert len(frontier([one("a", 0.1, 5), one("b", 0.1, 5)])) == 2


def test_the_best_is_the_cheapest_that_is_even_enough():
    assert best([one("key", 0.3, 100), one("shuffle", 0.0, 900), one("d-choices", 0.009, 150)]).scheme == "d-choices"
    assert best([one("key", 0.3, 100), one("shuffle", 0.05, 900)]).scheme == "shuffle"


def test_advice():
    even = [one("key", 0.001, 100), one("planned", 0.0, 101)]
    assert advice(even, 10).startswith(
        "You do not need keyspread here: with key grouping the busiest worker has only 1.01 ×"
    )
    hot = [one("key", 0.3, 100), one("w-choices", 0.001, 200), one("planned", 0.0, 110)]
    assert advice(hot, 10) == (
        "Use planned: the busiest worker has 1.00 × its even share (with key grouping 4.0 ×), at 1.10 replicas per key."
        " If messages must be routed one by one, use w-choices: 1.01 × at 2.00 replicas per key."
    )
    with_peer = advice([*hot, one("fish", 0.0005, 150)], 10)
    assert with_peer.startswith("Use planned:")  # one of ours, even if a peer is better
    assert with_peer.endswith(" fish, a published alternative, is better than w-choices on both counts.")
    with_two = advice([*hot, one("fish", 0.0005, 150), one("salting", 0.0006, 150)], 10)
    assert with_two.endswith(" fish and salting, published alternatives, are better than w-choices on both counts.")
    assert advice(hot, 1) == "There is only one worker: nothing to balance."


def test_an_empty_stream_is_compared_too():
    assert {compared.replicas for compared in compare(Encoded.of(np.empty(0, np.int64)), 3)} == {0}


def test_wrong_options_are_refused():
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        compare(Encoded.of(np.arange(5)), 0)
