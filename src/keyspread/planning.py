"""Planned dealing: look at the batch before dealing it.

Count (bucket loads and hot keys) -> place (who gets what, as close to the previous plan as balance allows) ->
deal (`Plan.route`, or Spark SQL). A plan is one entry a bucket plus a few for each hot key, for any number of keys.
"""

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.encoded import Encoded
from keyspread.errors import InputError
from keyspread.kernels import dealing
from keyspread.metrics import hot_from
from keyspread.plans import HotKey, Plan, buckets_of
from keyspread.settings import default_threshold

BUCKETS_PER_WORKER = 64


@dataclass(frozen=True)
class Counts:
    """What a plan is made from: the messages of the tail in each bucket, and the hot keys with theirs."""

    buckets: npt.NDArray[np.int64]
    hot: tuple[tuple[int, int], ...]  # (hash, messages)

    @property
    def total(self) -> int:
        """All messages counted."""
        return int(self.buckets.sum()) + sum(messages for _, messages in self.hot)


def plan(
    hashes: npt.NDArray[Any],
    workers: int,
    *,
    previous: Plan | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
) -> Plan:
    """Plan this batch: no worker gets more than its share rounded up, as far as buckets of tail keys can be packed.

    A tail key has one worker. A hot key (share >= `threshold`, by default 1/(5n)) is cut by position into pieces
    that fill the room left, exactly, when the same batch is then routed from start=0. With a `previous` plan,
    buckets and hot keys stay where they were as far as balance allows.

    >>> batch = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> made = plan(batch, workers=4)
    >>> np.bincount(made.route(batch)).tolist()
    [25, 25, 25, 25]
    """
    keys = checks.hashes(hashes)
    workers = checks.whole_number("workers", workers)
    threshold = default_threshold(workers) if threshold is None else checks.share("threshold", threshold)
    return plan_counted(keys, workers, previous, threshold, bucket_count(workers, previous, buckets))[0]


def plan_counted(
    keys: npt.NDArray[np.int64], workers: int, previous: Plan | None, threshold: float, buckets: int, turn: int = 0
) -> tuple[Plan, Counts]:
    """Give the plan of a batch, and what was counted for it."""
    batch = Encoded.of(keys)
    distinct, ids, messages = batch.hashes, batch.ids, batch.counts
    hot = np.flatnonzero(messages >= hot_from(threshold, keys.size))
    hot = hot[np.lexsort((distinct[hot], -messages[hot]))]
    tail = messages.copy()
    tail[hot] = 0
    bucket_loads = np.bincount(buckets_of(distinct, buckets), weights=tail, minlength=buckets).astype(np.int64)
    counts = Counts(bucket_loads, tuple(zip(distinct[hot].tolist(), messages[hot].tolist(), strict=True)))
    placed = place(counts, workers, previous, turn)
    return placed.with_cuts(_exact_cuts(placed.head, hot, ids)), counts


def bucket_count(workers: int, previous: Plan | None, buckets: int | None) -> int:
    """Give the number of buckets: as asked, as in the previous plan if those are small enough, or 64 a worker."""
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a Plan, got {type(previous).__name__}; Plan.from_json reads a stored one")
    if buckets is not None:
        return checks.whole_number("buckets", buckets, minimum=workers, maximum=dealing.TURNS)
    if previous is not None and 2 * previous.buckets.size >= BUCKETS_PER_WORKER * workers:
        return previous.buckets.size
    return BUCKETS_PER_WORKER * workers


def place(counts: Counts, workers: int, previous: Plan | None = None, turn: int = 0) -> Plan:
    """Place what was counted: buckets first, where they were if they fit, then hot keys into the room that is left.

    Of equally loaded workers the first from `turn` on is taken: several that plan side by side take different ones.
    """
    total = counts.total
    limit = -(-total // workers)  # rounded up
    before = _Before(previous, workers, counts.buckets.size)
    loads = [0] * workers
    owners = _pack(counts.buckets, loads, limit, before, turn)
    head = _pour(counts.hot, loads, limit, before, turn)
    moved = _moved(counts, owners, head, before, total) if previous is not None else 0.0
    return Plan(workers, owners, head, np.array(loads, np.int64), moved)


class _Before:
    """Where the previous plan had buckets and keys; nowhere, without one or for workers that are gone."""

    def __init__(self, previous: Plan | None, workers: int, buckets: int) -> None:
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


def _pack(
    buckets: npt.NDArray[np.int64], loads: list[int], limit: int, before: _Before, turn: int
) -> npt.NDArray[np.int32]:
    """Give each bucket a worker, largest first: its old one if it fits under the limit, else the least loaded."""
    owners = before.buckets.astype(np.int32)
    homeless = []
    for bucket in np.argsort(-buckets, kind="stable").tolist():
        size, owner = int(buckets[bucket]), int(owners[bucket])
        if owner >= 0 and loads[owner] + size <= limit:
            loads[owner] += size
        elif size:
            homeless.append(bucket)
    emptiest = [(load, (worker - turn) % len(loads)) for worker, load in enumerate(loads)]
    heapq.heapify(emptiest)
    for bucket in homeless:
        load, place_from_turn = emptiest[0]
        load += int(buckets[bucket])
        heapq.heapreplace(emptiest, (load, place_from_turn))
        worker = (place_from_turn + turn) % len(loads)
        owners[bucket], loads[worker] = worker, load
    # A bucket without messages and without a past takes any worker: a key of it may still come.
    unknown = np.flatnonzero(owners < 0)
    owners[unknown] = unknown % len(loads)
    return owners


def _pour(
    hot: tuple[tuple[int, int], ...], loads: list[int], limit: int, before: _Before, turn: int
) -> tuple[HotKey, ...]:
    """Pour the hot keys, hottest first, into the room that is left: first where they were, then into the emptiest.

    A key fills its old workers in the order in which it filled them before. So a key that has grown takes a little
    more of the last one, which it shares, and the keys behind it move over a little; none moves away. There is
    always room: n times the limit is the total or more.
    """
    emptiest = [(load, (worker - turn) % len(loads)) for worker, load in enumerate(loads)]
    heapq.heapify(emptiest)
    head = []
    for key, messages in hot:
        left = messages
        pieces: dict[int, int] = {}
        old_first = before.workers_of(key)[::-1]
        while left:
            if old_first:
                worker = old_first.pop()
            else:
                load, place_from_turn = heapq.heappop(emptiest)
                worker = (place_from_turn + turn) % len(loads)
                if load != loads[worker]:
                    continue  # it got more since it was put there
            amount = min(left, limit - loads[worker])
            if amount > 0:
                pieces[worker] = pieces.get(worker, 0) + amount
                loads[worker] += amount
                left -= amount
                heapq.heappush(emptiest, (loads[worker], (worker - turn) % len(loads)))
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


def sharpened(plan: Plan, cells: dict[int, npt.NDArray[np.int64]]) -> Plan:
    """Give the plan with its hot keys cut where their own turns lie, known as counts in equal cells of turns.

    Positions of a key are not spread quite evenly over the turns. Cutting by weight alone would leave each piece
    off by the root of its size; cutting by these counts, by the root of what one cell holds.
    """
    cuts = []
    for key in plan.head:
        counted = np.concatenate([[0], np.cumsum(cells[key.hash])])
        edges = np.linspace(0, dealing.TURNS, counted.size)
        wanted = np.cumsum(key.weights)[:-1] * (counted[-1] / key.messages)
        cuts.append([*np.interp(wanted, counted, edges).astype(np.int64).tolist(), dealing.TURNS])
    return plan.with_cuts(cuts)


def _exact_cuts(head: tuple[HotKey, ...], hot: npt.NDArray[np.intp], ids: npt.NDArray[np.int32]) -> list[list[int]]:
    """Give, for each hot key, the turns where its pieces end: each gets exactly its messages of this batch."""
    rank = np.full(int(ids.max(initial=-1)) + 1, -1, np.int64)
    rank[hot] = np.arange(hot.size)
    ranks = rank[ids] if ids.size else np.empty(0, np.int64)
    positions = np.flatnonzero(ranks >= 0)
    order = np.argsort(ranks[positions], kind="stable")
    turns = np.empty(ids.size, np.int64)
    dealing.turn_of(0, turns)
    by_key = np.split(turns[positions[order]], np.cumsum([key.messages for key in head])[:-1]) if head else []
    cuts = []
    for key, own in zip(head, by_key, strict=True):
        ends = np.cumsum(key.weights)[:-1]
        cuts.append([*(np.partition(own, ends)[ends].tolist() if ends.size else []), dealing.TURNS])
    return cuts


def _bucket_of(key: int, buckets: int) -> int:
    return int(buckets_of(np.array([key], np.int64), buckets)[0])
