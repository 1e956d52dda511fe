"""The heavy hitters of a stream in fixed memory. The counting itself is in `kernels/summary.py`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels import summary as kernels
from keyspread.threshold import least_hot_count

HeavyHitter = tuple[int, int, int]  # (hash, lower, upper)
MOST_COUNTERS = 1 << 26


class Mark(NamedTuple):
    """The counts of a summary at one moment."""

    counts: npt.NDArray[np.int64]
    total: int


class SpaceSaving:
    """SpaceSaving with `capacity` counters: lower <= true <= upper, upper - lower <= total / capacity, on any stream.

    If messages have weights, upper - lower may be larger by the mean weight, at its highest. A key without a counter
    has bounds (0, least count). Memory is fixed; a message costs amortised O(1).

    >>> summary = SpaceSaving(2)
    >>> summary.offer_many(np.array([7, 7, 7, 8, 9]))
    >>> summary.bounds(7), summary.total
    ((3, 3), 5)
    >>> summary.bounds(9)  # it took over the counter of 8, so one of the two may belong to 8
    (1, 2)

    Users offer messages, ask for bounds and merge. The methods in the second half of the class are for the rest of
    this package: they fade counts, compare them with a `Mark`, and save and load the counters.
    """

    arrays: kernels.Summary
    """The counters as kernels take them. Kernels may change them; other code only reads them."""

    def __init__(self, capacity: int) -> None:
        capacity = checks.whole_number("capacity", capacity, maximum=MOST_COUNTERS)
        self.arrays = kernels.new_summary(capacity)

    @property
    def capacity(self) -> int:
        """The number of counters."""
        return int(self.arrays.keys.size)

    @property
    def total(self) -> int:
        """The number of messages offered so far, or the sum of their weights; less after a fade."""
        return int(self.arrays.scalars[kernels.TOTAL])

    @property
    def unit(self) -> float:
        """The mean weight of a message: 1 unless messages have weights. While all weights are 0, it is 1 too."""
        return self.total / self._messages if self.total else 1.0

    @property
    def _messages(self) -> int:
        return int(self.arrays.scalars[kernels.MESSAGES])

    def __len__(self) -> int:
        """Return the number of counters in use."""
        return int(self.arrays.scalars[kernels.SIZE])

    def __repr__(self) -> str:
        """Show the capacity, the number of counters in use and the total."""
        return f"SpaceSaving(capacity={self.capacity}, used={len(self)}, total={self.total})"

    def offer(self, h: int, count: int = 1) -> None:
        """Count `count` messages of the key with hash `h`.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, count=3)
        >>> summary.total
        3
        """
        count = checks.whole_number("count", count, minimum=0, maximum=2**62)
        if count:
            keys = np.array([checks.one_hash(h)])
            kernels.offer_counts(self.arrays, keys, np.array([count], np.int64))

    def offer_many(self, hashes: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> None:
        """Count every message of an array of hashes, by its weight if there are weights.

        The result is the same as for one message at a time.

        >>> summary = SpaceSaving(2)
        >>> summary.offer_many(np.array([7, 8, 7]), weights=np.array([10, 30, 5]))
        >>> summary.top(2), summary.total, summary.unit
        ([(8, 30, 30), (7, 15, 15)], 45, 15.0)
        """
        keys = checks.hashes(hashes).view(np.uint64)
        if weights is None:
            kernels.offer_many(self.arrays, keys)
        else:
            kernels.offer_weighted(self.arrays, keys, checks.weights(weights, keys.size))

    def bounds(self, h: int) -> tuple[int, int]:
        """Return (lower, upper): the true count of `h` lies between them."""
        counter = kernels.look_up(self.arrays, checks.one_hash(h))
        if counter < 0:
            return 0, self._least()
        count, error = self.arrays.counts[counter], self.arrays.errors[counter]
        return int(count - error), int(count) + self._blur

    def top(self, k: int) -> list[HeavyHitter]:
        """Return the `k` keys with the largest upper bounds: [(hash, lower, upper), …], hottest first.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 8]))
        >>> summary.top(1)
        [(7, 2, 2)]
        """
        k = checks.whole_number("k", k, minimum=0)
        return self._hottest_first(np.arange(len(self)))[:k]

    def head(self, threshold: float) -> list[HeavyHitter]:
        """Return every key whose share of `total` may be `threshold` or more, hottest first.

        There are no false negatives if capacity >= 1 / threshold. Every key returned has a share above
        threshold - 1 / capacity.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 7, 8]))
        >>> summary.head(0.5)
        [(7, 3, 3)]
        """
        threshold = checks.share("threshold", threshold)
        counts = self.arrays.counts[: len(self)]
        return self._hottest_first(np.flatnonzero(counts + self._blur >= least_hot_count(threshold, self.total)))

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the counts of all counters, largest first."""
        return np.sort(self.arrays.counts[: len(self)])[::-1]

    def merge(self, other: "SpaceSaving") -> "SpaceSaving":
        """Return a summary of both streams together. All guarantees hold for it, and neither operand changes.

        Its capacity is the smaller of the two. A key that has a counter on one side only may have occurred on the
        other side as often as the least count there, which is added to its upper bound (Agarwal et al., Mergeable
        Summaries, PODS 2012).

        >>> left, right = SpaceSaving(10), SpaceSaving(10)
        >>> left.offer(7, 5); right.offer(7, 2)
        >>> left.merge(right).bounds(7)
        (7, 7)
        """
        if not isinstance(other, SpaceSaving):
            raise InputError(f"merge needs another SpaceSaving, got {type(other).__name__}")
        joined: dict[int, tuple[int, int]] = {}  # key -> (lower, upper)
        mine, theirs = self._by_key(), other._by_key()
        my_least, their_least = self._least(), other._least()
        for key in mine.keys() | theirs.keys():
            lower, upper = mine.get(key, (0, my_least))
            lower_there, upper_there = theirs.get(key, (0, their_least))
            # A key without a counter on either side may have this much: no counter may show less.
            joined[key] = lower + lower_there, max(upper + upper_there, my_least + their_least)
        merged = SpaceSaving(min(self.capacity, other.capacity))
        largest = sorted(joined.items(), key=lambda item: (-item[1][1], item[0]))[: merged.capacity]
        merged.replace_counters(
            np.array([key for key, _ in largest], np.uint64),
            np.array([upper for _, (_, upper) in largest], np.int64),
            np.array([upper - lower for _, (lower, upper) in largest], np.int64),
            self.total + other.total,
            self._messages + other._messages,
        )
        return merged

    # For the rest of the package. Nothing below is checked: callers pass what they got from this class.

    def fade(self) -> None:
        """Halve all counts, rounded down. The total and the number of messages are rounded up.

        Counters that reach 0 become free. The bounds then hold for true counts halved in the same way. Their distance
        is at most total / capacity + 1, because lower and upper are rounded separately.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 7, 8]))
        >>> summary.fade()  # 3 and 1 become 1 and 0
        >>> summary.top(10), summary.total
        ([(7, 1, 1)], 2)
        """
        used = len(self)
        counts = self.arrays.counts[:used] // 2
        lower = (self.arrays.counts[:used] - self.arrays.errors[:used]) // 2
        positive = counts > 0
        self.replace_counters(
            self.arrays.keys[:used][positive],
            counts[positive],
            (counts - lower)[positive],
            (self.total + 1) // 2,
            (self._messages + 1) // 2,
        )

    def mark(self) -> Mark:
        """Return the counts of this moment, so that later ones can be compared with them."""
        counts = np.zeros(self.capacity, np.int64)
        counts[: len(self)] = self.arrays.counts[: len(self)]
        return Mark(counts, self.total)

    def since(self, mark: Mark) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return for every counter in use how much of its count is from before `mark`, and how much surely is not.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, 5)
        >>> mark = summary.mark()
        >>> summary.offer(7, 2)
        >>> [part.tolist() for part in summary.since(mark)]
        [[5], [2]]
        """
        used = len(self)
        counts, errors, before = self.arrays.counts[:used], self.arrays.errors[:used], mark.counts[:used]
        # A counter that another key has taken over has an error: the count that it had, which was not below that at
        # the mark. And a key without a counter had at most the least count then.
        past = np.where(errors < before, before, mark.counts.min())
        return past, counts - np.maximum(before, errors)

    def unexpected_growth(self, mark: Mark, deviations: float, messages: float) -> float:
        """Return by how much counts have grown since `mark` beyond what their shares at `mark` predict, in sum.

        Only counts that exceed the prediction by `messages` messages of mean weight plus `deviations` standard
        deviations are included: smaller differences may be chance. Something must have been offered before `mark`.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, 1000)
        >>> mark = summary.mark()
        >>> summary.offer_many(np.repeat([7, 8], [50, 50]))  # 7 was to grow by 100, 8 by 0
        >>> summary.unexpected_growth(mark, deviations=4, messages=8)
        50.0
        """
        ratio = (self.total - mark.total) / mark.total
        return float(kernels.unexpected_growth(self.arrays, mark.counts, ratio, deviations, messages, self.unit))

    def fade_until(self, mark: Mark, halvings: int) -> None:
        """Halve what was counted until `mark`, `halvings` times; do not change what was counted after it.

        The bounds then hold for true counts halved and rounded in the same way. There is one exception: for a key that
        lost its counter after `mark`, the upper bound may be too low by what the key had at `mark`, which is at most
        the least count before the call.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, 100)
        >>> mark = summary.mark()
        >>> summary.offer(8, 10)
        >>> summary.fade_until(mark, 2)
        >>> summary.bounds(7), summary.bounds(8), summary.total
        ((25, 25), (10, 10), 35)
        """
        used = len(self)
        past, recent = self.since(mark)
        counts = self.arrays.counts[:used] - past + (past >> halvings)
        lower = self.arrays.counts[:used] - self.arrays.errors[:used]
        lower = recent + ((lower - recent) >> halvings)
        positive = counts > 0
        keys = self.arrays.keys[:used][positive]
        total = (mark.total >> halvings) + self.total - mark.total
        messages = max(1, round(total / self.unit))
        self.replace_counters(keys, counts[positive], (counts - lower)[positive], total, messages)

    def replace_counters(
        self,
        keys: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.int64],
        errors: npt.NDArray[np.int64],
        total: int,
        messages: int,
    ) -> None:
        """Replace all counters, the total and the number of messages."""
        kernels.refill(self.arrays, keys, counts, errors)
        self.arrays.scalars[kernels.TOTAL] = total
        self.arrays.scalars[kernels.MESSAGES] = messages

    def counters(self) -> dict[str, npt.NDArray[np.int64]]:
        """Return the arrays from which `of_counters` makes a summary with the same bounds."""
        used = len(self)
        return {
            "keys": self.arrays.keys[:used].view(np.int64),
            "counts": self.arrays.counts[:used],
            "errors": self.arrays.errors[:used],
            "totals": np.array([self.total, self._messages, self.arrays.scalars[kernels.SHIFT]]),
        }

    @classmethod
    def of_counters(
        cls, capacity: int, keys: npt.ArrayLike, counts: npt.ArrayLike, errors: npt.ArrayLike, totals: npt.ArrayLike
    ) -> "SpaceSaving":
        """Make a summary from what `counters` returned.

        >>> summary = SpaceSaving(2)
        >>> summary.offer_many(np.array([7, 7, 8, 9]))
        >>> SpaceSaving.of_counters(2, **summary.counters()).bounds(9) == summary.bounds(9)
        True
        """
        summary = cls(capacity)
        total, messages, shift = np.array(totals, np.int64).tolist()
        summary.arrays.scalars[kernels.SHIFT] = shift
        hashes = checks.hashes(np.array(keys, np.int64)).view(np.uint64)
        summary.replace_counters(hashes, np.array(counts, np.int64), np.array(errors, np.int64), total, messages)
        return summary

    def save_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays from which `load_state` restores this summary exactly.

        Unlike `counters` they include the queue: which of several least counters is taken first depends on it.
        """
        used = len(self)
        state: dict[str, npt.NDArray[Any]] = {
            "keys": self.arrays.keys[:used],
            "counts": self.arrays.counts[:used],
            "errors": self.arrays.errors[:used],
            "scalars": self.arrays.scalars,
        }
        if self.arrays.scalars[kernels.QUEUED]:
            state |= {"following": self.arrays.following, "ring": self.arrays.ring}
        return state

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `save_state` of a summary with the same capacity returned. Other entries are ignored.

        >>> summary, copy = SpaceSaving(2), SpaceSaving(2)
        >>> summary.offer_many(np.array([7, 8, 9]))
        >>> copy.load_state(summary.save_state())
        >>> summary.offer(10); copy.offer(10)
        >>> copy.top(2) == summary.top(2)
        True
        """
        kernels.refill(self.arrays, state["keys"], state["counts"], state["errors"])
        self.arrays.scalars[:] = state["scalars"]
        if "ring" in state:
            self.arrays.following[:] = state["following"]
            self.arrays.ring[:] = state["ring"]

    def _least(self) -> int:
        """Return the largest count that a key without a counter may have: 0 while counters are free."""
        return int(self.arrays.counts.min()) + self._blur if len(self) == self.capacity else 0

    @property
    def _blur(self) -> int:
        """How far a counter may have been above the least when it was taken: 0 unless messages have weights."""
        return (1 << int(self.arrays.scalars[kernels.SHIFT])) - 1

    def _by_key(self) -> dict[int, tuple[int, int]]:
        """Return {key: (lower, upper)} of all counters."""
        return {
            int(key): (int(count - error), int(count) + self._blur)
            for key, count, error in zip(
                self.arrays.keys[: len(self)], self.arrays.counts, self.arrays.errors, strict=False
            )
        }

    def _hottest_first(self, counters: npt.NDArray[np.intp]) -> list[HeavyHitter]:
        """Return (hash, lower, upper) of these counters, by upper bound, then by hash."""
        hashes = self.arrays.keys[counters].view(np.int64)
        counts = self.arrays.counts[counters]
        lower, upper = counts - self.arrays.errors[counters], counts + self._blur
        order = np.lexsort((hashes, -upper))
        return list(zip(hashes[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True))
