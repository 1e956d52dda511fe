"""Look-alikes of the paper's real streams, which cannot be redistributed.

A look-alike has the number of messages, the number of keys and the share p_1 of the hottest key that the paper's Table
I gives. It is a Zipf law: the exponent is fitted to p_1, and the number of possible keys to the number of keys that
occur. The look-alike of the cashtags drifts: its hot keys change over the whole period. A look-alike copies neither the
daily rhythm of the real stream nor the distribution of its tail.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.generated.drift import DriftingRanks, DriftingZipfStream
from keyspread.streams.generated.zipf import ZipfStream, zipf_probabilities

_EXACT = 10_000  # ranks summed one by one; integrals approximate the rest, with an error far below one in a million
_LEAST_KEYS = 100  # of a scaled look-alike: with fewer keys, no Zipf law fits both p_1 and the number of keys


@dataclass(frozen=True)
class Original:
    """What the paper's Table I says about a real stream, and our assumption on how it drifts."""

    symbol: str
    what: str
    messages: int
    keys: int
    p1: float
    phases: int = 1
    """Phases with different hot keys. The paper gives no number, only 'changes drastically throughout time'."""


ORIGINALS = {
    "wp": Original("WP", "Wikipedia page visits of one day, key = URL", 22_000_000, 2_900_000, 0.0932),
    "tw": Original("TW", "tweets of July 2012, key = word", 1_200_000_000, 31_000_000, 0.0267),
    "ct": Original("CT", "tweets of November 2013, key = cashtag", 690_000, 2_900, 0.0329, phases=8),
}
_HOTTEST = 100  # ranks that are assigned to other keys when a stream drifts


def look_alike(symbol: str, scale: float = 1.0, seed: int = 0) -> ZipfStream | DriftingZipfStream:
    """Return a stream like WP, TW or CT; `scale` shrinks messages and keys by the same factor and keeps p_1.

    >>> look_alike("wp", scale=0.01)
    ZipfStream(skew=1.01..., keys=..., messages=220000, seed=0, name='WP look-alike, 0.01 of its size')
    """
    original = ORIGINALS.get(str(symbol).lower())
    if original is None:
        raise InputError(f"unknown look-alike {symbol!r}; known are {', '.join(ORIGINALS)}")
    scale = checks.share("scale", scale)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    messages, keys = round(original.messages * scale), round(original.keys * scale)
    if keys < _LEAST_KEYS:
        least = _LEAST_KEYS / original.keys
        raise InputError(f"scale {scale:g} leaves {keys} keys of {original.symbol}: take {least:.2g} or more")
    name = f"{original.symbol} look-alike" + ("" if scale == 1 else f", {scale:g} of its size")
    if original.phases == 1:
        skew, law_keys = _fitted(messages, keys, original.p1)
        return ZipfStream(skew, law_keys, messages, seed, name)
    every = math.ceil(messages / original.phases)
    hottest = min(_HOTTEST, keys // 2)
    skew = _drifting_skew(keys, original.p1, original.phases, hottest, seed)
    return DriftingZipfStream(skew, keys, messages, every, hottest, seed=seed, name=name)


@lru_cache
def _fitted(messages: int, keys: int, p1: float) -> tuple[float, int]:
    """Return exponent and number of keys of the Zipf law with the share p1 and `keys` expected keys in `messages`."""

    def skew_for(law_keys: float) -> float:
        return _least(lambda skew: 1 / _powers_sum(skew, law_keys) >= p1, 0.0, 4.0)

    law_keys = _least(lambda size: _occurring(skew_for(size), size, messages) >= keys, keys, 1000 * keys)
    return round(skew_for(law_keys), 6), round(law_keys)


def _drifting_skew(keys: int, p1: float, phases: int, hottest: int, seed: int) -> float:
    """Return the exponent with which the hottest key has the share p1 over all phases together."""
    law = DriftingRanks(1.0, keys, every=1, hottest=hottest, seed=seed)
    key_of = [law.key_of(phase)[1:].copy() for phase in range(phases)]

    def hottest_share(skew: float) -> float:
        shares = np.zeros(keys + 1)
        for ranked in key_of:
            shares[ranked] += zipf_probabilities(skew, keys) / phases
        return float(shares.max())

    return round(_least(lambda skew: hottest_share(skew) >= p1, 0.0, 4.0), 6)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number from which on `enough` holds, by bisection."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _powers_sum(skew: float, keys: float) -> float:
    """Return 1^-skew + … + keys^-skew."""
    exact = min(_EXACT, int(keys))
    total = float((np.arange(1, exact + 1, dtype=np.float64) ** -skew).sum())
    if keys > exact:
        # Euler-Maclaurin formula: the integral plus half the difference of the integrand at both ends.
        rest = math.log(keys / exact) if skew == 1 else (keys ** (1 - skew) - exact ** (1 - skew)) / (1 - skew)
        total += rest + (keys**-skew - exact**-skew) / 2
    return total


def _occurring(skew: float, keys: float, messages: int) -> float:
    """Return the expected number of keys that occur: a key with share p does with probability 1 - e^(-messages·p)."""
    scale = messages / _powers_sum(skew, keys)
    exact = min(_EXACT, int(keys))
    ranks = np.arange(1, exact + 1, dtype=np.float64)
    total = float(-np.expm1(-scale * ranks**-skew).sum())
    if keys > exact:
        ends = np.geomspace(exact, keys, 2001)
        middles = np.sqrt(ends[1:] * ends[:-1])
        total += float((-np.expm1(-scale * middles**-skew) * np.diff(ends)).sum())
    return total
