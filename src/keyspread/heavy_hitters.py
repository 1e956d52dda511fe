"""The heavy hitters of a stream in fixed memory. The counting itself is in `kernels/summary.py`."""

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
    """A moment in the life of a summary: what its counters showed then."""

    counts: npt.NDArray[np.int64]
    total: int


class SpaceSaving:
    """SpaceSaving with `capacity` counters: lower <= true <= upper, upper - lower <= total / capacity, on any stream.

    Where messages have weights, the distance may be larger by their mean weight, at its highest. A key without a
    counter has bounds (0, least count). Memory is fixed; a message costs amortised O(1).

    >>> summary = SpaceSaving(2)
    >>> summary.offer_many(np.array([7, 7, 7, 8, 9]))
    >>> summary.bounds(7), summary.total
    ((3, 3), 5)
    >>> summary.bounds(9)  # took over the counter of 8, so one of its two may not be its own
    (1, 2)
    """

    def __init__(self, capacity: int) -> None:
        capacity = checks.whole_number("capacity", capacity, maximum=MOST_COUNTERS)
        self.arrays = kernels.new_summary(capacity)

    @property
    def capacity(self) -> int:
        """The number of counters."""
        return int(self.arrays.keys.size)

    @property
    def total(self) -> int:
        """All messages offered so far (faded ones as what is left of them)."""
        return int(self.arrays.scalars[kernels.TOTAL])

    @property
    def unit(self) -> float:
        """The mean weight of a message: 1 unless messages have weights."""
        return self.total / self._messages if self._messages else 1.0

    @property
    def _messages(self) -> int:
        return int(self.arrays.scalars[kernels.MESSAGES])

    def __len__(self) -> int:
        """Give the number of counters in use."""
        return int(self.arrays.scalars[kernels.SIZE])

    def __repr__(self) -> str:
        """Show capacity, use and total."""
        return f"SpaceSaving(capacity={self.capacity}, used={len(self)}, total={self.total})"

    def offer(self, h: int, count: int = 1) -> None:
        """Count the key with hash `h`, `count` times at once.

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
        """Count every message of an array of hashes, by its weight if it has one; the same as one by one.

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
        """Give (lower, upper): the true count of `h` lies between them."""
        counter = kernels.look_up(self.arrays, checks.one_hash(h))
        if counter < 0:
            return 0, self._least()
        count, error = self.arrays.counts[counter], self.arrays.errors[counter]
        return int(count - error), int(count) + self._blur

    def top(self, k: int) -> list[HeavyHitter]:
        """Give the `k` keys with the largest upper bounds: [(hash, lower, upper), …], hottest first.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 8]))
        >>> summary.top(1)
        [(7, 2, 2)]
        """
        k = checks.whole_number("k", k, minimum=0)
        return self._listed(np.arange(len(self)))[:k]

    def head(self, threshold: float) -> list[HeavyHitter]:
        """Give every key whose share of `total` may be `threshold` or more, hottest first: no false negatives.

        With capacity >= 1 / threshold. What is listed has a share above threshold - 1 / capacity.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 7, 8]))
        >>> summary.head(0.5)
        [(7, 3, 3)]
        """
        threshold = checks.share("threshold", threshold)
        counts = self.arrays.counts[: len(self)]
        return self._listed(np.flatnonzero(counts + self._blur >= least_hot_count(threshold, self.total)))

    def counts(self) -> npt.NDArray[np.int64]:
        """Give the upper bounds of all counters, largest first."""
        return np.sort(self.arrays.counts[: len(self)])[::-1]

    def merge(self, other: "SpaceSaving") -> "SpaceSaving":
        """Give the summary of both streams joined; all guarantees hold for it, and neither operand changes.

        Its capacity is the smaller one. A key that one side does not know may have been there up to that side's
        least count: it is added to the upper bound. (Agarwal et al., Mergeable Summaries, PODS 2012.)

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
            # What neither knows may have had that much: nobody who is kept may seem to have had less.
            joined[key] = lower + lower_there, max(upper + upper_there, my_least + their_least)
        merged = SpaceSaving(min(self.capacity, other.capacity))
        kept = sorted(joined.items(), key=lambda item: (-item[1][1], item[0]))[: merged.capacity]
        merged._refill(
            np.array([key for key, _ in kept], np.uint64),
            np.array([upper for _, (_, upper) in kept], np.int64),
            np.array([upper - lower for _, (lower, upper) in kept], np.int64),
            self.total + other.total,
            self._messages + other._messages,
        )
        return merged

    def fade(self) -> None:
        """Halve every count, rounded down, so that what comes now weighs more than what was; empty counters are freed.

        The bounds then hold for counts halved and rounded in the same way; their distance is at most
        total / capacity + 1, because lower and upper round apart.
        """
        self.share_out(2, into=self)

    def share_out(self, shares: int, into: "SpaceSaving") -> None:
        """Put one of so many equal shares of all counts, rounded down, into a summary; what that one had is gone.

        If it has fewer counters, the largest counts are kept.
        """
        used = len(self)
        counts = self.arrays.counts[:used] // shares
        lower = (self.arrays.counts[:used] - self.arrays.errors[:used]) // shares
        keys = self.arrays.keys[:used]
        left = np.flatnonzero(counts > 0)
        if left.size > into.capacity:
            left = np.sort(left[np.lexsort((keys[left], -counts[left]))[: into.capacity]])
        total, messages = -(-self.total // shares), -(-self._messages // shares)
        into._refill(keys[left], counts[left], (counts - lower)[left], total, messages)
        into.arrays.scalars[kernels.SHIFT] = self.arrays.scalars[kernels.SHIFT]

    def counters(self) -> dict[str, npt.NDArray[np.int64]]:
        """Give all that `of_counters` needs to make a summary that says the same."""
        used = len(self)
        return {
            "keys": self.arrays.keys[:used].view(np.int64),
            "counts": self.arrays.counts[:used],
            "errors": self.arrays.errors[:used],
            "totals": np.array([self.total, self._messages, self.arrays.scalars[kernels.SHIFT]]),
        }

    @classmethod
    def of_counters(cls, capacity: int, keys: Any, counts: Any, errors: Any, totals: Any) -> "SpaceSaving":
        """Make the summary that gave these `counters`.

        >>> summary = SpaceSaving(2)
        >>> summary.offer_many(np.array([7, 7, 8, 9]))
        >>> SpaceSaving.of_counters(2, **summary.counters()).bounds(9) == summary.bounds(9)
        True
        """
        made = cls(capacity)
        total, messages, made.arrays.scalars[kernels.SHIFT] = (int(one) for one in totals)
        hashes = checks.hashes(np.array(keys, np.int64)).view(np.uint64)
        made._refill(hashes, np.array(counts, np.int64), np.array(errors, np.int64), total, messages)
        return made

    def mark(self) -> Mark:
        """Remember this moment, to tell later what came before it and what after."""
        counts = np.zeros(self.capacity, np.int64)
        counts[: len(self)] = self.arrays.counts[: len(self)]
        return Mark(counts, self.total)

    def since(self, mark: Mark) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Give, for every counter in use, the part of its count from before `mark` and what is surely after it.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, 5)
        >>> mark = summary.mark()
        >>> summary.offer(7, 2)
        >>> [part.tolist() for part in summary.since(mark)]
        [[5], [2]]
        """
        used = len(self)
        counts, errors, before = self.arrays.counts[:used], self.arrays.errors[:used], mark.counts[:used]
        # A counter that went to another key has the count that it took over as error, which is no less than it was
        # then; and a key without a counter had the least count then at most.
        past = np.where(errors < before, before, mark.counts.min())
        return past, counts - np.maximum(before, errors)

    def fade_until(self, mark: Mark, halvings: int) -> None:
        """Halve what was counted until `mark`, so many times, and keep what came after it whole.

        The bounds then hold for counts halved and rounded in the same way. Only for a key that lost its counter after
        `mark` the upper one may miss what it had by then: at most the least count before the fading.

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
        left = counts > 0
        keys = self.arrays.keys[:used][left]
        total = (mark.total >> halvings) + self.total - mark.total
        self._refill(keys, counts[left], (counts - lower)[left], total, max(1, round(total / self.unit)))

    def _refill(
        self,
        keys: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.int64],
        errors: npt.NDArray[np.int64],
        total: int,
        messages: int,
    ) -> None:
        kernels.refill(self.arrays, keys, counts, errors)
        self.arrays.scalars[kernels.TOTAL] = total
        self.arrays.scalars[kernels.MESSAGES] = messages

    def _least(self) -> int:
        """Give what a key without a counter may have at most: nothing while counters are free."""
        return int(self.arrays.counts.min()) + self._blur if len(self) == self.capacity else 0

    @property
    def _blur(self) -> int:
        """By how much a counter that was given away may have been above the least: 0 unless messages have weights."""
        return (1 << int(self.arrays.scalars[kernels.SHIFT])) - 1

    def _by_key(self) -> dict[int, tuple[int, int]]:
        return {
            int(key): (int(count - error), int(count) + self._blur)
            for key, count, error in zip(
                self.arrays.keys[: len(self)], self.arrays.counts, self.arrays.errors, strict=False
            )
        }

    def _listed(self, counters: npt.NDArray[np.intp]) -> list[HeavyHitter]:
        hashes = self.arrays.keys[counters].view(np.int64)
        counts = self.arrays.counts[counters]
        lower, upper = counts - self.arrays.errors[counters], counts + self._blur
        order = np.lexsort((hashes, -upper))
        return list(zip(hashes[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True))
