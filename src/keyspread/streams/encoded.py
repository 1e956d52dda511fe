"""A stream in memory at 4 bytes per message. A simulation reads it once for every setting that it tries."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread import checks
from keyspread.checks import default_threshold, least_hot_count


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


# Profile a stream before routing: how hot its keys are, which Zipf law fits, and whether the hot keys change.
#
# All counts are exact. Among keys with equal counts the one with the smaller hash comes first, so that a profile
# depends on the messages only and not on the numbering of the keys.


WORKERS = 50
"""The number of workers that decides which keys are hot, unless another one is given."""

_FITTED = 1000
_LEADING = 10

_Counted = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Profile:
    """Counts of a stream. Shares are shares of all messages; in `leaders`, of the messages of the window."""

    messages: int
    keys: int
    p1: float
    """Share of the hottest key."""
    hot_keys: int
    """Number of keys with a share of at least `hot_from`."""
    hot_share: float
    """Share of all hot keys together."""
    half: int
    """Smallest number of keys that together have at least half of the messages."""
    exponent: float | None
    """Zipf exponent fitted to ranks 1 … 1000 by least squares of log share over log rank; None for under 3 keys."""
    top: tuple[tuple[int, int], ...]
    """The hottest keys, (hash, messages), hottest first."""
    drift: float
    """How much the ten hottest keys change from one window to the next: 0 if none changes, 1 if all change each time.

    It is 1 minus the mean share of hottest keys that two neighbouring windows have in common. If many keys are about
    equally frequent, chance alone makes it large.
    """
    leaders: tuple[tuple[int, float], ...]
    """The hottest key of each window, (hash, share)."""
    workers: int = WORKERS
    """The number of workers that the keys are meant for: it decides which of them are hot."""

    @property
    def hot_from(self) -> float:
        """Minimum share of a hot key: the paper's threshold 1/(5n) for n workers."""
        return default_threshold(self.workers)


def profile(encoded: Encoded, windows: int = 10, top: int = 10, workers: int = WORKERS) -> Profile:
    """Profile a stream, as a whole and in windows of equal message counts. All values of an empty stream are 0.

    >>> clicks = profile(Encoded.of(np.array([70, 80, 70, 90, 90, 90])), windows=2, top=1)
    >>> clicks.keys, clicks.p1, clicks.top, clicks.leaders[0]  # the windows are 70 80 70 and 90 90 90
    (3, 0.5, ((90, 3),), (70, 0.6666666666666666))
    >>> clicks.drift  # the one key of the second window is not among those of the first
    1.0
    """
    windows = checks.whole_number("windows", windows)
    top = checks.whole_number("top", top, minimum=0)
    workers = checks.whole_number("workers", workers)
    messages = encoded.messages
    if not messages:
        return Profile(0, 0, 0.0, 0, 0.0, 0, None, (), 0.0, (), workers)
    ranked = -np.sort(-encoded.counts[encoded.counts > 0])
    hot = ranked[ranked >= least_hot_count(default_threshold(workers), messages)]
    ends = window_ends(messages, windows)
    sizes = np.diff(ends, prepend=0)
    in_windows = [
        _hottest_of(encoded, end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    ]
    return Profile(
        messages,
        ranked.size,
        p1=int(ranked[0]) / messages,
        hot_keys=hot.size,
        hot_share=int(hot.sum()) / messages,
        # Counts 5 3 1 1 of 10 messages: one key has half of them.
        half=int(np.searchsorted(2 * np.cumsum(ranked), messages)) + 1,
        exponent=_exponent(ranked),
        top=_hottest(encoded.hashes, encoded.counts, top),
        drift=_drift(in_windows),
        leaders=tuple(
            (hottest[0][0], hottest[0][1] / size) for hottest, size in zip(in_windows, sizes.tolist(), strict=True)
        ),
        workers=workers,
    )


def _hottest_of(encoded: Encoded, begin: int, end: int) -> _Counted:
    """Return the ten hottest keys of the messages begin … end - 1."""
    ids, hashes = encoded.ids[begin:end], encoded.hashes
    if ids.size < hashes.size:  # sorting a short window is less work than counting all keys
        present, counts = np.unique(ids, return_counts=True)
        return _hottest(hashes[present], counts, _LEADING)
    return _hottest(hashes, np.bincount(ids, minlength=hashes.size), _LEADING)


def _hottest(hashes: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], most: int) -> _Counted:
    """Return at most `most` keys that occur as (hash, count), by descending count, then by ascending hash."""
    most = min(most, int(np.count_nonzero(counts)))
    if not most:
        return ()
    least = np.partition(counts, -most)[-most]
    above = np.flatnonzero(counts > least)
    # Millions of keys may tie: find only the smallest hashes among them and leave the others unsorted.
    tied, needed = np.flatnonzero(counts == least), most - above.size
    tied = tied[np.argpartition(hashes[tied], needed - 1)[:needed]]
    chosen = np.concatenate([above, tied])
    chosen = chosen[np.lexsort((hashes[chosen], -counts[chosen]))]
    return tuple(zip(hashes[chosen].tolist(), counts[chosen].tolist(), strict=True))


def _drift(in_windows: list[_Counted]) -> float:
    common = []
    for before, after in pairwise(in_windows):
        same = {key for key, _ in before} & {key for key, _ in after}
        # A window with fewer than ten keys can share only those with its neighbour.
        common.append(len(same) / min(len(before), len(after)))
    return 1 - sum(common) / len(common) if common else 0.0


def _exponent(ranked: npt.NDArray[np.int64]) -> float | None:
    if ranked.size < 3:
        return None
    x = np.log(np.arange(1, min(_FITTED, ranked.size) + 1))
    y = np.log(ranked[: x.size])
    x -= x.mean()
    return 0.0 - float(x @ (y - y.mean()) / (x @ x))
