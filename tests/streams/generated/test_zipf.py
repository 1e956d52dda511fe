"""Zipf streams: the law, the seed, and parameters that are rejected."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import zipf, zipf_probabilities


def naive_zipf(skew, keys, messages, seed):
    """Inverse CDF, one message at a time."""
    weights = [rank**-skew for rank in range(1, keys + 1)]
    total = math.fsum(weights)
    random = np.random.Generator(np.random.PCG64(seed))
    ranks = []
    for uniform in random.random(messages):
        rank, reached = 0, 0.0
        while rank < keys and reached <= uniform:
            reached += weights[rank] / total
            rank += 1
        ranks.append(rank)
    return hash_keys(ranks)


@settings(max_examples=40)
@given(st.floats(0, 3), st.integers(1, 300), st.integers(0, 200), st.integers(0, 2**63 - 1))
def test_inverse_cdf(skew, keys, messages, seed):
    assert zipf(skew, keys, messages, seed).tolist() == naive_zipf(skew, keys, messages, seed).tolist()


@pytest.mark.parametrize("skew", [0.0, 0.3, 1.0, 1.4, 2.0, 1000.0])
@pytest.mark.parametrize("keys", [1, 2, 10_000])
def test_probabilities(skew, keys):
    law = zipf_probabilities(skew, keys)
    assert law.shape == (keys,)
    assert law.sum() == pytest.approx(1)
    assert (np.diff(law) <= 0).all()
    if keys > 1 and skew < 100:
        assert law[0] / law[1] == pytest.approx(2**skew)


def test_a_shorter_stream_is_the_beginning_of_a_longer_one():
    # The length is not a multiple of the chunks in which the stream is drawn.
    assert (zipf(0.9, 5000, 300_000)[:200_001] == zipf(0.9, 5000, 200_001)).all()


def test_never_changes():
    """Published results depend on the stream of a seed."""
    first = hash_keys([66, 4, 1, 1, 247, 521])
    assert zipf(1.0, 1000, 6, seed=0).tolist() == first.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 10, 10), "skew must not be negative, got -0.1"),
        ((math.nan, 10, 10), "skew must be a finite number, got nan"),
        ((1.0, 0, 10), "keys must be at least 1, got 0"),
        ((1.0, 2**31, 10), "keys must be at most 100000000"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        zipf(*arguments)
