"""Placing: who gets what was counted, as close to the previous plan as balance allows."""

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.planned.plan import HotKey, Plan, buckets_of

_HALVINGS = 24  # of the tolerance, when a bound on what moves is looked for
_Entry = tuple[float, int, int, int]


@dataclass(frozen=True)
class Counts:
    """What a plan is made from: the messages of the tail in each bucket, and the hot keys with theirs."""

    buckets: npt.NDArray[np.int64]
    hot: tuple[tuple[int, int], ...]  # (hash, messages)

    @property
    def total(self) -> int:
        """All messages counted."""
        return int(self.buckets.sum()) + sum(messages for _, messages in self.hot)


@dataclass(frozen=True)
class Aim:
    """What a plan is to reach: loads in proportion to capacities, and how far from that it may stay."""

    workers: int
    capacities: tuple[float, ...] | None = None  # multiples of the mean
    tolerance: float = 0.0
    most_moved: float | None = None

    @classmethod
    def of(cls, workers: int, capacities: Any, tolerance: float, most_moved: float | None) -> "Aim":
        """Check what a caller asks for."""
        return cls(
            checks.whole_number("workers", workers),
            checks.capacities(capacities, workers),
            checks.not_negative("tolerance", tolerance),
            None if most_moved is None else checks.not_negative("most_moved", most_moved),
        )

    def limits(self, total: int, tolerance: float) -> list[int]:
        """Give how much each worker may get."""
        slack = int(tolerance * total)
        if self.capacities is None:
            return [-(-total // self.workers) + slack] * self.workers
        return [math.ceil(total * one / self.workers + slack * one) for one in self.capacities]


class _Before:
    """Where the previous plan had buckets and keys; nowhere, without one or for workers that are gone."""

    def __init__(self, previous: Plan | None, workers: int, buckets: int) -> None:
        self.known = previous is not None
        self._head = {key.hash: key for key in previous.head} if previous is not None else {}
        self._workers = workers
        self.buckets = np.full(buckets, -1, np.int64)
        if previous is not None and previous.buckets.size == buckets:
            self.buckets = np.where(previous.buckets < workers, previous.buckets, -1).astype(np.int64)

    def workers_of(self, key: int) -> list[int]:
        """Give the workers that had this key, hot or in a bucket, in the order in which it filled them."""
        hot = self._head.get(key)
        had = hot.workers if hot is not None else (int(self.buckets[_bucket_of(key, self.buckets.size)]),)
        return [worker for worker in had if 0 <= worker < self._workers]


class _ByBurden:
    """Workers by load per capacity, the least first; equals from `turn` on, going round."""

    def __init__(self, loads: list[int], aim: Aim, turn: int) -> None:
        self._loads, self._turn = loads, turn
        self._burden = [1.0] * len(loads) if aim.capacities is None else [1 / one for one in aim.capacities]

    def heap(self) -> list[_Entry]:
        """Give all workers as a heap."""
        heap = [self.entry(worker) for worker in range(len(self._loads))]
        heapq.heapify(heap)
        return heap

    def entry(self, worker: int) -> _Entry:
        """Give what a worker is in the heap now: its place there, itself, and the load by which that was found."""
        load = self._loads[worker]
        return load * self._burden[worker], (worker - self._turn) % len(self._loads), worker, load


def place(counts: Counts, aim: Aim, previous: Plan | None = None, turn: int = 0) -> Plan:
    """Place what was counted: buckets first, where they were if they fit, then hot keys into the room that is left.

    Of equally loaded workers the first from `turn` on is taken: several that plan side by side take different ones.
    """
    before = _Before(previous, aim.workers, counts.buckets.size)
    made = _placed(counts, aim, before, aim.tolerance, turn)
    if previous is None or aim.most_moved is None or made.moved <= aim.most_moved:
        return made
    # With room for everything in one place only what has no place moves: that is not to be avoided.
    staying = _placed(counts, aim, before, 1.0, turn)
    bound = aim.most_moved + staying.moved
    even, lopsided = aim.tolerance, 1.0
    for _ in range(_HALVINGS):
        between = (even + lopsided) / 2
        tried = _placed(counts, aim, before, between, turn)
        if tried.moved <= bound:
            staying, lopsided = tried, between
        else:
            even = between
    return staying


def _placed(counts: Counts, aim: Aim, before: _Before, tolerance: float, turn: int) -> Plan:
    total = counts.total
    even, at_most = aim.limits(total, 0.0), aim.limits(total, tolerance)
    loads = [0] * aim.workers
    order = _ByBurden(loads, aim, turn)
    owners = _pack(counts.buckets, loads, at_most, before, order)
    head = _pour(counts.hot, loads, even, at_most, before, order)
    moved = _moved(counts, owners, head, before, total) if before.known else 0.0
    return Plan(aim.workers, owners, head, np.array(loads, np.int64), moved, aim.capacities)


def _pack(
    buckets: npt.NDArray[np.int64], loads: list[int], limits: list[int], before: _Before, order: _ByBurden
) -> npt.NDArray[np.int32]:
    """Give each bucket a worker, largest first: its old one if it fits under the limit, else the least loaded."""
    owners = before.buckets.astype(np.int32)
    homeless = []
    for bucket in np.argsort(-buckets, kind="stable").tolist():
        size, owner = int(buckets[bucket]), int(owners[bucket])
        if owner >= 0 and loads[owner] + size <= limits[owner]:
            loads[owner] += size
        elif size:
            homeless.append(bucket)
    emptiest = order.heap()
    for bucket in homeless:
        worker = emptiest[0][2]
        owners[bucket] = worker
        loads[worker] += int(buckets[bucket])
        heapq.heapreplace(emptiest, order.entry(worker))
    # A bucket without messages and without a past takes any worker: a key of it may still come.
    unknown = np.flatnonzero(owners < 0)
    owners[unknown] = unknown % len(loads)
    return owners


def _pour(
    hot: tuple[tuple[int, int], ...],
    loads: list[int],
    even: list[int],
    at_most: list[int],
    before: _Before,
    order: _ByBurden,
) -> tuple[HotKey, ...]:
    """Pour the hot keys, hottest first, into the room that is left: first where they were, then into the emptiest.

    A key fills its old workers in the order in which it filled them before. So a key that has grown takes a little
    more of the last one, which it shares, and the keys behind it move over a little; none moves away. There is
    always room: the even limits add up to the total or more.
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
                    continue  # it got more since it was put there
            amount = min(left, limits[worker] - loads[worker])
            if amount > 0:
                pieces[worker] = pieces.get(worker, 0) + amount
                loads[worker] += amount
                left -= amount
                heapq.heappush(emptiest, order.entry(worker))
        head.append(HotKey.by_weight(key, pieces))
    return tuple(head)


def _moved(
    counts: Counts, owners: npt.NDArray[np.int32], head: tuple[HotKey, ...], before: _Before, total: int
) -> float:
    """Give the share of the messages that go to a worker which the previous plan did not give their key to."""
    moved = int(counts.buckets[owners != before.buckets].sum())
    for key in head:
        had = before.workers_of(key.hash)
        moved += sum(weight for worker, weight in zip(key.workers, key.weights, strict=True) if worker not in had)
    return moved / total if total else 0.0


def _bucket_of(key: int, buckets: int) -> int:
    return int(buckets_of(np.array([key], np.int64), buckets)[0])
