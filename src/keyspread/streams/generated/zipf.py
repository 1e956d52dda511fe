"""Zipf streams: key r (r = 1, 2, …) has probability proportional to r^-skew, exactly, for any skew >= 0.

Published results depend on the stream of each seed: a change here must not alter it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.streams.generated.generator import GeneratedStream


def zipf_probabilities(skew: float, keys: int) -> npt.NDArray[np.float64]:
    """Return the exact Zipf law: entry r - 1 is r^-skew / (1^-skew + … + keys^-skew); descending, sums to 1.

    >>> zipf_probabilities(1.0, 3).round(4).tolist()  # 1, 1/2, 1/3 over 11/6
    [0.5455, 0.2727, 0.1818]
    """
    skew, keys = checks.not_negative("skew", skew), checks.whole_number("keys", keys)
    weights = np.arange(1, keys + 1, dtype=np.float64)
    np.power(weights, -skew, out=weights)
    weights /= weights.sum()  # NumPy sums pairwise: the error stays far below one ulp per key
    return weights


class ZipfRanks:
    """Returns the rank of message i of a Zipf stream for any i: parts drawn separately belong to one stream.

    >>> law = ZipfRanks(1.4, keys=1000, seed=7)
    >>> law.draw(0, 5).tolist() == law.draw(0, 2).tolist() + law.draw(2, 3).tolist()
    True
    """

    def __init__(self, skew: float, keys: int, seed: int = 0) -> None:
        cumulative = np.minimum(np.cumsum(zipf_probabilities(skew, keys)), 1.0)
        cumulative[-1] = 1.0  # rounding leaves it slightly off, and a uniform may be as large as 1 - 2^-53
        # Guide table: [0, 1) is cut into cells, and the key for a uniform is in first[cell] … first[cell + 1].
        # With shares .5 .3 .2 and 4 cells, first is 0 0 1 1 2: a uniform of .3 is in cell 1, key 0 or 1.
        # The number of cells is a power of two, so that uniform * cells is exact. With several cells per key, most
        # cells contain one key only.
        cells = min(1 << 24, 1 << (4 * len(cumulative)).bit_length())
        first = np.searchsorted(cumulative, np.arange(cells + 1) / cells, side="right").astype(np.int32)
        first[-1] = len(cumulative) - 1
        self._cumulative, self._cells, self._first = cumulative, cells, first
        self._seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)

    @property
    def keys(self) -> int:
        """Number of keys."""
        return len(self._cumulative)

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Return the ranks (1 is the most frequent key) of the messages start … start + messages - 1."""
        generator = np.random.PCG64(self._seed)
        generator.advance(start)  # each uniform takes one step
        uniforms = np.random.Generator(generator).random(messages)
        cell = (uniforms * self._cells).astype(np.int32)
        ranks = self._first[cell]
        last = self._first[cell + 1]
        undecided = np.flatnonzero(ranks != last)
        ranks[undecided] = _bisect(self._cumulative, uniforms[undecided], ranks[undecided], last[undecided])
        ranks += 1
        return ranks


@dataclass(frozen=True)
class ZipfStream(GeneratedStream):
    """A Zipf stream. A shorter stream with the same parameters is the beginning of a longer one.

    >>> ZipfStream(1.4, keys=1000, messages=5, seed=7).hashes().tolist() == zipf(1.4, 1000, 9, seed=7)[:5].tolist()
    True
    """

    skew: float
    keys: int
    messages: int
    seed: int = 0
    name: str = ""
    kind: ClassVar[str] = "zipf"

    def __post_init__(self) -> None:
        """Raise an InputError for a parameter out of range."""
        checks.not_negative("skew", self.skew)
        checks.whole_number("keys", self.keys)
        checks.whole_number("messages", self.messages, minimum=0)
        checks.whole_number("seed", self.seed, minimum=0, maximum=2**63 - 1)

    @property
    def title(self) -> str:
        """Short name for reports and plots."""
        return self.name or f"Zipf {self.skew:g} over {self.keys:,} keys"

    def law(self) -> ZipfRanks:
        """Build the tables to draw from."""
        return ZipfRanks(self.skew, self.keys, self.seed)


def zipf(skew: float, keys: int, messages: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return one hash per message of a Zipf stream: the hash of the integer key r, equal to `hash_keys([r])`.

    The stream depends on (skew, keys, seed) only; a shorter one is the beginning of a longer one.

    >>> from keyspread import hash_keys
    >>> bool(np.isin(zipf(1.4, 1000, 5, seed=7), hash_keys(range(1, 1001))).all())
    True
    """
    return ZipfStream(skew, keys, messages, seed).hashes()


def _bisect(
    cumulative: npt.NDArray[np.float64],
    uniforms: npt.NDArray[np.float64],
    low: npt.NDArray[np.int32],
    high: npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """Return the first key whose cumulative probability exceeds the uniform, within [low, high]."""
    while (low < high).any():
        middle = (low + (high - low) // 2).astype(np.int32)
        beyond = (cumulative[middle] <= uniforms) & (low < high)
        low = np.where(beyond, middle + 1, low).astype(np.int32)
        high = np.where(beyond, high, middle).astype(np.int32)
    return low
