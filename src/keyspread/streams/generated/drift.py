"""Drifting Zipf streams: the law stays the same, but the hot keys change after every so many messages.

At each change the hottest ranks are assigned to other keys, drawn from all keys: a key that was hot yesterday is an
ordinary key today. Published results depend on the stream of each seed: a change here must not alter it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.generated.generator import GeneratedStream
from keyspread.streams.generated.zipf import ZipfRanks

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
