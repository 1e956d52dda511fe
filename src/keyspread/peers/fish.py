"""FISH: recent hot keys, found epoch by epoch (Huang, *Efficient Time-Evolving Stream Processing at Scale*, 2018).

At the end of every epoch all counts are multiplied by a decay factor. A key above the threshold has all n workers if it
is the hottest, and half as many for every halving of its frequency, but never fewer than it had. Its message goes to
the one with the least work waiting: for equal workers, the one to which this sender sent least. (arXiv:1806.00760)

The epochs, the decay between them and the waiting work that is inferred, not asked for, are the published rule. The
halving of the number of workers and the values of `epoch` and `decay` are our reading of it, so results may differ
from those of the authors.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels.peers import new_widths, route_by_recent_counts
from keyspread.peers.peer import Peer


class Fish(Peer):
    """A hot key has more workers the hotter it was in recent epochs, and the least loaded of them gets the message.

    An epoch has `epoch` messages; at its end all counts are multiplied by `decay`. There are 1,000 counters, more if
    the threshold needs more.
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
