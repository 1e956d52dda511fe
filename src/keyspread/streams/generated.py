"""Generated streams: message i is the same wherever the stream is drawn, and in whatever parts.

A generated stream is described by a few numbers. It is drawn where it is needed, in a simulation or inside a Spark
task, so its messages never travel over the network.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams.encoded import Encoded

_CHUNK = 1 << 17
"""Messages drawn at once: about 1 MB of random numbers and 0.5 MB of ranks, however long the stream is."""


class Law(Protocol):
    """A probability law that draws the keys 1 … keys."""

    @property
    def keys(self) -> int:
        """Number of keys that may occur."""

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Return the keys of the messages start … start + messages - 1."""


class GeneratedStream(ABC):
    """A stream of integer keys 1, 2, … drawn from a law. Subclasses are dataclasses of the law's parameters."""

    kind: ClassVar[str]
    messages: int
    seed: int
    name: str

    @property
    @abstractmethod
    def title(self) -> str:
        """Short name for reports and plots."""

    @abstractmethod
    def law(self) -> Law:
        """Build the tables to draw from; time and memory grow with the number of keys."""

    def parameters(self) -> dict[str, Any]:
        """Return everything that determines the stream, as plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        values["stream"] = values.pop("name") or self.kind
        # The results of a simulation use the plain names for the keys it counts and for its own seed.
        return {{"keys": "law_keys", "seed": "stream_seed"}.get(name, name): value for name, value in values.items()}

    def encoded(self) -> Encoded:
        """Draw the whole stream into memory, 4 bytes per message."""
        checks.whole_number("messages", self.messages, minimum=0, maximum=checks.LIMITS["messages in memory"])
        law = self.law()
        ids = np.empty(self.messages, np.int32)
        for start in range(0, self.messages, _CHUNK):
            stop = min(start + _CHUNK, self.messages)
            np.subtract(law.draw(start, stop - start), 1, out=ids[start:stop])
        return Encoded(ids, hash_keys(np.arange(1, law.keys + 1))).without_absent_keys()

    def hashes(self) -> npt.NDArray[np.int64]:
        """Draw the whole stream as hashes, 8 bytes per message."""
        return self.encoded().part(0, self.messages)


# Zipf streams: key r (r = 1, 2, …) has probability proportional to r^-skew, exactly, for any skew >= 0.
#
# Published results depend on the stream of each seed: a change here must not alter it.


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


# Drifting Zipf streams: the law stays the same, but the hot keys change after every so many messages.
#
# At each change the hottest ranks are assigned to other keys, drawn from all keys: a key that was hot yesterday is an
# ordinary key today. Published results depend on the stream of each seed: a change here must not alter it.


_DRIFT = 0x5EED  # seeds the changes together with the seed, so that changes and ranks are independent


class DriftingRanks:
    """Returns the key of message i of a drifting stream for any i: parts drawn separately belong to one stream.

    >>> law = DriftingRanks(1.4, keys=1000, every=10, hottest=5, seed=7)
    >>> law.draw(0, 40).tolist() == law.draw(0, 15).tolist() + law.draw(15, 25).tolist()
    True
    """

    def __init__(self, skew: float, keys: int, every: int, hottest: int, redrawn: float = 1.0, seed: int = 0) -> None:
        self._ranks = ZipfRanks(skew, keys, seed)
        self._every, self._hottest, self._redrawn, self._seed = every, hottest, redrawn, seed
        self._phase, self._key_of = 0, _as_ranked(keys)

    @property
    def keys(self) -> int:
        """Number of keys."""
        return self._ranks.keys

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Return the keys of the messages start … start + messages - 1."""
        keys = self._ranks.draw(start, messages)
        at = 0
        while at < messages:
            phase = (start + at) // self._every
            stop = min(messages, (phase + 1) * self._every - start)
            keys[at:stop] = self.key_of(phase)[keys[at:stop]]
            at = stop
        return keys

    def key_of(self, phase: int) -> npt.NDArray[np.int32]:
        """Return the key of each rank (entry 0 is unused) in the given phase, a stretch of `every` messages."""
        # Swap one after the other, because a rank may be swapped twice; to go back, undo the swaps in reverse order.
        while self._phase < phase:
            self._phase += 1
            for rank, other in self._changes(self._phase):
                self._key_of[[rank, other]] = self._key_of[[other, rank]]
        while self._phase > phase:
            for rank, other in reversed(self._changes(self._phase)):
                self._key_of[[rank, other]] = self._key_of[[other, rank]]
            self._phase -= 1
        return self._key_of

    def _changes(self, phase: int) -> list[tuple[int, int]]:
        """Return the pairs of ranks that swap their keys when a phase starts."""
        changes = np.random.default_rng([_DRIFT, self._seed, phase])
        hot = 1 + np.flatnonzero(changes.random(self._hottest) < self._redrawn)
        return list(zip(hot.tolist(), changes.integers(1, self.keys + 1, hot.size).tolist(), strict=True))


def _as_ranked(keys: int) -> npt.NDArray[np.int32]:
    return np.arange(keys + 1, dtype=np.int32)


@dataclass(frozen=True)
class DriftingZipfStream(GeneratedStream):
    """A Zipf stream whose `hottest` ranks are assigned to other keys after `every` so many messages.

    `redrawn` is the share of these ranks that changes each time: with 1 all of them change, with 0.1 one in ten.

    >>> still, drifting = DriftingZipfStream(1.4, 1000, 100, every=100), DriftingZipfStream(1.4, 1000, 100, every=50)
    >>> bool((still.hashes()[:50] == drifting.hashes()[:50]).all()), bool((still.hashes() == drifting.hashes()).all())
    (True, False)
    """

    skew: float
    keys: int
    messages: int
    every: int = 50_000
    hottest: int = 100
    redrawn: float = 1.0
    seed: int = 0
    name: str = ""
    kind: ClassVar[str] = "drift"

    def __post_init__(self) -> None:
        """Raise an InputError for a parameter out of range."""
        checks.not_negative("skew", self.skew)
        checks.whole_number("keys", self.keys)
        checks.whole_number("messages", self.messages, minimum=0)
        checks.whole_number("every", self.every, maximum=2**62)
        checks.whole_number("hottest", self.hottest, minimum=0)
        if not 0 < checks.number("redrawn", self.redrawn) <= 1:
            raise InputError(f"redrawn is a share of the hottest ranks, above 0 and at most 1, got {self.redrawn!r}")
        checks.whole_number("seed", self.seed, minimum=0, maximum=2**63 - 1)
        if self.hottest > self.keys:
            raise InputError(f"hottest must be at most the number of keys, {self.keys}, got {self.hottest}")

    @property
    def title(self) -> str:
        """Short name for reports and plots."""
        return self.name or f"Zipf {self.skew:g} over {self.keys:,} keys, drifting every {self.every:,} messages"

    def law(self) -> DriftingRanks:
        """Build the tables to draw from."""
        return DriftingRanks(self.skew, self.keys, self.every, self.hottest, self.redrawn, self.seed)
