"""`plan`: count a batch, then decide which worker gets what.

    count (bucket loads and hot keys)
    → place (assign them to workers, as close to the previous plan as balance allows)
    → route (`Plan.route`, or Spark SQL)

A plan has one entry per bucket and a few per hot key, however many keys there are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import checked_threshold, least_hot_count
from keyspread.errors import InputError
from keyspread.kernels import planned_routing
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import Head, Plan, buckets_of
from keyspread.streams.encoded import Encoded

BUCKETS_PER_WORKER = 64


def plan(
    hashes: npt.NDArray[Any],
    workers: int,
    *,
    previous: Plan | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
    weights: npt.NDArray[Any] | None = None,
    slack: float = 0.0,
    most_moved: float | None = None,
) -> Plan:
    """Plan this batch: no worker gets more than its share rounded up, as far as buckets of tail keys can be packed.

    A tail key has one worker. A hot key (share >= `threshold`, by default 1/(5n)) is cut by position into pieces
    that fill the remaining room. The pieces are exact if the same batch is then routed from start=0. With a
    `previous` plan, buckets and hot keys keep their workers as far as balance allows. An imbalance of `slack` is
    allowed for that, and more if otherwise a share of more than `most_moved` of the messages would have to move.

    With `weights` (one whole number per message, such as bytes or microseconds of work) the load of a worker is their
    sum.

    Args:
        hashes: The hash of every message, as `hash_keys` returns it.
        workers: The number of workers.
        previous: A plan to stay close to.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        buckets: The number of hash buckets, by default 64 per worker.
        weights: The weight of every message, by default 1.
        slack: The imbalance that is allowed to move fewer keys.
        most_moved: The largest share of the messages that should move to another worker than in `previous`.

    Returns:
        The plan; `Plan.route` assigns messages.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> batch = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> table = plan(batch, workers=4)
    >>> np.bincount(table.route(batch)).tolist()
    [25, 25, 25, 25]
    """
    keys = checks.hashes(hashes)
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    aim = Aim.of(workers, slack, most_moved)
    count = bucket_count(workers, previous, buckets)
    checked_weights = None if weights is None else checks.weights(weights, keys.size)
    return plan_unchecked(keys, aim, previous, threshold, count, weights=checked_weights)


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
    return placed.with_ends(_exact_ends(placed.pieces, hot, batch, weights))


def bucket_count(workers: int, previous: Plan | None, buckets: int | None) -> int:
    """Return the number of buckets: as given, or that of the previous plan if it is large enough, or 64 per worker."""
    if previous is not None and not isinstance(previous, Plan):
        raise InputError(f"previous must be a Plan, got {type(previous).__name__}; Plan.from_json reads a stored one")
    if buckets is not None:
        return checks.whole_number("buckets", buckets, minimum=workers)
    if previous is not None and 2 * previous.buckets.size >= BUCKETS_PER_WORKER * workers:
        return previous.buckets.size
    return BUCKETS_PER_WORKER * workers


def cut_by_cells(plan: Plan, cells: Mapping[int, npt.NDArray[np.int64]]) -> Plan:
    """Return the plan with hot keys cut by where their messages lie: counts of them in equal cells of slots.

    The positions of a key are not spread perfectly evenly over the slots. If cut by weight alone, a piece of m
    messages is off by about sqrt(m); if cut by these counts, by the root of the messages in one cell.
    """
    head = plan.pieces
    counted = [cells[key] for key in head.hashes.tolist()]
    first_cell = np.cumsum([0, *map(len, counted)])
    ends = np.empty_like(head.ends)
    counts = np.concatenate([np.empty(0, np.int64), *counted])
    planned_routing.cut_by_cells(head.first, head.weights, first_cell, counts, ends)
    return plan.with_ends(ends)


def _exact_ends(
    head: Head, hot: npt.NDArray[np.intp], batch: Encoded, weights: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """Return the slots where the pieces of hot keys end, so that each piece gets exactly its messages.

    The key at `hot[k]` of the batch is the hot key k. With weights, a piece ends at the message that comes closest.
    """
    ends = np.full_like(head.ends, planned_routing.SLOTS)
    cut = np.flatnonzero(head.sizes > 1)  # a key with one piece needs no cut
    rank = np.full(batch.hashes.size, -1, np.int64)
    rank[hot[cut]] = np.arange(cut.size)
    ranks = rank[batch.ids]
    positions = np.flatnonzero(ranks >= 0)
    slots = np.empty(batch.ids.size, np.int64)
    planned_routing.slot_of(0, slots)
    by_key_and_slot = (ranks[positions] << planned_routing.SLOT_BITS) + slots[positions]
    first_message = np.concatenate([[0], np.cumsum(batch.counts[hot[cut]])])
    pieces = np.flatnonzero(np.repeat(head.sizes > 1, head.sizes))
    first, of_pieces, cut_ends = np.concatenate([[0], np.cumsum(head.sizes[cut])]), head.weights[pieces], ends[pieces]
    if weights is None:
        by_key_and_slot.sort()
        in_order = by_key_and_slot & (planned_routing.SLOTS - 1)
        planned_routing.cut_by_messages(first, of_pieces, first_message, in_order, cut_ends)
    else:
        order = np.argsort(by_key_and_slot)
        in_order = by_key_and_slot[order] & (planned_routing.SLOTS - 1)
        of_messages = weights[positions[order]]
        planned_routing.cut_by_message_weights(first, of_pieces, first_message, in_order, of_messages, cut_ends)
    ends[pieces] = cut_ends
    return ends
