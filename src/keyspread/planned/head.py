"""The hot keys of a plan. They are stored as arrays, because a plan may have tens of thousands of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import overload

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class HotKey:
    """A hot key cut into pieces: the first piece whose end is above the slot of a message's position takes it.

    Piece i belongs to workers[i], takes the slots from ends[i - 1] to ends[i] - 1, and was planned for weights[i]
    messages.

    >>> import keyspread as ks
    >>> hot = ks.plan(ks.hash_keys(["hot"] * 30 + list("abcdefghij")), workers=4).head[0]
    >>> hot.workers, hot.weights
    ((2, 3, 0, 1), (8, 8, 7, 7))
    """

    hash: int
    workers: tuple[int, ...]
    weights: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def messages(self) -> int:
        """The number of messages of the key that were counted."""
        return sum(self.weights)


@dataclass(frozen=True, eq=False, repr=False)
class Head(Sequence[HotKey]):
    """Hot keys, hottest first: a read-only sequence of `HotKey`. The pieces of key k are first[k] … first[k + 1] - 1.

    >>> head = Head.of([HotKey(7, workers=(0, 1), weights=(30, 10), ends=(3 * 2**29, 2**31))])
    >>> head[0].workers, head.ends.tolist() == [3 * 2**29, 2**31]
    ((0, 1), True)
    """

    hashes: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, keys: Iterable[HotKey]) -> "Head":
        """Return these hot keys as arrays."""
        keys = tuple(keys)
        sizes = np.array([0, *(len(key.workers) for key in keys)], np.int64)
        return cls(
            hashes=np.array([key.hash for key in keys], np.int64),
            first=np.cumsum(sizes),
            workers=np.array([*chain.from_iterable(key.workers for key in keys)], np.int32),
            weights=np.array([*chain.from_iterable(key.weights for key in keys)], np.int64),
            ends=np.array([*chain.from_iterable(key.ends for key in keys)], np.int64),
        )

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of pieces of each key, which is the number of its workers."""
        return np.diff(self.first)

    @property
    def messages(self) -> npt.NDArray[np.int64]:
        """The number of messages of each key."""
        done = np.concatenate([[0], np.cumsum(self.weights)])
        return np.diff(done[self.first])

    def __len__(self) -> int:
        """Return the number of hot keys."""
        return self.hashes.size

    @overload
    def __getitem__(self, at: int) -> HotKey: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[HotKey, ...]: ...

    def __getitem__(self, at: int | slice) -> HotKey | tuple[HotKey, ...]:
        """Return one hot key, or a tuple of several."""
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        number = range(len(self))[at]
        begin, end = self.first[number : number + 2].tolist()
        pieces = (column[begin:end].tolist() for column in (self.workers, self.weights, self.ends))
        return HotKey(int(self.hashes[number]), *map(tuple, pieces))

    def __iter__(self) -> Iterator[HotKey]:
        """Return all hot keys, hottest first."""
        first, hashes = self.first.tolist(), self.hashes.tolist()
        workers, weights, ends = self.workers.tolist(), self.weights.tolist(), self.ends.tolist()
        for key, begin, end in zip(hashes, first, first[1:], strict=False):
            yield HotKey(key, tuple(workers[begin:end]), tuple(weights[begin:end]), tuple(ends[begin:end]))

    def __eq__(self, other: object) -> bool:
        """Return whether the other sequence has equal hot keys in the same order."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return a hash of what `==` compares."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show all hot keys."""
        return repr(tuple(self))
