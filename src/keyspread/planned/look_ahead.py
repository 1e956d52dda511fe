"""Look-ahead: a sender reads its whole part of a batch, plans it, then routes it.

A micro-batch of a stream is a stage of its own. It ends when its slowest worker does, so every batch has to be
balanced. A sender that knows its whole part loads all workers equally, and the sum over the senders is balanced too.

Every sender plans around the same table: bucket b of the key's hash belongs to worker b mod n. So a key mostly has
the same worker at every sender and in every batch, as far as balance allows. The table depends on nothing else, and a
sender keeps nothing between batches: a batch that is retried is routed the same.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.planned.packing import Aim
from keyspread.planned.plan import Plan, buckets_of
from keyspread.planned.planner import BUCKETS_PER_WORKER, plan_unchecked


def route(
    hashes: npt.NDArray[Any],
    workers: int,
    *,
    source: int = 0,
    threshold: float | None = None,
    weights: npt.NDArray[Any] | None = None,
) -> npt.NDArray[np.int32]:
    """Return the worker of every message in one sender's part of a batch.

    No worker gets more than the sender's messages / n, rounded up, as far as buckets of tail keys can be packed.

    >>> part = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> np.bincount(route(part, workers=4, source=2)).tolist()
    [25, 25, 25, 25]
    """
    return plan_part(hashes, workers, source=source, threshold=threshold, weights=weights).route(hashes)


def plan_part(
    hashes: npt.NDArray[Any],
    workers: int,
    *,
    source: int = 0,
    threshold: float | None = None,
    weights: npt.NDArray[Any] | None = None,
) -> Plan:
    """Return the plan by which one sender routes its part of a batch."""
    keys = checks.hashes(hashes)
    aim = Aim.of(workers, slack=0.0, most_moved=None)
    threshold = checked_threshold(threshold, aim.workers)
    source = checks.whole_number("source", source, minimum=0, maximum=2**62)
    checked_weights = None if weights is None else checks.weights(weights, keys.size)
    table, first = _common_table(aim.workers), _first_worker(source, aim.workers)
    return plan_unchecked(keys, aim, table, threshold, table.buckets.size, first, checked_weights)


def _common_table(workers: int) -> Plan:
    """Return the plan that all senders plan around: buckets only."""
    owners = np.arange(BUCKETS_PER_WORKER * workers, dtype=np.int32) % np.int32(workers)
    return Plan(workers, owners, (), np.zeros(workers, np.int64))


def _first_worker(source: int, workers: int) -> int:
    """Return the worker at which a sender starts, so that the surplus messages of different senders spread out.

    The starts of the sources 0, 1, 2, … are evenly spread over the workers, for any number of workers.
    """
    return int(buckets_of(np.array([source], np.int64), workers)[0])
