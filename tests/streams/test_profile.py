"""Profiles compared with counting in plain Python."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.streams import DriftingZipfStream, ZipfStream
from keyspread.streams.encoded import Encoded, profile


def naive_hottest(messages, most):
    return sorted(Counter(messages).items(), key=lambda one: (-one[1], one[0]))[:most]


def naive_windows(messages, windows):
    windows = min(windows, len(messages))
    borders = [len(messages) * place // windows for place in range(windows + 1)]
    return [messages[begin:end] for begin, end in pairwise(borders)]


def naive_profile(messages, windows, top, workers=50):
    ranked = naive_hottest(messages, None)
    counts = [count for _, count in ranked]
    tops = [{key for key, _ in naive_hottest(window, 10)} for window in naive_windows(messages, windows)]
    kept = [len(before & after) / min(len(before), len(after)) for before, after in pairwise(tops)]
    leaders = [(naive_hottest(window, 1)[0], len(window)) for window in naive_windows(messages, windows)]
    half = next(few for few in range(1, len(counts) + 1) if 2 * sum(counts[:few]) >= len(messages))
    hot = [count for count in counts if 5 * workers * count >= len(messages)]
    return {
        "messages": len(messages),
        "keys": len(counts),
        "p1": counts[0] / len(messages),
        "hot_keys": len(hot),
        "hot_share": sum(hot) / len(messages),
        "half": half,
        "top": ranked[:top],
        "drift": 1 - sum(kept) / len(kept) if kept else 0.0,
        "leaders": [(key, count / size) for (key, count), size in leaders],
    }


keys = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 12)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(keys, min_size=1, max_size=300) | st.lists(st.integers(0, 40), min_size=1, max_size=300),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_all_is_as_counted_in_plain_python(messages, windows, top):
    found = profile(Encoded.of(np.array(messages, np.int64)), windows, top)
    expected = naive_profile(messages, windows, top)
    for name, value in expected.items():
        given_ = getattr(found, name)
        if name == "leaders":
            assert [key for key, _ in given_] == [key for key, _ in value]
            assert [share for _, share in given_] == pytest.approx([share for _, share in value])
        elif name == "top":
            assert list(given_) == value
        else:
            assert given_ == pytest.approx(value), name


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=100), st.integers(0, 5), st.randoms())
def test_how_keys_are_numbered_and_absent_keys_make_no_difference(messages, absent, random):
    hashes = list(range(31 + absent))
    random.shuffle(hashes)
    ids = np.array([hashes.index(message) for message in messages], np.int32)
    assert profile(Encoded(ids, np.array(hashes))) == profile(Encoded.of(np.array(messages)))


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.4])
def test_the_exponent_is_that_of_the_law(skew):
    counts = np.rint(3000 * np.arange(1, 101.0) ** -skew).astype(np.int64)
    assert profile(Encoded.of(np.repeat(np.arange(100), counts))).exponent == pytest.approx(skew, abs=0.01)


def test_the_exponent_is_the_least_squares_slope():
    messages = np.repeat([5, 6, 7, 8], [40, 11, 9, 2])
    slope = np.polyfit(np.log([1, 2, 3, 4]), np.log([40, 11, 9, 2]), 1)[0]
    assert profile(Encoded.of(messages)).exponent == pytest.approx(-slope)
    assert profile(Encoded.of(np.repeat([5, 6], [3, 2]))).exponent is None


def test_drift():
    still = ZipfStream(1.4, 1000, 200_000).encoded()
    assert profile(still).drift < 0.1
    swept = DriftingZipfStream(1.4, 100_000, 200_000, every=20_000).encoded()
    assert profile(swept, windows=10).drift > 0.95
    slowly = DriftingZipfStream(1.4, 100_000, 200_000, every=20_000, redrawn=0.2).encoded()
    assert 0.1 < profile(slowly, windows=10).drift < 0.4
    assert profile(swept, windows=1).drift == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"windows": 0}, "windows must be at least 1, got 0"),
        ({"windows": 2.5}, "windows must be a whole number, got 2.5"),
        ({"top": -1}, "top must be at least 0, got -1"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        profile(Encoded.of(np.array([1, 2])), **arguments)
