"""A stream in memory at 4 bytes per message. A simulation reads it once for every setting that it tries."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class Encoded:
    """Message i has the key whose hash is `hashes[ids[i]]`. Not every key in `hashes` needs to occur.

    >>> Encoded.of(np.array([70, 80, 70])).ids.tolist()
    [0, 1, 0]
    """

    ids: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, hashes: npt.NDArray[np.int64]) -> "Encoded":
        """Number the keys of a stream in the order in which they first occur."""
        encoded: Any = pa.array(hashes).dictionary_encode()
        return cls(np.asarray(encoded.indices), np.asarray(encoded.dictionary))

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.ids.size

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of messages of each key."""
        return np.bincount(self.ids, minlength=self.hashes.size)

    def weighed(self, weights: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        """Return the sum of the weights of each key's messages; without weights, the number of its messages."""
        if weights is None:
            return self.counts
        sums = np.zeros(self.hashes.size, np.int64)
        np.add.at(sums, self.ids, weights)
        return sums

    @cached_property
    def keys(self) -> int:
        """Number of keys that occur."""
        return int(np.count_nonzero(self.counts))

    def part(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the hashes of the messages begin … end - 1."""
        return self.hashes[self.ids[begin:end]]

    def without_absent_keys(self) -> "Encoded":
        """Return the same stream without the keys that never occur, if these are at least half of all keys.

        Everything that is stored per key then takes less memory.
        """
        if 2 * self.keys > self.hashes.size:
            return self
        present = np.flatnonzero(self.counts)
        number = np.zeros(self.hashes.size, np.int32)
        number[present] = np.arange(present.size, dtype=np.int32)
        return Encoded(number[self.ids], self.hashes[present])


def window_ends(messages: int, windows: int) -> npt.NDArray[np.int64]:
    """Return the ends of windows with equal message counts (they differ by at most one); none is empty.

    >>> window_ends(10, 4).tolist()
    [2, 5, 7, 10]
    """
    windows = min(windows, messages)
    return np.arange(1, windows + 1, dtype=np.int64) * messages // max(1, windows)
