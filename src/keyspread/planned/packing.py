"""Packing: assign counted buckets and hot keys to workers, as close to the previous plan as balance allows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.kernels import packing, planned_routing
from keyspread.planned.plan import Head, Plan, buckets_of

_HALVINGS = 24  # steps of the search for the smallest slack that keeps a bound on moved messages


@dataclass(frozen=True)
class Counts:
    """The input of a plan: tail messages per bucket, and the hot keys with their messages, hottest first."""

    buckets: npt.NDArray[np.int64]
    hot: tuple[tuple[int, int], ...]  # (hash, messages)

    @property
    def total(self) -> int:
        """The number of messages counted."""
        return int(self.buckets.sum()) + int(self.messages.sum())

    @cached_property
    def hashes(self) -> npt.NDArray[np.int64]:
        """The hashes of the hot keys."""
        return np.fromiter((key for key, _ in self.hot), np.int64, len(self.hot))

    @cached_property
    def messages(self) -> npt.NDArray[np.int64]:
        """The messages of the hot keys."""
        return np.fromiter((messages for _, messages in self.hot), np.int64, len(self.hot))


@dataclass(frozen=True)
class Aim:
    """The goal of a plan: even loads, how far they may be off, and how much may move for them."""

    workers: int
    slack: float = 0.0
    most_moved: float | None = None

    @classmethod
    def of(cls, workers: int, slack: float, most_moved: float | None) -> "Aim":
        """Check the arguments of a caller."""
        return cls(
            checks.whole_number("workers", workers),
            checks.not_negative("slack", slack),
            None if most_moved is None else checks.not_negative("most_moved", most_moved),
        )

    def limit(self, total: int, slack: float) -> int:
        """Return the largest load of a worker, which is at most everything."""
        return min(total, -(-total // self.workers) + int(min(slack * total, total)))


class _Previous:
    """The workers of buckets and hot keys in the previous plan. Without one, and for workers that are gone: none."""

    def __init__(self, previous: Plan | None, workers: int, counts: Counts) -> None:
        self.known = previous is not None
        self.buckets = np.full(counts.buckets.size, -1, np.int32)
        if previous is not None and previous.buckets.size == counts.buckets.size:
            self.buckets = np.where(previous.buckets < workers, previous.buckets, -1).astype(np.int32)
        head = Head.of(()) if previous is None else previous.pieces
        # Old workers, for each key in a row: those that it had as a hot key, or the one of its bucket.
        was_hot = _last_index(head.hashes, counts.hashes)
        bucket = self.buckets[buckets_of(counts.hashes, counts.buckets.size)]
        sizes = np.where(was_hot >= 0, np.append(head.sizes, 1)[was_hot], 1)
        first = np.concatenate([[0], np.cumsum(sizes)])
        begin = np.where(was_hot >= 0, head.first[was_hot], 0)
        place = np.arange(first[-1]) - np.repeat(first[:-1] - begin, sizes)
        had = np.repeat(bucket, sizes)
        hot = np.repeat(was_hot >= 0, sizes)
        had[hot] = head.workers[place[hot]]
        exists = (had >= 0) & (had < workers)
        self.workers = had[exists]
        """The old workers of the first hot key, in the order in which it filled them, then those of the second, …"""
        self.first = np.concatenate([[0], np.cumsum(exists)])[first]
        """Where the old workers of each hot key begin."""


def _last_index(of: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each of the `values` its last position in `of`, or -1."""
    order = np.argsort(of, kind="stable")
    at = np.searchsorted(of[order], values, side="right") - 1
    last = np.append(order, -1)[at]
    return np.where(np.append(of, 0)[last] == values, last, -1)


def place(counts: Counts, aim: Aim, previous: Plan | None = None, first_worker: int = 0) -> Plan:
    """Place buckets first, where they were if they fit, then hot keys into the room that is left.

    Ties between equally loaded workers go to the first one from `first_worker` on. Senders that plan at the same time
    pass different ones.
    """
    packer = _Packer(counts, aim, _Previous(previous, aim.workers, counts), first_worker)
    balanced = packer.place_within(aim.slack)
    if previous is None or aim.most_moved is None or balanced.moved <= aim.most_moved:
        return balanced
    # With slack 1 everything fits where it was. What moves even then had no worker before: that is unavoidable.
    best = packer.place_within(1.0)
    bound = aim.most_moved + best.moved
    too_small, large_enough = aim.slack, 1.0
    for _ in range(_HALVINGS):
        between = (too_small + large_enough) / 2
        tried = packer.place_within(between)
        if tried.moved <= bound:
            best, large_enough = tried, between
        else:
            too_small = between
    return best


class _Packer:
    """Places the same counts with any slack."""

    def __init__(self, counts: Counts, aim: Aim, before: _Previous, first_worker: int) -> None:
        self._counts, self._aim, self._before, self._first_worker = counts, aim, before, first_worker
        self._total = counts.total
        self._largest_first = _largest_first(counts.buckets)

    def place_within(self, slack: float) -> Plan:
        """Return a plan in which no worker exceeds its share by more than the slack, if buckets allow it."""
        counts, aim, before, total = self._counts, self._aim, self._before, self._total
        even, at_most = aim.limit(total, 0.0), aim.limit(total, slack)
        room = packing.new_room(aim.workers, even, at_most, self._first_worker % aim.workers)
        owners = before.buckets.copy()
        packing.pack_buckets(counts.buckets, self._largest_first.copy(), owners, room)
        most = counts.hashes.size + aim.workers + before.workers.size
        first = np.zeros(counts.hashes.size + 1, np.int64)
        pieces = packing.Pieces(first, np.empty(most, np.int32), np.empty(most, np.int64))
        moved = packing.split_hot_keys(counts.messages, before.first, before.workers, room, pieces)
        moved += int(counts.buckets[owners != before.buckets].sum())
        workers, weights = pieces.workers[: first[-1]], pieces.weights[: first[-1]]
        ends = np.empty(first[-1], np.int64)
        planned_routing.cut_by_weight(first, weights, ends)
        head = Head(counts.hashes, first, workers, weights, ends)
        share_moved = moved / total if before.known and total else 0.0
        return Plan(aim.workers, owners, head, room.loads, share_moved)


def _largest_first(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the buckets that are not empty, largest first; equal ones in their order."""
    order = np.flatnonzero(sizes)
    packing.sort_largest_first(sizes, order, np.empty_like(order), np.zeros(packing.DIGITS, np.int64))
    return order
