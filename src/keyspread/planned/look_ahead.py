"""Look ahead: a sender reads its part of a batch before it deals it, and plans it around a table common to all senders.

A batch of a stream is a stage of its own: it ends when its slowest worker does, so every batch has to be even. A
sender that knows its whole part fills all workers to the same height, and what every sender does is even in sum. All
plan around one common plan, which is made from what all of them saw in the batch before, so that a key stays on
the same workers from sender to sender and from batch to batch as far as balance allows.

    batch b:  memories of batch b-1  →  common plan  →  each sender plans its part close to it  →  memories of batch b

Everything follows from the memories of the batch before and from the rows: a batch that is dealt again is dealt alike.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from keyspread import checks
from keyspread.errors import SnapshotError
from keyspread.planned.packing import Aim, Counts, place
from keyspread.planned.plan import Plan, buckets_of
from keyspread.planned.planner import bucket_count, plan_counted
from keyspread.threshold import checked_threshold, least_hot_count

_MAGIC = b"KSLA"
_VERSION = 1


@dataclass(frozen=True)
class Memory:
    """What a sender leaves to the next batch: the common plan it dealt by, and what it counted."""

    common: Plan
    counts: Counts

    def to_bytes(self) -> bytes:
        """Give it as bytes that know when they were damaged."""
        content = {
            "version": _VERSION,
            "common": self.common.to_json(),
            "buckets": self.counts.buckets.tolist(),
            "hot": self.counts.hot,
        }
        body = zlib.compress(json.dumps(content).encode(), 1)
        return _MAGIC + xxhash.xxh64_digest(body) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Memory":
        """Read it back; anything else is a SnapshotError."""
        body = data[12:]
        if data[:4] != _MAGIC or xxhash.xxh64_digest(body) != data[4:12]:
            raise SnapshotError("not a memory of a sender, or damaged")
        content = json.loads(zlib.decompress(body))
        if content["version"] != _VERSION:
            raise SnapshotError(f"a memory of version {content['version']}, this keyspread reads {_VERSION}")
        buckets = np.array(content["buckets"], np.int64)
        hot = tuple((int(key), int(messages)) for key, messages in content["hot"])
        return cls(Plan.from_json(content["common"]), Counts(buckets, hot))


def common_plan(
    memories: Iterable[Memory],
    workers: int,
    threshold: float | None = None,
    capacities: Sequence[float] | None = None,
) -> Plan:
    """Plan the next batch as if it were the last one, close to the plan of that; without a past, by bucket alone.

    The senders of the last batch may have been more or fewer than there are now, and so may its workers.
    """
    workers = checks.whole_number("workers", workers)
    threshold = checked_threshold(threshold, workers)
    known = list(memories)
    previous = known[0].common if known else None
    buckets = bucket_count(workers, previous, None)
    tail, hot = np.zeros(buckets, np.int64), dict[int, int]()
    for memory in known:
        if memory.counts.buckets.size == buckets:
            tail += memory.counts.buckets
        for key, messages in memory.counts.hot:
            hot[key] = hot.get(key, 0) + messages
    least = least_hot_count(threshold, int(tail.sum()) + sum(hot.values()))
    for key in [key for key, messages in hot.items() if messages < least]:
        tail[buckets_of(np.array([key], np.int64), buckets)] += hot.pop(key)
    ordered = sorted(hot.items(), key=lambda one: (-one[1], one[0]))
    return place(Counts(tail, tuple(ordered)), Aim.of(workers, capacities, 0.0, None), previous)


def deal(
    hashes: npt.NDArray[Any],
    common: Plan,
    *,
    source: int = 0,
    threshold: float | None = None,
    weights: npt.NDArray[Any] | None = None,
) -> tuple[npt.NDArray[np.int32], Memory]:
    """Give the worker of every message of a sender's part of a batch, and what to remember.

    No worker gets more than the sender's messages / n, rounded up, as far as buckets of tail keys can be packed.

    >>> part = np.repeat([1, 2, 3, 4], [70, 10, 10, 10])
    >>> workers, memory = deal(part, common_plan([], workers=4), source=2)
    >>> np.bincount(workers).tolist()
    [25, 25, 25, 25]
    """
    keys = checks.hashes(hashes)
    workers = common.workers
    threshold = checked_threshold(threshold, workers)
    turn = _turn(checks.whole_number("source", source, minimum=0, maximum=2**62), workers)
    weighed = None if weights is None else checks.weights(weights, keys.size)
    aim = Aim(workers, common.capacities)
    made, counts = plan_counted(keys, aim, common, threshold, common.buckets.size, turn, weighed)
    return made.route(keys), Memory(common, counts)


def _turn(source: int, workers: int) -> int:
    """Give where a sender begins, so that its surplus message goes to other workers than the next one's."""
    return source * 7919 % workers


def workers_of(keys: Iterable[int], memories: Mapping[int, Memory]) -> dict[int, int]:
    """Give how many workers had each of these hot keys in the batch that senders (source -> memory) remember.

    A sender's plan follows from its memory. Where it did not hold a key for hot, the key went by its bucket.
    """
    wanted = list(keys)
    found: dict[int, set[int]] = {key: set() for key in wanted}
    for source, memory in memories.items():
        workers, counted = memory.common.workers, memory.counts.buckets
        aim = Aim(workers, memory.common.capacities)
        made = place(memory.counts, aim, memory.common, _turn(source, workers))
        split = {hot.hash: hot.workers for hot in made.head}
        buckets = buckets_of(np.array(wanted, np.int64), counted.size).tolist()
        for key, bucket in zip(wanted, buckets, strict=True):
            if key in split:
                found[key].update(split[key])
            elif counted[bucket]:
                found[key].add(int(made.buckets[bucket]))
    return {key: len(had) for key, had in found.items()}
