"""Mixing: the same bits as in plain integers, and workers drawn evenly."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.mixing import candidate, mix, reduce

words = st.integers(0, 2**64 - 1)


@settings(max_examples=200, deadline=None)
@given(words)
def test_mix_equals_the_plain_one(x):
    assert int(mix(np.uint64(x))) == naive.mix(x)


@settings(max_examples=200, deadline=None)
@given(words, st.integers(1, 2**31 - 1))
def test_reduce_equals_the_plain_one(x, workers):
    assert reduce(np.uint64(x), workers) == naive.reduce(x, workers)


@settings(max_examples=200, deadline=None)
@given(words, st.integers(0, 2**63), st.integers(0, 10_000), st.integers(1, 2**31 - 1))
def test_candidate_equals_the_plain_one(key, seed, number, workers):
    salt = np.uint64(naive.salt_of(seed))
    assert candidate(np.uint64(key), salt, number, workers) == naive.candidate(key, seed, number, workers)


def candidates(key, seed, choices, workers):
    salt = np.uint64(naive.salt_of(seed))
    return [int(candidate(np.uint64(key), salt, number, workers)) for number in range(choices)]


def test_candidates_never_change():
    """Stored states rely on the candidates of a key. With another mixing they could not be read."""
    assert candidates(key=42, seed=0, choices=5, workers=100) == [27, 30, 47, 29, 66]
    assert candidates(key=2**64 - 1, seed=7, choices=3, workers=7) == [2, 4, 0]


def test_candidates_of_one_key_and_of_neighbouring_keys_are_spread_evenly():
    of_one_key = Counter(candidates(key=12345, seed=0, choices=20_000, workers=20))
    of_neighbours = Counter(candidates(key, 0, 2, 20)[1] for key in range(20_000))
    for drawn in (of_one_key, of_neighbours):
        # 1000 per worker, within five standard deviations of a binomial count
        assert all(abs(drawn[worker] - 1000) < 5 * 1000**0.5 for worker in range(20))
