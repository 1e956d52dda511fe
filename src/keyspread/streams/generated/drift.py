"""Drifting Zipf streams: the law stays, but which keys are hot changes every so many messages.

At each change the hottest ranks go to other keys, drawn from all: yesterday's hot key is an ordinary one today.
What may be changed here: how fast it draws. What may not: which stream a seed gives.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.generated.generator import Made
from keyspread.streams.generated.zipf import ZipfRanks

_DRIFT = 0x5EED  # beside the seed of the ranks, so that changes and ranks have nothing to do with each other


class DriftingRanks:
    """Key of message i of a drifting stream, for any i.

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
        """How many keys there are."""
        return self._ranks.keys

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Give the keys of the messages start … start + messages - 1."""
        keys = self._ranks.draw(start, messages)
        at = 0
        while at < messages:
            phase = (start + at) // self._every
            stop = min(messages, (phase + 1) * self._every - start)
            keys[at:stop] = self.key_of(phase)[keys[at:stop]]
            at = stop
        return keys

    def key_of(self, phase: int) -> npt.NDArray[np.int32]:
        """Give the key of each rank (entry 0 is unused) in the phase-th stretch of `every` messages."""
        # One after the other, as each may be told to change with a rank that has changed already; undone, backwards.
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
        """Give the pairs of ranks that exchange their keys when a phase begins."""
        changes = np.random.default_rng([_DRIFT, self._seed, phase])
        hot = 1 + np.flatnonzero(changes.random(self._hottest) < self._redrawn)
        return list(zip(hot.tolist(), changes.integers(1, self.keys + 1, hot.size).tolist(), strict=True))


def _as_ranked(keys: int) -> npt.NDArray[np.int32]:
    return np.arange(keys + 1, dtype=np.int32)


@dataclass(frozen=True)
class DriftingZipfStream(Made):
    """A Zipf stream whose `hottest` ranks go to other keys `every` so many messages.

    `redrawn` is the share of them that changes each time: 1 is a clean sweep, 0.1 a slow change.

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
        """Refuse what is no stream."""
        checks.not_negative("skew", self.skew)
        checks.whole_number("keys", self.keys)
        checks.whole_number("messages", self.messages, minimum=0, maximum=2**62)
        checks.whole_number("every", self.every, maximum=2**62)
        checks.whole_number("hottest", self.hottest, minimum=0)
        if not 0 < checks.number("redrawn", self.redrawn) <= 1:
            raise InputError(f"redrawn is a share of the hottest ranks, above 0 and at most 1, got {self.redrawn!r}")
        checks.whole_number("seed", self.seed, minimum=0, maximum=2**63 - 1)
        if self.hottest > self.keys:
            raise InputError(f"hottest must be at most the number of keys, {self.keys}, got {self.hottest}")

    @property
    def title(self) -> str:
        """A few words for people."""
        return self.name or f"Zipf {self.skew:g} over {self.keys:,} keys, drifting every {self.every:,} messages"

    def law(self) -> DriftingRanks:
        """Make the tables that draw."""
        return DriftingRanks(self.skew, self.keys, self.every, self.hottest, self.redrawn, self.seed)
