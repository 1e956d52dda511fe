"""FISH: recent hot keys, found epoch by epoch (Huang, *Efficient Time-Evolving Stream Processing at Scale*, 2018).

Counts decay by a factor at the end of every epoch. A key above the threshold has n workers if it is the hottest, and
half as many for every halving of its frequency; never fewer than it had. Of these, the one with the least work waiting
gets the message: for equal workers, the least loaded by what this sender sent. (arXiv:1806.00760)

Epochs, decay between them and workers inferred instead of asked are the published rule; the halving of the width and
the values of `epoch` and `decay` are our reading of it, so results may differ from the authors' own.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels.peers import route_by_recent_heat
from keyspread.peers.peer import Peer


class Fish(Peer):
    """Epochs of `epoch` messages, counts kept by `decay` from one to the next; 1,000 counters, or what it takes."""

    name = "fish"
    options: ClassVar[dict[str, Any]] = {"epoch": 1000, "decay": 0.2}

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self._epoch = checks.whole_number("epoch", self.given["epoch"])
        self._decay = checks.share("decay", self.given["decay"])
        capacity = max(1000, int(2 / self.threshold))
        self._hitters = SpaceSaving(capacity)
        self._widest = np.zeros(capacity, np.int64)
        self._owner = np.zeros(capacity, np.uint64)
        self._left = self._epoch
        self._top = 0

    @property
    def choices(self) -> int:
        """All workers, for the hottest."""
        return int(self.loads.size)

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Route epoch by epoch."""
        keys = np.ascontiguousarray(hashes).view(np.uint64)
        out = np.empty(keys.size, np.int32)
        done = 0
        while done < keys.size:
            stop = min(keys.size, done + self._left)
            self._top = route_by_recent_heat(
                keys[done:stop],
                out[done:stop],
                self._hitters.arrays,
                self._widest,
                self._owner,
                self.keys,
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
        """Let all counts decay; the widths of keys that are still counted go with them."""
        self._left = self._epoch
        summary, used = self._hitters.arrays, len(self._hitters)
        counts = (summary.counts[:used] * self._decay).astype(np.int64)
        left = counts > 0
        keys, widths = summary.keys[:used][left], self._widest[:used][left]
        total = int(self._hitters.total * self._decay)
        self._hitters._refill(keys, counts[left], np.zeros(keys.size, np.int64), total, total)
        self._widest[: keys.size], self._owner[: keys.size] = widths, keys
        self._top = int(counts.max(initial=0))
