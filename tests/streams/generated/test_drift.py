"""Drifting streams compared with a replay message by message."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import DriftingZipfStream, ZipfStream
from keyspread.streams.generated import DriftingRanks


def naive_drift(skew, keys, messages, every, hottest, redrawn, seed):
    """Keep the key of each rank in a list; before each new phase, swap keys as the generator of that phase says."""
    ranks = ZipfStream(skew, keys, messages, seed).law().draw(0, messages).tolist()
    key_of = list(range(keys + 1))
    drawn = []
    for message, rank in enumerate(ranks):
        if message and message % every == 0:
            changes = np.random.default_rng([0x5EED, seed, message // every])
            chosen = [place for place, uniform in enumerate(changes.random(hottest), 1) if uniform < redrawn]
            others = changes.integers(1, keys + 1, len(chosen))
            for one, other in zip(chosen, others, strict=True):
                key_of[one], key_of[other] = key_of[other], key_of[one]
        drawn.append(key_of[rank])
    return drawn


@st.composite
def laws(draw):
    keys = draw(st.integers(1, 60))
    return {
        "skew": draw(st.floats(0, 2.5)),
        "keys": keys,
        "every": draw(st.integers(1, 80)),
        "hottest": draw(st.integers(0, keys)),
        "redrawn": draw(st.floats(0.01, 1)),
        "seed": draw(st.integers(0, 2**63 - 1)),
    }


@settings(max_examples=60, deadline=None)
@given(laws(), st.integers(0, 200))
def test_as_replayed_message_by_message(law, messages):
    stream = DriftingZipfStream(messages=messages, **law)
    expected = naive_drift(messages=messages, **law)
    assert stream.law().draw(0, messages).tolist() == expected
    assert stream.hashes().tolist() == hash_keys(np.array(expected, np.int64)).tolist()


@settings(max_examples=60, deadline=None)
@given(laws(), st.lists(st.integers(0, 50), max_size=8), st.randoms())
def test_any_cut_in_any_order_gives_the_same_stream(law, sizes, random):
    whole = DriftingRanks(**law).draw(0, sum(sizes)).tolist()
    parts = [(sum(sizes[:place]), size) for place, size in enumerate(sizes)]
    random.shuffle(parts)
    cut, drawn = DriftingRanks(**law), [0] * sum(sizes)
    for start, size in parts:
        drawn[start : start + size] = cut.draw(start, size).tolist()
    assert drawn == whole


def test_never_changes():
    """Published results depend on the stream of a seed."""
    first = [66, 4, 1, 23, 247, 521, 53, 132, 558, 615, 252, 368]
    assert DriftingZipfStream(1.0, 1000, 12, every=3, hottest=50).law().draw(0, 12).tolist() == first


GOOD = {"skew": 1.0, "keys": 200, "messages": 10, "every": 5, "hottest": 100, "redrawn": 0.5, "seed": 0}


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("keys", 99, "hottest must be at most the number of keys, 99, got 100"),
        ("every", 0, "every must be at least 1, got 0"),
        ("hottest", -1, "hottest must be at least 0, got -1"),
        ("redrawn", 0, "redrawn is a share .*, got 0"),
    ],
)
def test_what_is_refused(parameter, value, message):
    DriftingZipfStream(**GOOD)
    with pytest.raises(InputError, match=message):
        DriftingZipfStream(**{**GOOD, parameter: value})
