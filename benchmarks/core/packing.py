"""The time of a plan after counting, at n = 10,000, with and without a bound on the messages that move.

Bars: 0.1 s to place counted buckets and hot keys, 1 s with `most_moved`, which places them up to 26 times. The plain
loop is the same rule with a heap in Python. It does less: it knows no previous plan. Times are CPU
time: a plan uses one thread, and other processes then matter less.

    ./dev bench packing [WORKERS] [REPEAT]
"""

import heapq
import time
from collections.abc import Callable

import numpy as np

from keyspread.checks import checked_threshold, least_hot_count
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import Plan, buckets_of
from keyspread.planned.planner import BUCKETS_PER_WORKER
from keyspread.streams.encoded import Encoded
from keyspread.streams.generated import zipf

from common import numbers, show, side_by_side, verdict


def count(skew: float, workers: int, seed: int) -> Counts:
    """Count a batch with 1,000 messages per worker."""
    batch = Encoded.of(zipf(skew, 1_000_000, 1000 * workers, seed=seed))
    hot = np.flatnonzero(batch.counts >= least_hot_count(checked_threshold(None, workers), batch.messages))
    hot = hot[np.lexsort((batch.hashes[hot], -batch.counts[hot]))]
    tail = batch.counts.copy()
    tail[hot] = 0
    buckets = BUCKETS_PER_WORKER * workers
    loads = np.bincount(buckets_of(batch.hashes, buckets), weights=tail, minlength=buckets).astype(np.int64)
    return Counts(loads, tuple(zip(batch.hashes[hot].tolist(), batch.counts[hot].tolist(), strict=True)))


def plain_loop(counts: Counts, workers: int) -> list[int]:
    """Return the loads: each bucket to the least loaded worker, largest first, then hot keys into the room left."""
    sizes = counts.buckets.tolist()
    heap = [(0, worker) for worker in range(workers)]
    for bucket in sorted(np.flatnonzero(counts.buckets).tolist(), key=lambda bucket: -sizes[bucket]):
        load, worker = heap[0]
        heapq.heapreplace(heap, (load + sizes[bucket], worker))
    even = -(-counts.total // workers)
    full = []
    for _, messages in counts.hot:
        left = messages
        while left:
            load, worker = heapq.heappop(heap)
            amount = min(left, even - load)
            left -= max(0, amount)
            if load + amount < even:
                heapq.heappush(heap, (load + amount, worker))
            else:
                full.append((max(load, even), worker))
    return [load for load, _ in sorted([*heap, *full], key=lambda one: one[1])]


def placing(workers: int, repeat: int) -> None:
    """Time a plan, one next to a previous plan, and one with a bound on what moves."""
    rows = []
    for skew in (0.5, 1.0, 1.4):
        old, counts = count(skew, workers, seed=1), count(skew, workers, seed=2)
        before = place(old, Aim(workers))
        assert place(counts, Aim(workers)).loads.tolist() == plain_loop(counts, workers)
        runs: dict[str, Callable[[], Plan | list[int]]] = {
            "plain loop": lambda counts=counts: plain_loop(counts, workers),
            "place": lambda counts=counts: place(counts, Aim(workers)),
            "again": lambda counts=counts, before=before: place(counts, Aim(workers), before),
            "bounded": lambda counts=counts, before=before: place(counts, Aim(workers, most_moved=0.0), before),
        }
        took = side_by_side(runs, repeat, clock=time.process_time)
        ratio = took["plain loop"] / took["place"]
        cells = (f"{took[name]:.3f} s" for name in runs)
        bars = (verdict(max(took["place"], took["again"]) <= 0.1), verdict(took["bounded"] <= 1.0))
        rows.append((skew, len(counts.hot), *cells, f"{ratio:.1f} x", *bars))
    columns = ("skew", "hot keys", "plain loop", "plan", "with a previous", "most moved 0", "loop / plan", "", "")
    show(f"Placing counted messages, n = {workers:,}", columns, rows)


if __name__ == "__main__":
    workers, repeat = numbers(workers=10_000, repeat=3)
    placing(workers, repeat)
