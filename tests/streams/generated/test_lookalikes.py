"""Look-alikes have the numbers of messages and keys and the p_1 of the paper's Table I."""

from itertools import pairwise

import pytest

from keyspread.errors import InputError
from keyspread.streams import ORIGINALS, DriftingZipfStream, ZipfStream, look_alike
from keyspread.streams.encoded import profile


def test_the_originals_are_those_of_table_1():
    sizes = {name: (one.messages, one.keys, one.p1) for name, one in ORIGINALS.items()}
    assert sizes == {
        "wp": (22_000_000, 2_900_000, 0.0932),
        "tw": (1_200_000_000, 31_000_000, 0.0267),
        "ct": (690_000, 2_900, 0.0329),
    }


@pytest.mark.parametrize(
    ("symbol", "scale", "seed"),
    [*(("wp", 0.05, seed) for seed in (0, 1, 7)), *(("ct", 1.0, seed) for seed in range(6)), ("tw", 0.001, 0)],
)
def test_messages_keys_and_p1(symbol, scale, seed):
    original = ORIGINALS[symbol]
    drawn = look_alike(symbol, scale, seed).encoded()
    assert drawn.messages == round(original.messages * scale)
    assert drawn.keys == pytest.approx(original.keys * scale, rel=0.02)
    assert drawn.counts.max() / drawn.messages == pytest.approx(original.p1, rel=0.02)


def test_wikipedia_does_not_drift():
    stream = look_alike("wp", 0.05)
    assert isinstance(stream, ZipfStream)
    found = profile(stream.encoded(), windows=8)
    assert found.drift < 0.15
    assert len({key for key, _ in found.leaders}) == 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cashtags_drift_in_every_phase(seed):
    stream = look_alike("ct", seed=seed)
    assert isinstance(stream, DriftingZipfStream)
    phases = ORIGINALS["ct"].phases
    assert stream.every * (phases - 1) < stream.messages <= stream.every * phases
    found = profile(stream.encoded(), windows=phases)
    assert found.drift > 0.8
    leaders = [key for key, _ in found.leaders]
    assert len(leaders) == phases
    assert all(before != after for before, after in pairwise(leaders))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("xy",), "unknown look-alike 'xy'; known are wp, tw, ct"),
        (("wp", 0), "scale is a share .* got 0"),
        (("wp", 1.1), "scale is a share .* got 1.1"),
        (("wp", 1e-5), "scale 1e-05 leaves 29 keys of WP: take 3.4e-05 or more"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        look_alike(*arguments)
