"""Published alternatives, each by its own rule, to compare our schemes with.

`simulate` and `compare` take their names. A `Sender` does not: peers are for measurements, not for jobs.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels.peers import new_widths, route_by_fanout, route_by_recent_counts, route_by_salt


class Peer(ABC):
    """Routes hashes to workers 0 … n-1: the same for the same seed, source and messages."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    """The options of this peer, with their defaults."""
    takes_hot_keys: ClassVar[bool] = False
    """Whether the user names the hot keys, in the option `hot`."""

    def __init__(
        self, workers: int, *, source: int = 0, seed: int = 0, threshold: float | None = None, **options: Any
    ) -> None:
        assert options.keys() <= self.options.keys()  # the registry has refused all others
        self.threshold = checked_threshold(threshold, workers)
        self.given = self.options | options
        self.loads = np.zeros(workers, np.int64)
        self.random = np.random.default_rng([seed, source])
        self.salt = np.uint64(np.random.default_rng(seed).integers(0, 2**63))  # the same candidates at every source

    @property
    @abstractmethod
    def choices(self) -> int:
        """The number of workers that a hot key may use."""

    @abstractmethod
    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the worker of every message."""


class Fish(Peer):
    """FISH: a hot key has more workers the hotter it was in recent epochs, and the least loaded gets the message.

    Huang, *Efficient Time-Evolving Stream Processing at Scale*, 2018 (arXiv:1806.00760). An epoch has `epoch` messages;
    at its end all counts are multiplied by `decay`. A key above the threshold has all n workers if it is the hottest,
    and half as many for every halving of its frequency, but never fewer than it had. Its message goes to the one with
    the least work waiting: for equal workers, the one to which this sender sent least.

    The epochs, the decay between them and the waiting work that is inferred, not asked for, are the published rule. The
    halving of the number of workers and the values of `epoch` and `decay` are our reading of it, so results may differ
    from those of the authors. There are 1,000 counters, more if the threshold needs more.
    """

    name = "fish"
    options: ClassVar[dict[str, Any]] = {"epoch": 1000, "decay": 0.2}

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self._epoch = checks.whole_number("epoch", self.given["epoch"])
        self._decay = checks.share("decay", self.given["decay"])
        capacity = max(1000, int(2 / self.threshold))
        self._hitters = SpaceSaving(capacity)
        self._widths = new_widths(capacity, workers)
        self._left = self._epoch  # messages until the end of the epoch
        self._top = 0  # the largest count

    @property
    def choices(self) -> int:
        """The number of workers of the hottest key: all."""
        return int(self.loads.size)

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Route epoch by epoch."""
        keys = np.ascontiguousarray(hashes).view(np.uint64)
        out = np.empty(keys.size, np.int32)
        done = 0
        while done < keys.size:
            stop = min(keys.size, done + self._left)
            self._top = route_by_recent_counts(
                keys[done:stop],
                out[done:stop],
                self._hitters.arrays,
                self._widths,
                self.salt,
                self.loads,
                self.threshold,
                self._top,
            )
            self._left -= stop - done
            done = stop
            if self._left == 0:
                self._end_epoch()
        return out

    def _end_epoch(self) -> None:
        """Let all counts decay. A key that still has a count keeps its number of workers."""
        self._left = self._epoch
        summary, used = self._hitters.arrays, len(self._hitters)
        counts = (summary.counts[:used] * self._decay).astype(np.int64)
        positive = counts > 0
        keys, widest = summary.keys[:used][positive], self._widths.widest[:used][positive]
        total = int(self._hitters.total * self._decay)
        self._hitters.replace_counters(keys, counts[positive], np.zeros(keys.size, np.int64), total, total)
        self._widths.widest[: keys.size], self._widths.owner[: keys.size] = widest, keys
        self._top = int(counts.max(initial=0))


class HotKeyFanout(Peer):
    """Keys in `hot` have `fanout` hashed workers, used in turn; any other key has one.

    This is Apache Beam's `Combine.PerKey.withHotKeyFanout`: a hot key is split into intermediate keys (key, nonce),
    which are combined first. Beam's nonce is a counter that starts at a random number, and so is ours. If the user
    names no hot keys, `simulate` names those of the whole stream: the best that a user can know.
    """

    name = "hot-key-fanout"
    options: ClassVar[dict[str, Any]] = {"fanout": 10, "hot": ()}
    takes_hot_keys = True

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self._fanout = checks.whole_number("fanout", self.given["fanout"])
        self._hot = np.sort(np.asarray(self.given["hot"], np.int64))
        self._nonce = int(self.random.integers(0, self._fanout))

    @property
    def choices(self) -> int:
        """The fan-out, or the number of workers if that is smaller."""
        return min(self._fanout, self.loads.size)

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Route hot keys by (key, nonce) and other keys by key."""
        out = np.empty(hashes.size, np.int32)
        hot = np.isin(hashes, self._hot)
        keys = np.ascontiguousarray(hashes).view(np.uint64)
        self._nonce = route_by_fanout(keys, hot, out, self.salt, self.loads, self._fanout, self._nonce)
        return out


class Salting(Peer):
    """Every key, hot or not, has `salts` hashed workers; each message goes to a random one of them.

    This is what users of Spark and Flink do by hand: `key || '_' || floor(rand() * salts)`, aggregate, drop the salt,
    aggregate again.
    """

    name = "salting"
    options: ClassVar[dict[str, Any]] = {"salts": 10}

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self._salts = checks.whole_number("salts", self.given["salts"])

    @property
    def choices(self) -> int:
        """The number of salts, or the number of workers if that is smaller."""
        return min(self._salts, self.loads.size)

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Draw a salt for each message, and route by (key, salt)."""
        out = np.empty(hashes.size, np.int32)
        salts = self.random.integers(0, self._salts, hashes.size)
        route_by_salt(np.ascontiguousarray(hashes).view(np.uint64), salts, out, self.salt, self.loads)
        return out


ALL_PEERS: tuple[type[Peer], ...] = (Fish, HotKeyFanout, Salting)

PEERS: tuple[str, ...] = tuple(peer.name for peer in ALL_PEERS)
"""The names of all peers."""
