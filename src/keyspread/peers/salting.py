"""Random salting, as users of Spark and Flink do it by hand: append a random number to every key and hash both.

This is a pattern, not a paper: `key || '_' || floor(rand() * salts)`, aggregate, drop the salt, aggregate again.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.kernels.peers import route_by_salt
from keyspread.peers.peer import Peer


class Salting(Peer):
    """Every key, hot or not, has `salts` hashed workers; each message goes to a random one of them."""

    name = "salting"
    options: ClassVar[dict[str, Any]] = {"salts": 10}

    @property
    def choices(self) -> int:
        """The number of salts, or the number of workers if that is smaller."""
        return int(min(checks.whole_number("salts", self.given["salts"]), self.loads.size))

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Draw a salt for each message, and route by (key, salt)."""
        out = np.empty(hashes.size, np.int32)
        salts = self.random.integers(0, checks.whole_number("salts", self.given["salts"]), hashes.size)
        route_by_salt(np.ascontiguousarray(hashes).view(np.uint64), salts, out, self.salt, self.loads)
        return out
