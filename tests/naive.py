"""Oracles: every rule of the core in plain Python, slow and obvious. Nothing here calls a kernel.

What a test compares with these functions must be equal, not similar. A rule that changes is changed here too, and
nothing else is: no trick, no cache, no array where a list will do.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


# Mixing: 64 bits in, 64 bits out, a worker.


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def salt_of(seed: int) -> int:
    return mix((seed + GOLDEN) & MASK)


def first_turn(seed: int, source: int, workers: int) -> int:
    """Where the sender of this source starts to go round."""
    return mix(((salt_of(seed) ^ mix((source + 1 + GOLDEN) & MASK)) + GOLDEN) & MASK) % workers


def candidate(key: int, seed: int, number: int, workers: int) -> int:
    mixed = mix((((key & MASK) ^ salt_of(seed)) + number * GOLDEN) & MASK)
    return ((mixed >> 32) * workers) >> 32


def candidates(key: int, seed: int, choices: int, workers: int) -> list[int]:
    return [candidate(key, seed, number, workers) for number in range(choices)]


def slots_for(capacities: Sequence[float]) -> list[int]:
    """The workers as candidates are drawn: equal ones once each, others in proportion to their capacity."""
    workers = len(capacities)
    if len(set(capacities)) == 1:
        return list(range(workers))
    exact = [capacity * 63 for capacity in capacities]
    many = [1 + math.floor(share) for share in exact]
    by_remainder = sorted(range(workers), key=lambda worker: math.floor(exact[worker]) - exact[worker])
    for worker in by_remainder[: 64 * workers - sum(many)]:
        many[worker] += 1
    return [worker for worker in range(workers) for _ in range(many[worker])]


def least_loaded(loads: Sequence[float], among: Iterable[int], start: int) -> int:
    """The least loaded worker; among equals the first at or after `start`, going round."""
    return min(among, key=lambda worker: (loads[worker], (worker - start) % len(loads)))


# The number of choices, straight from the formula.


def expected_workers(workers: int, draws: float) -> float:
    return workers - workers * ((workers - 1) / workers) ** draws


def every_prefix_fits(head: Sequence[float], choices: int, workers: int, tolerance: float) -> bool:
    head = sorted(head, reverse=True)
    tail = max(0.0, 1 - math.fsum(head))
    for h in range(1, len(head) + 1):
        b = expected_workers(workers, h * choices)
        load = math.fsum(head[:h]) + (b / workers) ** choices * math.fsum(head[h:]) + (b / workers) ** 2 * tail
        if load > b * (1 / workers + tolerance):
            return False
    return True


def find_choices(head: Sequence[float], workers: int, tolerance: float = 1e-4) -> int:
    if workers == 1:
        return 1
    if not len(head):
        return 2
    choices = max(2, math.ceil(max(head) * workers - 1e-9))  # 0.07 * 100 is 7, not 7.000000000000001
    while choices < workers and not every_prefix_fits(head, choices, workers, tolerance):
        choices += 1
    return min(choices, workers)


def halvings_for(counts: object, mark: object) -> int:
    """How often to halve what was counted until `mark`: as often as what came after it is not what it foretold."""
    unit = counts.unit
    recent_total = counts.total - mark.total
    if not mark.total:
        return 0
    new = 0.0
    for past, recent in zip(*counts.since(mark), strict=True):
        foretold = past * (recent_total / mark.total)
        if recent - foretold > 8 * unit + 4 * math.sqrt(foretold * unit):
            new += recent - foretold
    if not new:
        return 0
    change = new / recent_total
    most = max(unit, 0.25 * recent_total * (1 - change) / change)
    halvings = 0
    while mark.total / 2**halvings > most:
        halvings += 1
    return halvings


# One sender.


class Mark(NamedTuple):
    total: int
    counts: Counter[int]


class ExactCounts:
    """Counts of every key in a dict, with the interface of SpaceSaving, which is exact while it has free counters."""

    def __init__(self) -> None:
        self.total = self.messages = 0
        self._counts: Counter[int] = Counter()

    @property
    def unit(self) -> float:
        return self.total / self.messages if self.messages else 1.0

    def offer(self, key: int, weight: int = 1) -> None:
        self.total += weight
        self.messages += 1
        self._counts[key] += weight

    def bounds(self, key: int) -> tuple[int, int]:
        return self._counts[key], self._counts[key]

    def counts(self) -> list[int]:
        return sorted(self._counts.values(), reverse=True)

    def top(self, k: int) -> list[tuple[int, int, int]]:
        return [(key, count, count) for key, count in self._counts.most_common(k)]

    def mark(self) -> "Mark":
        return Mark(self.total, Counter(self._counts))

    def since(self, mark: "Mark") -> tuple[list[int], list[int]]:
        past = [mark.counts[key] for key in self._counts]
        return past, [count - mark.counts[key] for key, count in self._counts.items()]

    def fade_until(self, mark: "Mark", halvings: int) -> None:
        unit = self.unit
        self.total = (mark.total >> halvings) + self.total - mark.total
        self.messages = max(1, round(self.total / unit))
        left = {key: count - mark.counts[key] + (mark.counts[key] >> halvings) for key, count in self._counts.items()}
        self._counts = Counter({key: count for key, count in left.items() if count})

    def fade(self) -> None:
        self.total, self.messages = (self.total + 1) // 2, (self.messages + 1) // 2
        self._counts = Counter({key: count // 2 for key, count in self._counts.items() if count > 1})


class Sender:
    """The rules of a sender, one message at a time.

    Which of several least counters SpaceSaving gives away depends on its queue, and an oracle cannot know that. So
    `counts` is either ExactCounts, for streams with no more keys than counters, or a real SpaceSaving that is
    offered one message at a time and whose bounds are tested elsewhere.
    """

    def __init__(
        self,
        scheme: str,
        workers: int,
        counts: object,
        *,
        source: int = 0,
        seed: int = 0,
        threshold: float | None = None,
        tolerance: float = 1e-4,
        choices: int | None = None,
        half_life: int | str | None = None,
        capacities: Sequence[float] | None = None,
    ) -> None:
        given = capacities or [1] * workers
        self.capacities = [one / (math.fsum(given) / workers) for one in given]
        self.slots = slots_for(self.capacities)
        self.scheme, self.workers, self.seed, self.tolerance = scheme, workers, seed, tolerance
        self.threshold = 1 / (5 * workers) if threshold is None else threshold
        self.given_choices, self.half_life, self.counts = choices, half_life, counts
        self.loads = [0] * workers
        self.messages = 0
        self.turn_of_ties = self.turn_of_robin = first_turn(seed, source, workers)
        self.margin, self.unit = 0.0, 1.0
        self.review_at = 0
        self.shares: list[float] = []
        self.lists: dict[int, list[int]] = {}
        self.mark: object = None
        self.choices = self.choices_for([])

    def route(self, hashes: Sequence[int], weights: Sequence[int] | None = None) -> list[int]:
        weights = [1] * len(hashes) if weights is None else weights
        return [self.route_one(int(h), int(weight)) for h, weight in zip(hashes, weights, strict=True)]

    def candidates(self, key: int, choices: int) -> list[int]:
        return [self.slots[candidate(key, self.seed, number, len(self.slots))] for number in range(choices)]

    def first_distinct(self, key: int, size: float) -> list[int]:
        """The first workers of a key, in the order they are drawn, that hold what `size` mean ones do.

        Everyone, if that takes 4n draws.
        """
        chosen: dict[int, None] = {}
        held = 0.0
        for worker in self.candidates(key, 4 * self.workers - 1):
            if held >= size - 1e-9:
                break
            if worker not in chosen:
                chosen[worker] = None
                held += self.capacities[worker]
        return list(chosen) if held >= size - 1e-9 else list(range(self.workers))

    def size(self, workers: Iterable[int]) -> float:
        return sum(self.capacities[worker] for worker in workers)

    @property
    def burdens(self) -> list[float]:
        """Load per capacity."""
        return [load * (1 / capacity) for load, capacity in zip(self.loads, self.capacities, strict=True)]

    def route_one(self, key: int, weight: int = 1) -> int:
        if self.half_life == "auto":
            self.look_back()
        elif self.half_life and self.messages and self.messages % self.half_life == 0:
            self.loads = [load // 2 for load in self.loads]
            self.counts.fade()
        start = (self.turn_of_ties + self.messages) % self.workers
        worker = self.worker_for(key, weight, start)
        self.loads[worker] += weight
        self.messages += 1
        return worker

    def look_back(self) -> None:
        """At the end of an epoch old counts lose weight, by as much as the hot keys have changed; loads do not."""
        epoch = max(512, math.ceil(1 / self.threshold))
        if self.messages == 0 or self.messages % epoch or self.scheme in ("key", "shuffle", "partial-key"):
            return
        halvings = 0 if self.mark is None else halvings_for(self.counts, self.mark)
        if halvings:
            self.counts.fade_until(self.mark, halvings)
            self.review_at = self.messages
        self.mark = self.counts.mark()

    def worker_for(self, key: int, weight: int, start: int) -> int:
        if self.scheme == "key":
            return self.candidates(key, 1)[0]
        if self.scheme == "shuffle":
            return self.next_in_turn()
        two, burdens = self.candidates(key, 2), self.burdens
        if self.scheme == "per-key":
            if self.is_hot(key, weight) and key in self.lists:
                return least_loaded(burdens, self.lists[key], start)
            return two[1] if burdens[two[0]] - burdens[two[1]] > 2 * self.unit else two[0]
        if self.scheme == "partial-key" or not self.is_hot(key, weight):
            return least_loaded(burdens, two, start)
        if self.scheme == "round-robin":
            return self.next_in_turn()
        if self.scheme == "w-choices" or self.choices >= self.workers:
            return least_loaded(burdens, range(self.workers), start)
        return least_loaded(burdens, self.candidates(key, self.choices), start)

    def next_in_turn(self) -> int:
        worker = self.turn_of_robin
        self.turn_of_robin = (worker + 1) % self.workers
        return worker

    def is_hot(self, key: int, weight: int) -> bool:
        if self.messages >= self.review_at:
            self.review()
        self.counts.offer(key, weight)
        return self.counts.bounds(key)[1] >= self.threshold * self.counts.total + self.margin * self.counts.unit

    def review(self) -> None:
        """Margin and choices change only here: after 64 messages, then after a sixteenth of what was counted."""
        total, self.unit = self.counts.total, self.counts.unit
        counted = round(total / self.unit)
        self.review_at = self.messages + max(64, counted // 16)
        self.margin = 2 + math.sqrt(self.threshold * counted)
        if self.scheme == "per-key":
            self.size_lists()
            return
        least_count = self.threshold * total + self.margin * self.unit
        shares = [count / total for count in self.counts.counts() if count >= least_count]
        longer = max(len(shares), len(self.shares))
        now, before = shares + [0.0] * (longer - len(shares)), list(self.shares) + [0.0] * (longer - len(self.shares))
        if math.fsum(abs(a - b) for a, b in zip(now, before, strict=True)) >= 1 / 256:
            self.shares = shares
            self.choices = self.choices_for(shares)

    def size_lists(self) -> None:
        """Every hot key's own list of workers: as long as its share needs, longer where the loads ask for it."""
        n, total = self.workers, max(1, self.counts.total)
        least_count = self.threshold * self.counts.total + self.margin * self.unit
        hot = [(key, count) for key, _, count in self.counts.top(10**9) if count >= least_count]
        hot.sort(key=lambda item: (-item[1], item[0] & MASK))
        known, burdens = total / self.unit, self.burdens
        forgotten = 1 - known / max(known, self.messages)
        mean = sum(self.loads) / n
        too_much = mean + self.tolerance * sum(self.loads) + 0.75 * math.sqrt(mean * self.unit)
        head, lengths, one_is_longer = 0.0, {}, False
        for key, count in hot:
            share = (count - math.sqrt(count * self.unit)) / total
            wanted = 1.25 * (1 + 5 * forgotten) * share * n + 5 * forgotten
            length = min(n, math.ceil(wanted - 1e-9) + 1)
            had = self.lists.get(key, [])
            size = self.size(sorted(had))
            if length <= size <= 2 * length:
                length = size
            if length == size and min(burdens[w] for w in had) > too_much and not one_is_longer:
                length = min(n, length + max(1, length // 8))
                one_is_longer = True
            if length > min(2, n):
                lengths[key] = length
                head += share
        needed = max(min(n, math.ceil(head / max(1 - head, 1e-9) * n - 1e-9)), math.ceil(forgotten * n))
        self.lists = {key: self.first_distinct(key, length) for key, length in lengths.items()}
        if lengths:  # whom nobody else has, the hottest takes in
            hottest = next(iter(lengths))
            others = {worker for key, workers in self.lists.items() if key != hottest for worker in workers}
            while self.size(others | set(self.lists[hottest])) < needed - 1e-9 and len(self.lists[hottest]) < n:
                longer = self.size(self.lists[hottest]) + 1e-6  # one more worker
                self.lists[hottest] = self.first_distinct(hottest, longer)
        self.choices = max([math.ceil(self.size(workers)) for workers in self.lists.values()], default=min(2, n))

    def choices_for(self, shares: Sequence[float]) -> int:
        if self.scheme == "greedy":
            return min(self.given_choices, self.workers)
        if self.scheme == "d-choices":
            return find_choices(shares, self.workers, self.tolerance)
        return {"key": 1, "partial-key": min(2, self.workers), "per-key": min(2, self.workers)}.get(
            self.scheme, self.workers
        )


# Metrics.


def imbalance(assignment: Sequence[int], workers: int) -> float:
    if not len(assignment):
        return 0.0
    return max(Counter(assignment).values()) / len(assignment) - 1 / workers


def replicas(keys: Sequence[int], assignment: Sequence[int]) -> int:
    return len(set(zip(keys, assignment, strict=True)))


def hot_keys(keys: Sequence[int], threshold: float) -> dict[int, int]:
    return {key: count for key, count in Counter(keys).items() if count / len(keys) >= threshold}


def workers_of_keys(keys: Sequence[int], assignment: Sequence[int]) -> dict[int, set[int]]:
    sets: dict[int, set[int]] = {}
    for key, worker in zip(keys, assignment, strict=True):
        sets.setdefault(key, set()).add(worker)
    return sets


# Routing by a plan.

SLOTS = 2**31


def scatter(x: int) -> int:
    return ((x ^ (x >> 32)) % SLOTS) * 1327217885 % SLOTS


def bucket_of(key: int, buckets: int) -> int:
    return scatter(key) * buckets // SLOTS


def route_by_plan(plan: object, hashes: Iterable[int], start: int = 0) -> list[int]:
    hot = {key.hash: key for key in plan.head}
    routed = []
    for position, key in enumerate((int(h) for h in hashes), start):
        if key in hot:
            slot = scatter(position)
            piece = next(i for i, end in enumerate(hot[key].ends) if slot < end)
            routed.append(hot[key].workers[piece])
        else:
            routed.append(int(plan.buckets[bucket_of(key, len(plan.buckets))]))
    return routed
