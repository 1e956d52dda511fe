"""The heavy hitters of a stream in fixed memory. The counting itself is in `kernels/summary.py`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import OneThread, least_hot_count
from keyspread.errors import InputError
from keyspread.kernels import summary as kernels

HeavyHitter = tuple[int, int, int]  # (hash, lower, upper)
MOST_COUNTERS = 1 << 26


class Mark(NamedTuple):
    """The counts of a summary at one moment."""

    counts: npt.NDArray[np.int64]
    total: int


class SpaceSaving:
    """SpaceSaving with `capacity` counters: lower <= true <= upper, upper - lower <= total / capacity, on any stream.

    This holds with and without weights, before and after merging. The counts of all counters sum to at most `total`,
    and a key without a counter has bounds (0, least count). Memory is fixed. A message costs amortised O(1), or
    O(log capacity) if messages have weights.

    A summary that fades keeps these bounds for true counts that fade in the same way. `fade` rounds, which adds at most
    1 to their distance; in a merged summary, 1 for each summary in it that had faded. What `surplus` adds is stated in
    `fade_until`.

    One thread at a time may change a summary: a second one gets a ThreadError. Threads that only read wait.

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
        self._one_thread = OneThread("a SpaceSaving", "use one per thread and merge them, or put a lock around it")

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
    def surplus(self) -> int:
        """How far a true count may be above its counter: 0 until `fade_until`. Every upper bound includes it."""
        return int(self.arrays.scalars[kernels.SURPLUS])

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
        count = checks.whole_number("count", count, minimum=0, maximum=checks.LARGEST_TOTAL)
        keys = np.array([checks.one_hash(h)])
        if count:
            with self._one_thread:
                checks.total("the total", self.total, count)
                self.make_room_for_weights()
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
        weighed = None if weights is None else checks.weights(weights, keys.size)
        with self._one_thread:
            checks.total("the total", self.total, keys.size if weighed is None else checks.weight_of(weighed))
            if weighed is None:
                kernels.offer_many(self.arrays, keys)
            else:
                self.make_room_for_weights()
                kernels.offer_weighted(self.arrays, keys, weighed)

    def bounds(self, h: int) -> tuple[int, int]:
        """Return (lower, upper): the true count of `h` lies between them."""
        key = checks.one_hash(h)
        with self._one_thread.reading:
            counter = kernels.look_up(self.arrays, key)
            if counter < 0:
                return 0, self._least() + self.surplus
            count, error = self.arrays.counts[counter], self.arrays.errors[counter]
            return int(count - error), int(count) + self.surplus

    def top(self, k: int) -> list[HeavyHitter]:
        """Return the `k` keys with the largest upper bounds: [(hash, lower, upper), …], hottest first.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 8]))
        >>> summary.top(1)
        [(7, 2, 2)]
        """
        k = checks.whole_number("k", k, minimum=0)
        with self._one_thread.reading:
            return self._hottest_first(np.arange(len(self)))[:k]

    def head(self, threshold: float) -> list[HeavyHitter]:
        """Return every key whose share of `total` may be `threshold` or more, hottest first.

        There are no false negatives if capacity >= 1 / threshold; after `fade_until`, if capacity > 1 / threshold and
        `surplus` is 0. In general, a key that is missing has a share below the threshold, or of at most
        1 / capacity + surplus / total. Every key returned has a share of at least
        threshold - 1 / capacity - surplus / total, less what rounding adds to the distance of its bounds.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 7, 8]))
        >>> summary.head(0.5)
        [(7, 3, 3)]
        """
        threshold = checks.share("threshold", threshold)
        with self._one_thread.reading:
            upper = self.arrays.counts[: len(self)] + self.surplus
            return self._hottest_first(np.flatnonzero(upper >= least_hot_count(threshold, self.total)))

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the counts of all counters, largest first. Their sum is at most `total`."""
        with self._one_thread.reading:
            return np.sort(self.arrays.counts[: len(self)])[::-1]

    def merge(self, other: "SpaceSaving") -> "SpaceSaving":
        """Return a summary of both streams together. All guarantees hold for it, and neither operand changes.

        The operands may have faded differently: the true count of a key is the sum of its true counts in both. What
        rounding has added to the distance of the bounds adds up: at most 1 for each summary that had faded before it
        was merged.

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
        mine, theirs = self._contents(), other._contents()
        total = checks.total("the total of both", mine.total, theirs.total)
        joined: dict[int, tuple[int, int]] = {}  # key -> (count, error)
        for key in mine.counters.keys() | theirs.counters.keys():
            # Without a counter: anything from 0 to the least count.
            count, error = mine.counters.get(key, (mine.least, mine.least))
            count_there, error_there = theirs.counters.get(key, (theirs.least, theirs.least))
            joined[key] = count + count_there, error + error_there
        merged = SpaceSaving(min(self.capacity, other.capacity))
        # A full operand makes the merged summary full too. So no counter here is below both least counts together,
        # which is what a key without a counter on either side may have.
        largest = sorted(joined.items(), key=lambda item: (-item[1][0], item[0]))[: merged.capacity]
        merged.replace_counters(
            np.array([key for key, _ in largest], np.uint64),
            np.array([count for _, (count, _) in largest], np.int64),
            np.array([error for _, (_, error) in largest], np.int64),
            total,
            mine.messages + theirs.messages,
            mine.surplus + theirs.surplus,
        )
        return merged

    # For the rest of the package. Nothing below is checked: callers pass what they got from this class.

    def fade(self) -> None:
        """Halve all counts, rounded down. The total, the surplus and the number of messages are rounded up.

        Counters that reach 0 become free. The bounds then hold for true counts halved and rounded down in the same
        way. Their distance is at most total / capacity + surplus + 1, because lower and upper are rounded separately.
        If k > 1 summaries that had faded were merged into this one, it is at most total / capacity + surplus + k.

        >>> summary = SpaceSaving(10)
        >>> summary.offer_many(np.array([7, 7, 7, 8]))
        >>> summary.fade()  # 3 and 1 become 1 and 0
        >>> summary.top(10), summary.total
        ([(7, 1, 1)], 2)
        """
        with self._one_thread:
            used = len(self)
            counts = self.arrays.counts[:used] // 2
            lower = (self.arrays.counts[:used] - self.arrays.errors[:used]) // 2
            self.replace_counters(
                self.arrays.keys[:used],
                counts,
                counts - lower,
                (self.total + 1) // 2,
                (self._messages + 1) // 2,
                (self.surplus + 1) // 2,
            )

    def mark(self) -> Mark:
        """Return the counts of this moment, so that later ones can be compared with them."""
        with self._one_thread.reading:
            counts = np.zeros(self.capacity, np.int64)
            counts[: len(self)] = self.arrays.counts[: len(self)]
            return Mark(counts, self.total)

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

        The bounds then hold for true counts that fade in the same way: what a key had at `mark`, shifted right by
        `halvings`, plus all that came later. Their distance is at most total / capacity + surplus.

        Old counts decide which keys have a counter, and they are worth little after the call. So a key without a
        counter may turn out to be frequent. `surplus` says how frequent at most: it becomes
        ceil(surplus / 2^halvings), plus at most total / capacity with the total before the call, plus what rounding had
        added to the distance of the bounds. `mark` must be of this summary, with no other fading in between.

        >>> summary = SpaceSaving(10)
        >>> summary.offer(7, 100)
        >>> mark = summary.mark()
        >>> summary.offer(8, 10)
        >>> summary.fade_until(mark, 2)
        >>> summary.bounds(7), summary.bounds(8), summary.total
        ((25, 25), (10, 10), 35)
        """
        if halvings == 0:
            return
        with self._one_thread:
            used = len(self)
            counts, errors, before = self.arrays.counts[:used], self.arrays.errors[:used], mark.counts[:used]
            least_before = int(mark.counts.min())
            total = (mark.total >> halvings) + self.total - mark.total
            # A counter that another key took over after the mark has an error of at least its count at the mark.
            taken = errors >= before
            recent = counts - np.maximum(before, errors)
            lower = recent + ((counts - errors - recent) >> halvings)
            # What a key without a counter had at the mark, and what it may have had since, is limited in two ways.
            # The counter that it lost or took over had at least `least_before` then, so all beyond that is recent. And
            # all keys together had no more than the total since then, of which `recent` belongs to keys with counters.
            unseen = self.total - mark.total - int(recent.sum())
            most_past = max(least_before, int(before[taken].max(initial=0))) >> halvings
            faded = least_before - (least_before >> halvings)
            kept = counts - before + (before >> halvings)
            upper = np.where(taken, np.minimum(counts - faded, most_past + recent + unseen), kept)
            elsewhere = min(int(errors[taken].max(initial=least_before)) - faded, most_past + unseen)
            # New counts: no more than is left in the counter, so that they sum to at most the total.
            count = np.minimum(np.minimum(kept, upper), lower + total // self.capacity)
            least = int(count.min(initial=total)) if used == self.capacity else 0
            surplus = -(-self.surplus >> halvings) + max(0, int((upper - count).max(initial=0)), elsewhere - least)
            messages = max(1, round(total / self.unit))
            self.replace_counters(self.arrays.keys[:used], count, count - lower, total, messages, surplus)

    def replace_counters(
        self,
        keys: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.int64],
        errors: npt.NDArray[np.int64],
        total: int,
        messages: int,
        surplus: int = 0,
    ) -> None:
        """Replace all counters, the total, the number of messages and the surplus. Counts of 0 need no counter."""
        used = counts > 0
        with self._one_thread:
            kernels.refill(self.arrays, keys[used], counts[used], errors[used])
            self.arrays.scalars[kernels.TOTAL] = total
            self.arrays.scalars[kernels.MESSAGES] = messages
            self.arrays.scalars[kernels.SURPLUS] = surplus

    def make_room_for_weights(self) -> None:
        """Make room for what kernels need for weights."""
        self.arrays = kernels.with_heap(self.arrays)

    def save_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays from which `load_state` restores this summary exactly.

        Unlike `counters` they include the ring: which of several least counters is taken first depends on it. A heap
        follows from the counts.
        """
        with self._one_thread.reading:
            used = len(self)
            queued, levels = np.empty(self.capacity, np.int32), np.empty(self.capacity, np.int64)
            in_ring, scalars = 0, self.arrays.scalars.copy()
            if scalars[kernels.QUEUE] == kernels.RING:
                in_ring = kernels.list_ring(self.arrays, queued, levels)
            else:
                scalars[kernels.QUEUE] = kernels.NO_QUEUE  # equal states have equal bytes, with or without a heap
            return {
                "keys": self.arrays.keys[:used].copy(),
                "counts": self.arrays.counts[:used].copy(),
                "errors": self.arrays.errors[:used].copy(),
                "queued": queued[:in_ring],
                "levels": (levels[:in_ring] - self.arrays.scalars[kernels.LEVEL]).astype(np.int32),
                "scalars": scalars,
            }

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `save_state` of a summary with the same capacity returned. Other entries are ignored.

        >>> summary, copy = SpaceSaving(2), SpaceSaving(2)
        >>> summary.offer_many(np.array([7, 8, 9]))
        >>> copy.load_state(summary.save_state())
        >>> summary.offer(10); copy.offer(10)
        >>> copy.top(2) == summary.top(2)
        True
        """
        with self._one_thread:
            kernels.refill(self.arrays, state["keys"], state["counts"], state["errors"])
            scalars = self.arrays.scalars
            scalars[:] = state["scalars"]
            if scalars[kernels.WEIGHED]:
                self.make_room_for_weights()
            if scalars[kernels.QUEUE] == kernels.RING:
                kernels.fill_ring(self.arrays, state["queued"], state["levels"] + scalars[kernels.LEVEL])
            else:
                scalars[kernels.QUEUE] = kernels.NO_QUEUE  # a heap is built when it is needed

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as capacity and state. A copy shares nothing with the original."""
        return _restored, (self.capacity, self.save_state())

    def _least(self) -> int:
        """Return the largest count that a key without a counter may have, but for `surplus`: 0 with free counters."""
        return int(self.arrays.counts.min()) if len(self) == self.capacity else 0

    def _contents(self) -> "_Contents":
        """Return all that a merge needs, as of one moment."""
        with self._one_thread.reading:
            used = len(self)
            pairs = zip(self.arrays.counts[:used].tolist(), self.arrays.errors[:used].tolist(), strict=True)
            counters = dict(zip(self.arrays.keys[:used].tolist(), pairs, strict=True))
            return _Contents(counters, self._least(), self.total, self._messages, self.surplus)

    def _hottest_first(self, counters: npt.NDArray[np.intp]) -> list[HeavyHitter]:
        """Return (hash, lower, upper) of these counters, by upper bound, then by hash."""
        hashes = self.arrays.keys[counters].view(np.int64)
        counts = self.arrays.counts[counters]
        lower, upper = counts - self.arrays.errors[counters], counts + self.surplus
        order = np.lexsort((hashes, -upper))
        return list(zip(hashes[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True))


class _Contents(NamedTuple):
    """The contents of a summary at one moment."""

    counters: dict[int, tuple[int, int]]  # key -> (count, error)
    least: int
    total: int
    messages: int
    surplus: int


def _restored(capacity: int, state: Mapping[str, npt.NDArray[Any]]) -> SpaceSaving:
    summary = SpaceSaving(capacity)
    summary.load_state(state)
    return summary
