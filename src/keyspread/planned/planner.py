"""`plan`: count a batch, then decide which worker gets what.

    count (bucket loads and hot keys)
    → place (assign them to workers, as close to the previous plan as balance allows)
    → route (`Plan.route`, or Spark SQL)

A plan has one entry per bucket and a few per hot key, however many keys there are.
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
    that fill the remaining room. The pieces are exact if the same batch is then routed from start=0. With a
    `previous` plan, buckets and hot keys keep their workers as far as balance allows. An imbalance of `tolerance` is
    allowed for that, and more if otherwise a share of more than `most_moved` of the messages would have to move.

    With `weights` (one whole number per message, such as bytes or microseconds of work) the load of a worker is their
    sum. With `capacities` (one number per worker) each worker gets its share in proportion to them.

    >>> batch = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> table = plan(batch, workers=4)
    >>> np.bincount(table.route(batch)).tolist()
    [25, 25, 25, 25]
    """
    keys = checks.hashes(hashes)
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    aim = Aim.of(workers, capacities, tolerance, most_moved)
    count = bucket_count(workers, previous, buckets)
    whole = None if weights is None else checks.weights(weights, keys.size)
    return plan_unchecked(keys, aim, previous, threshold, count, weights=whole)


def plan_unchecked(
    keys: npt.NDArray[np.int64],
    aim: Aim,
    previous: Plan | None,
    threshold: float,
    buckets: int,
    first_worker: int = 0,
    weights: npt.NDArray[np.int64] | None = None,
) -> Plan:
    """Plan a batch without checking the arguments; `first_worker` is that of `place`."""
    batch = Encoded.of(keys)
    distinct, messages = batch.hashes, batch.weighed(weights)
    hot = np.flatnonzero((messages >= least_hot_count(threshold, int(messages.sum()))) & (messages > 0))
    hot = hot[np.lexsort((distinct[hot], -messages[hot]))]
    tail = messages.copy()
    tail[hot] = 0
    bucket_loads = np.bincount(buckets_of(distinct, buckets), weights=tail, minlength=buckets).astype(np.int64)
    counts = Counts(bucket_loads, tuple(zip(distinct[hot].tolist(), messages[hot].tolist(), strict=True)))
    placed = place(counts, aim, previous, first_worker)
    return placed.with_cuts(_exact_cuts(placed.head, hot, batch, weights))


def bucket_count(workers: int, previous: Plan | None, buckets: int | None) -> int:
    """Return the number of buckets: as given, or that of the previous plan if it is large enough, or 64 per worker."""
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a Plan, got {type(previous).__name__}; Plan.from_json reads a stored one")
    if buckets is not None:
        return checks.whole_number("buckets", buckets, minimum=workers)
    if previous is not None and 2 * previous.buckets.size >= BUCKETS_PER_WORKER * workers:
        return previous.buckets.size
    return BUCKETS_PER_WORKER * workers


def cut_by_cells(plan: Plan, cells: dict[int, npt.NDArray[np.int64]]) -> Plan:
    """Return the plan with hot keys cut by where their messages lie: counts of them in equal cells of slots.

    The positions of a key are not spread perfectly evenly over the slots. If cut by weight alone, a piece of m
    messages is off by about sqrt(m); if cut by these counts, by the root of the messages in one cell.
    """
    cuts = []
    for key in plan.head:
        counted = np.concatenate([[0], np.cumsum(cells[key.hash])])
        edges = np.linspace(0, planned_routing.SLOTS, counted.size)
        wanted = np.cumsum(key.weights)[:-1] * (counted[-1] / key.messages)
        cuts.append([*np.interp(wanted, counted, edges).astype(np.int64).tolist(), planned_routing.SLOTS])
    return plan.with_cuts(cuts)


def _exact_cuts(
    head: tuple[HotKey, ...], hot: npt.NDArray[np.intp], batch: Encoded, weights: npt.NDArray[np.int64] | None
) -> list[list[int]]:
    """Return, for each hot key, the slots where its pieces end, so that each piece gets exactly its messages."""
    ids = batch.ids
    rank = np.full(batch.hashes.size, -1, np.int64)
    rank[hot] = np.arange(hot.size)
    ranks = rank[ids] if ids.size else np.empty(0, np.int64)
    positions = np.flatnonzero(ranks >= 0)
    positions = positions[np.argsort(ranks[positions], kind="stable")]
    slots = np.empty(ids.size, np.int64)
    planned_routing.slot_of(0, slots)
    by_key = np.split(positions, np.cumsum(batch.counts[hot])[:-1]) if head else []
    cuts = []
    for key, key_positions in zip(head, by_key, strict=True):
        ends = np.cumsum(key.weights)[:-1]
        key_slots = slots[key_positions]
        if weights is None:
            cut = np.partition(key_slots, ends)[ends] if ends.size else ends
        else:  # cut where the sum of the weights, in order of slots, comes closest to the weight of the piece
            order = np.argsort(key_slots)
            in_order = weights[key_positions[order]]
            after = np.searchsorted(np.cumsum(in_order) - in_order / 2, ends)
            cut = key_slots[order][np.minimum(after, key_slots.size - 1)]
        cuts.append([*cut.tolist(), planned_routing.SLOTS])
    return cuts
