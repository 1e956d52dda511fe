"""All schemes side by side: the numbers are those of `simulate`."""

import numpy as np
import pytest

from keyspread import InputError, simulate
from keyspread.evaluation.compare import ALL, SHORTEST_TIMED, Compared, compare, frontier
from keyspread.sender.registry import resolve
from keyspread.streams import zipf
from keyspread.streams.encoded import Encoded


def made(scheme, windowed, replicas, workers=10):
    return Compared(scheme, windowed, windowed, 1 + windowed * workers, replicas, 1, replicas / 100, 1e6)


def test_the_numbers_are_those_of_simulate():
    stream = zipf(1.4, 300, 5000)
    results = compare(Encoded.of(stream), 8, sources=3, seed=2, windows=5, threshold=0.05)
    assert [compared.scheme for compared in results] == list(ALL)
    for compared in results:
        recommended = resolve(compared.scheme).recommended
        done = simulate(stream, compared.scheme, 8, sources=3, seed=2, windows=5, threshold=0.05, **recommended)
        assert (compared.imbalance, compared.windowed_imbalance) == (done.imbalance, done.windowed_imbalance)
        assert (compared.replicas, compared.head_replicas) == (done.replicas, done.head_replicas)
        assert compared.replicas_per_key == done.replicas / done.keys
        assert compared.busiest == pytest.approx(1 + 8 * done.windowed_imbalance)
        assert compared.rate is None  # the stream is too short


@pytest.mark.parametrize(("alias", "name"), [("pk", "per-key"), ("Dc", "d-choices"), ("FISH", "fish")])
def test_an_alias_is_compared_like_the_name(alias, name):
    """An alias must not lose the option that is recommended for per-key."""
    stream = Encoded.of(np.concatenate([zipf(1.5, 300, 5000, seed=1), zipf(1.5, 300, 5000, seed=2) + 1000]))
    by_alias, by_name = (compare(stream, 8, [scheme])[0].to_dict() | {"rate": 0} for scheme in (alias, name))
    assert by_alias == by_name
    recommended = resolve(name).recommended
    assert (by_name["windowed_imbalance"] != simulate(stream, name, 8).windowed_imbalance) == bool(recommended)


def test_nobody_on_the_frontier_is_beaten_in_both():
    many = [made("a", 0.3, 100), made("b", 0.1, 150), made("c", 0.1, 160), made("d", 0.0, 900), made("e", 0.2, 140)]
    assert [compared.scheme for compared in frontier(many)] == ["d", "b", "e", "a"]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_an_array_of_hashes_is_a_stream_too(kind):
    stream = zipf(1.4, 300, 5000)
    by_array, by_encoded = (
        [result.to_dict() | {"rate": 0} for result in compare(given, 8, ["key", "d-choices", "planned"])]
        for given in (stream.astype(kind), Encoded.of(stream))
    )
    assert by_array == by_encoded
    with pytest.raises(InputError, match="hashes must be a one-dimensional array of int64 or uint64, got float64"):
        compare(np.zeros(3), 8)


def test_an_option_goes_to_the_schemes_that_take_it():
    stream = zipf(1.4, 300, 5000)
    by_key, d_choices, greedy = compare(stream, 8, ["key", "d-choices", "greedy"], tolerance=0.5, choices=3)
    assert by_key.replicas == simulate(stream, "key", 8).replicas
    assert d_choices.replicas == simulate(stream, "d-choices", 8, tolerance=0.5).replicas
    assert greedy.replicas == simulate(stream, "greedy", 8, choices=3).replicas


def test_wrong_options_are_refused():
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        compare(Encoded.of(np.arange(5)), 0)
    with pytest.raises(InputError, match=r"^tolerance applies to none of the schemes key, look-ahead, got 0.1$"):
        compare(np.arange(5), 2, ["key", "look-ahead"], tolerance=0.1)


def test_a_long_stream_has_rates_and_a_short_one_none():
    rates = [compare(np.arange(many) % 100, 8, ["key"])[0].rate for many in (SHORTEST_TIMED - 1, SHORTEST_TIMED)]
    assert rates[0] is None
    assert rates[1] > 0
