"""Packing: assign counted buckets and hot keys to workers, as close to the previous plan as balance allows."""

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.planned.plan import HotKey, Plan, buckets_of

_HALVINGS = 24  # steps of the search for the smallest tolerance that keeps a bound on moved messages
_Entry = tuple[float, int, int, int]


@dataclass(frozen=True)
class Counts:
    """The input of a plan: tail messages per bucket, and the hot keys with their messages, hottest first."""

    buckets: npt.NDArray[np.int64]
    hot: tuple[tuple[int, int], ...]  # (hash, messages)

    @property
    def total(self) -> int:
        """The number of messages counted."""
        return int(self.buckets.sum()) + sum(messages for _, messages in self.hot)


@dataclass(frozen=True)
class Aim:
    """The goal of a plan: loads in proportion to capacities, and how far they may be off."""

    workers: int
    capacities: tuple[float, ...] | None = None  # multiples of the mean
    tolerance: float = 0.0
    most_moved: float | None = None

    @classmethod
    def of(cls, workers: int, capacities: Any, tolerance: float, most_moved: float | None) -> "Aim":
        """Check the arguments of a caller."""
        return cls(
            checks.whole_number("workers", workers),
            checks.capacities(capacities, workers),
            checks.not_negative("tolerance", tolerance),
            None if most_moved is None else checks.not_negative("most_moved", most_moved),
        )

    def limits(self, total: int, tolerance: float) -> list[int]:
        """Return the largest load of each worker."""
        slack = int(tolerance * total)
        if self.capacities is None:
            return [-(-total // self.workers) + slack] * self.workers
        return [math.ceil(total * capacity / self.workers + slack * capacity) for capacity in self.capacities]


class _Previous:
    """The workers of buckets and keys in the previous plan. Without one, and for workers that are gone: none."""

    def __init__(self, previous: Plan | None, workers: int, buckets: int) -> None:
        self.known = previous is not None
        self._head = {key.hash: key for key in previous.head} if previous is not None else {}
        self._workers = workers
        self.buckets = np.full(buckets, -1, np.int64)
        if previous is not None and previous.buckets.size == buckets:
            self.buckets = np.where(previous.buckets < workers, previous.buckets, -1).astype(np.int64)

    def workers_of(self, key: int) -> list[int]:
        """Return the workers that had this key, hot or in a bucket, in the order in which it filled them."""
        hot = self._head.get(key)
        had = hot.workers if hot is not None else (int(self.buckets[_bucket_of(key, self.buckets.size)]),)
        return [worker for worker in had if 0 <= worker < self._workers]


class _LeastLoaded:
    """Workers by load per capacity, least first. Ties go to the first worker from `first_worker` on, going round."""

    def __init__(self, loads: list[int], aim: Aim, first_worker: int) -> None:
        self._loads, self._first_worker = loads, first_worker
        self._scale = [1.0] * len(loads) if aim.capacities is None else [1 / capacity for capacity in aim.capacities]

    def heap(self) -> list[_Entry]:
        """Return all workers as a heap."""
        heap = [self.entry(worker) for worker in range(len(self._loads))]
        heapq.heapify(heap)
        return heap

    def entry(self, worker: int) -> _Entry:
        """Return a worker's entry in the heap: two numbers to sort by, the worker, and its load at this moment."""
        load = self._loads[worker]
        return load * self._scale[worker], (worker - self._first_worker) % len(self._loads), worker, load


def place(counts: Counts, aim: Aim, previous: Plan | None = None, first_worker: int = 0) -> Plan:
    """Place buckets first, where they were if they fit, then hot keys into the room that is left.

    Ties between equally loaded workers go to the first one from `first_worker` on. Senders that plan at the same time
    pass different ones.
    """
    before = _Previous(previous, aim.workers, counts.buckets.size)
    balanced = _place_within(aim.tolerance, counts, aim, before, first_worker)
    if previous is None or aim.most_moved is None or balanced.moved <= aim.most_moved:
        return balanced
    # With tolerance 1 everything fits where it was. What moves even then had no worker before: that is unavoidable.
    best = _place_within(1.0, counts, aim, before, first_worker)
    bound = aim.most_moved + best.moved
    too_small, large_enough = aim.tolerance, 1.0
    for _ in range(_HALVINGS):
        between = (too_small + large_enough) / 2
        tried = _place_within(between, counts, aim, before, first_worker)
        if tried.moved <= bound:
            best, large_enough = tried, between
        else:
            too_small = between
    return best


def _place_within(tolerance: float, counts: Counts, aim: Aim, before: _Previous, first_worker: int) -> Plan:
    total = counts.total
    even, at_most = aim.limits(total, 0.0), aim.limits(total, tolerance)
    loads = [0] * aim.workers
    order = _LeastLoaded(loads, aim, first_worker)
    owners = _pack(counts.buckets, loads, at_most, before, order)
    head = _split(counts.hot, loads, even, at_most, before, order)
    moved = _moved_share(counts, owners, head, before, total) if before.known else 0.0
    return Plan(aim.workers, owners, head, np.array(loads, np.int64), moved, aim.capacities)


def _pack(
    buckets: npt.NDArray[np.int64], loads: list[int], limits: list[int], before: _Previous, order: _LeastLoaded
) -> npt.NDArray[np.int32]:
    """Assign each bucket to a worker, largest first: its old one if it fits under the limit, else the least loaded."""
    owners = before.buckets.astype(np.int32)
    unplaced = []
    for bucket in np.argsort(-buckets, kind="stable").tolist():
        size, owner = int(buckets[bucket]), int(owners[bucket])
        if owner >= 0 and loads[owner] + size <= limits[owner]:
            loads[owner] += size
        elif size:
            unplaced.append(bucket)
    emptiest = order.heap()
    for bucket in unplaced:
        worker = emptiest[0][2]
        owners[bucket] = worker
        loads[worker] += int(buckets[bucket])
        heapq.heapreplace(emptiest, order.entry(worker))
    # A bucket without messages and without an old worker gets any: one of its keys may still arrive.
    unknown = np.flatnonzero(owners < 0)
    owners[unknown] = unknown % len(loads)
    return owners


def _split(
    hot: tuple[tuple[int, int], ...],
    loads: list[int],
    even: list[int],
    at_most: list[int],
    before: _Previous,
    order: _LeastLoaded,
) -> tuple[HotKey, ...]:
    """Split the hot keys, hottest first, over the room that is left: first their old workers, then the least loaded.

    A key fills its old workers in the same order as before. A key that has grown then takes a little more of the last
    one, which it shares with other keys, and those shift a little; none moves away. There is always room: the even
    limits add up to the total or more.
    """
    emptiest = order.heap()
    head = []
    for key, messages in hot:
        left = messages
        pieces: dict[int, int] = {}
        old = before.workers_of(key)
        waiting = [*((worker, even) for worker in old), *((worker, at_most) for worker in old)][::-1]
        while left:
            if waiting:
                worker, limits = waiting.pop()
            else:
                _, _, worker, load = heapq.heappop(emptiest)
                limits = even
                if load != loads[worker]:
                    continue  # an outdated entry: the worker got more since
            amount = min(left, limits[worker] - loads[worker])
            if amount > 0:
                pieces[worker] = pieces.get(worker, 0) + amount
                loads[worker] += amount
                left -= amount
                heapq.heappush(emptiest, order.entry(worker))
        head.append(HotKey.by_weight(key, pieces))
    return tuple(head)


def _moved_share(
    counts: Counts, owners: npt.NDArray[np.int32], head: tuple[HotKey, ...], before: _Previous, total: int
) -> float:
    """Return the share of the messages that go to a worker which did not have their key in the previous plan."""
    moved = int(counts.buckets[owners != before.buckets].sum())
    for key in head:
        had = before.workers_of(key.hash)
        moved += sum(weight for worker, weight in zip(key.workers, key.weights, strict=True) if worker not in had)
    return moved / total if total else 0.0


def _bucket_of(key: int, buckets: int) -> int:
    return int(buckets_of(np.array([key], np.int64), buckets)[0])
