"""Random salting, as people do it by hand: a random number is appended to every key, and both are hashed.

A pattern of Spark's and Flink's users rather than of a paper: `key || '_' || floor(rand() * salts)`, aggregate, drop
the salt, aggregate again.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.kernels.peers import route_by_salt
from keyspread.peers.peer import Peer


class Salting(Peer):
    """Every key, hot or not, has `salts` hashed workers; chance says which one gets a message."""

    name = "salting"
    options: ClassVar[dict[str, Any]] = {"salts": 10}

    @property
    def choices(self) -> int:
        """As many as there are salts, and workers."""
        return int(min(checks.whole_number("salts", self.given["salts"]), self.loads.size))

    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Draw a salt for each message."""
        out = np.empty(hashes.size, np.int32)
        salts = self.random.integers(0, checks.whole_number("salts", self.given["salts"]), hashes.size)
        route_by_salt(np.ascontiguousarray(hashes).view(np.uint64), salts, out, self.keys, self.loads)
        return out
