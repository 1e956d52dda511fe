"""Hot-key fan-out given by the user: Apache Beam's `Combine.PerKey.withHotKeyFanout`.

A key that the user names hot goes to `fanout` intermediate keys (key, nonce) in turn, which are combined first; all
others go the usual way. Beam's nonce is a counter that starts at random, and so is ours.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.kernels.peers import route_by_fanout
from keyspread.peers.peer import Peer


class HotKeyFanout(Peer):
    """Keys in `hot` have `fanout` hashed workers, used in turn, any other has one.

    `simulate` names the hot keys of the whole stream if the user does not: the best that a user can know.
    """

    name = "hot-key-fanout"
    options: ClassVar[dict[str, Any]] = {"fanout": 10, "hot": ()}
    is_told_hot_keys = True

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self._fanout = checks.whole_number("fanout", self.given["fanout"])
        self._hot = np.sort(np.asarray(self.given["hot"], np.int64))
        self._nonce = int(self.random.integers(0, self._fanout))

    @property
    def choices(self) -> int:
        """As many as the user said."""
        return min(self._fanout, self.loads.size)

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Split the hot keys."""
        out = np.empty(hashes.size, np.int32)
        hot = np.isin(hashes, self._hot)
        keys = np.ascontiguousarray(hashes).view(np.uint64)
        self._nonce = int(route_by_fanout(keys, hot, out, self.keys, self.loads, self._fanout, self._nonce))
        return out
