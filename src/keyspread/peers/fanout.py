"""Fan-out of hot keys that the user names: Apache Beam's `Combine.PerKey.withHotKeyFanout`.

A hot key is split into `fanout` intermediate keys (key, nonce), used in turn, which are combined first. All other keys
are hashed as usual. Beam's nonce is a counter that starts at a random number, and so is ours.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.kernels.peers import route_by_fanout
from keyspread.peers.peer import Peer


class HotKeyFanout(Peer):
    """Keys in `hot` have `fanout` hashed workers, used in turn; any other key has one.

    If the user names no hot keys, `simulate` names those of the whole stream: the best that a user can know.
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
