"""Planned dealing: look at the batch before dealing it.

Count (bucket loads and hot keys) -> place (who gets what, as close to the previous plan as balance allows) ->
deal (`Plan.route`, or Spark SQL). A plan is one entry a bucket plus a few for each hot key, for any number of keys.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels import planned_routing
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import HotKey, Plan, buckets_of
from keyspread.streams.encoded import Encoded
from keyspread.threshold import checked_threshold, least_hot_count

BUCKETS_PER_WORKER = 64


def plan(
    hashes: npt.NDArray[Any],
    workers: int,
    *,
    previous: Plan | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
    weights: npt.NDArray[Any] | None = None,
    capacities: Sequence[float] | None = None,
    tolerance: float = 0.0,
    most_moved: float | None = None,
) -> Plan:
    """Plan this batch: no worker gets more than its share rounded up, as far as buckets of tail keys can be packed.

    A tail key has one worker. A hot key (share >= `threshold`, by default 1/(5n)) is cut by position into pieces
    that fill the room left, exactly, when the same batch is then routed from start=0. With a `previous` plan,
    buckets and hot keys stay where they were as far as balance allows: up to an imbalance of `tolerance`, and beyond
    it where more than a share `most_moved` of the messages would have to move otherwise.

    With `weights` (whole numbers, one a message: bytes, or microseconds of work) the load is their sum. With
    `capacities`, one number a worker, each gets its share by them.

    >>> batch = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> made = plan(batch, workers=4)
    >>> np.bincount(made.route(batch)).tolist()
    [25, 25, 25, 25]
    """
    keys = checks.hashes(hashes)
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    aim = Aim.of(workers, capacities, tolerance, most_moved)
    weighed = None if weights is None else checks.weights(weights, keys.size)
    return plan_counted(keys, aim, previous, threshold, bucket_count(workers, previous, buckets), weights=weighed)[0]


def plan_counted(
    keys: npt.NDArray[np.int64],
    aim: Aim,
    previous: Plan | None,
    threshold: float,
    buckets: int,
    turn: int = 0,
    weights: npt.NDArray[np.int64] | None = None,
) -> tuple[Plan, Counts]:
    """Give the plan of a batch, and what was counted for it."""
    batch = Encoded.of(keys)
    distinct, messages = batch.hashes, batch.weighed(weights)
    hot = np.flatnonzero((messages >= least_hot_count(threshold, int(messages.sum()))) & (messages > 0))
    hot = hot[np.lexsort((distinct[hot], -messages[hot]))]
    tail = messages.copy()
    tail[hot] = 0
    bucket_loads = np.bincount(buckets_of(distinct, buckets), weights=tail, minlength=buckets).astype(np.int64)
    counts = Counts(bucket_loads, tuple(zip(distinct[hot].tolist(), messages[hot].tolist(), strict=True)))
    placed = place(counts, aim, previous, turn)
    return placed.with_cuts(_exact_cuts(placed.head, hot, batch, weights)), counts


def bucket_count(workers: int, previous: Plan | None, buckets: int | None) -> int:
    """Give the number of buckets: as asked, as in the previous plan if those are small enough, or 64 a worker."""
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a Plan, got {type(previous).__name__}; Plan.from_json reads a stored one")
    if buckets is not None:
        return checks.whole_number("buckets", buckets, minimum=workers, maximum=planned_routing.TURNS)
    if previous is not None and 2 * previous.buckets.size >= BUCKETS_PER_WORKER * workers:
        return previous.buckets.size
    return BUCKETS_PER_WORKER * workers


def sharpened(plan: Plan, cells: dict[int, npt.NDArray[np.int64]]) -> Plan:
    """Give the plan with its hot keys cut where their own turns lie, known as counts in equal cells of turns.

    Positions of a key are not spread quite evenly over the turns. Cutting by weight alone would leave each piece
    off by the root of its size; cutting by these counts, by the root of what one cell holds.
    """
    cuts = []
    for key in plan.head:
        counted = np.concatenate([[0], np.cumsum(cells[key.hash])])
        edges = np.linspace(0, planned_routing.TURNS, counted.size)
        wanted = np.cumsum(key.weights)[:-1] * (counted[-1] / key.messages)
        cuts.append([*np.interp(wanted, counted, edges).astype(np.int64).tolist(), planned_routing.TURNS])
    return plan.with_cuts(cuts)


def _exact_cuts(
    head: tuple[HotKey, ...], hot: npt.NDArray[np.intp], batch: Encoded, weights: npt.NDArray[np.int64] | None
) -> list[list[int]]:
    """Give, for each hot key, the turns where its pieces end: each gets its messages of this batch, to the message."""
    ids = batch.ids
    rank = np.full(batch.hashes.size, -1, np.int64)
    rank[hot] = np.arange(hot.size)
    ranks = rank[ids] if ids.size else np.empty(0, np.int64)
    positions = np.flatnonzero(ranks >= 0)
    positions = positions[np.argsort(ranks[positions], kind="stable")]
    turns = np.empty(ids.size, np.int64)
    planned_routing.turn_of(0, turns)
    by_key = np.split(positions, np.cumsum(batch.counts[hot])[:-1]) if head else []
    cuts = []
    for key, own in zip(head, by_key, strict=True):
        ends = np.cumsum(key.weights)[:-1]
        mine = turns[own]
        if weights is None:
            cut = np.partition(mine, ends)[ends] if ends.size else ends
        else:  # where the sum of the weights, in order of turns, comes closest to what the piece is to get
            order = np.argsort(mine)
            weighed = weights[own[order]]
            after = np.searchsorted(np.cumsum(weighed) - weighed / 2, ends)
            cut = mine[order][np.minimum(after, mine.size - 1)]
        cuts.append([*cut.tolist(), planned_routing.TURNS])
    return cuts
