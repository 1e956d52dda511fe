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


def first_distinct(key: int, seed: int, length: int, workers: int) -> list[int]:
    """The first workers of a key in the order they are drawn, without repetition; everyone if that takes 4n draws."""
    drawn = list(dict.fromkeys(candidates(key, seed, 4 * workers - 1, workers)))
    return drawn[:length] if length <= len(drawn) else list(range(workers))


def least_loaded(loads: Sequence[int], among: Iterable[int], start: int) -> int:
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
    recent_total = counts.total - mark.total
    if not mark.total:
        return 0
    new = 0.0
    for past, recent in zip(*counts.since(mark), strict=True):
        foretold = past * (recent_total / mark.total)
        if recent - foretold > 4 * math.sqrt(foretold) + 8:
            new += recent - foretold
    if not new:
        return 0
    change = new / recent_total
    most = max(1.0, 0.25 * recent_total * (1 - change) / change)
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
        self.total = 0
        self._counts: Counter[int] = Counter()

    def offer(self, key: int) -> None:
        self.total += 1
        self._counts[key] += 1

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
        self.total = (mark.total >> halvings) + self.total - mark.total
        left = {key: count - mark.counts[key] + (mark.counts[key] >> halvings) for key, count in self._counts.items()}
        self._counts = Counter({key: count for key, count in left.items() if count})

    def fade(self) -> None:
        self.total = (self.total + 1) // 2
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
    ) -> None:
        self.scheme, self.workers, self.seed, self.tolerance = scheme, workers, seed, tolerance
        self.threshold = 1 / (5 * workers) if threshold is None else threshold
        self.given_choices, self.half_life, self.counts = choices, half_life, counts
        self.loads = [0] * workers
        self.messages = 0
        self.turn_of_ties = self.turn_of_robin = first_turn(seed, source, workers)
        self.margin = 0.0
        self.review_at = 0
        self.shares: list[float] = []
        self.lists: dict[int, list[int]] = {}
        self.mark: object = None
        self.choices = self.choices_for([])

    def route(self, hashes: Iterable[int]) -> list[int]:
        return [self.route_one(int(h)) for h in hashes]

    def route_one(self, key: int) -> int:
        if self.half_life == "auto":
            self.look_back()
        elif self.half_life and self.messages and self.messages % self.half_life == 0:
            self.loads = [load // 2 for load in self.loads]
            self.counts.fade()
        start = (self.turn_of_ties + self.messages) % self.workers
        worker = self.worker_for(key, start)
        self.loads[worker] += 1
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

    def worker_for(self, key: int, start: int) -> int:
        if self.scheme == "key":
            return candidate(key, self.seed, 0, self.workers)
        if self.scheme == "shuffle":
            return self.next_in_turn()
        two = candidates(key, self.seed, 2, self.workers)
        if self.scheme == "per-key":
            if self.is_hot(key) and key in self.lists:
                return least_loaded(self.loads, self.lists[key], start)
            return two[1] if self.loads[two[0]] - self.loads[two[1]] > 2 else two[0]
        if self.scheme == "partial-key" or not self.is_hot(key):
            return least_loaded(self.loads, two, start)
        if self.scheme == "round-robin":
            return self.next_in_turn()
        if self.scheme == "w-choices" or self.choices >= self.workers:
            return least_loaded(self.loads, range(self.workers), start)
        return least_loaded(self.loads, candidates(key, self.seed, self.choices, self.workers), start)

    def next_in_turn(self) -> int:
        worker = self.turn_of_robin
        self.turn_of_robin = (worker + 1) % self.workers
        return worker

    def is_hot(self, key: int) -> bool:
        if self.messages >= self.review_at:
            self.review()
        self.counts.offer(key)
        return self.counts.bounds(key)[1] >= self.threshold * self.counts.total + self.margin

    def review(self) -> None:
        """Margin and choices change only here: after 64 messages, then after a sixteenth of what was counted."""
        total = self.counts.total
        self.review_at = self.messages + max(64, total // 16)
        self.margin = 2 + math.sqrt(self.threshold * total)
        if self.scheme == "per-key":
            self.size_lists()
            return
        shares = [count / total for count in self.counts.counts() if count >= self.threshold * total + self.margin]
        longer = max(len(shares), len(self.shares))
        now, before = shares + [0.0] * (longer - len(shares)), list(self.shares) + [0.0] * (longer - len(self.shares))
        if math.fsum(abs(a - b) for a, b in zip(now, before, strict=True)) >= 1 / 256:
            self.shares = shares
            self.choices = self.choices_for(shares)

    def size_lists(self) -> None:
        """Every hot key's own list of workers: as long as its share needs, longer where the loads ask for it."""
        n, total = self.workers, max(1, self.counts.total)
        least_count = self.threshold * self.counts.total + self.margin
        hot = [(key, count) for key, _, count in self.counts.top(10**9) if count >= least_count]
        hot.sort(key=lambda item: (-item[1], item[0] & MASK))
        forgotten = 1 - total / max(total, self.messages)
        mean = sum(self.loads) / n
        too_much = mean + self.tolerance * sum(self.loads) + 0.75 * math.sqrt(mean)
        head, lengths, one_is_longer = 0.0, {}, False
        for key, count in hot:
            share = (count - math.sqrt(count)) / total
            wanted = 1.25 * (1 + 5 * forgotten) * share * n + 5 * forgotten
            length = min(n, math.ceil(wanted - 1e-9) + 1)
            had = self.lists.get(key, [])
            if length <= len(had) <= 2 * length:
                length = len(had)
            if length == len(had) and min(self.loads[w] for w in had) > too_much and not one_is_longer:
                length = min(n, length + max(1, length // 8))
                one_is_longer = True
            if length > min(2, n):
                lengths[key] = length
                head += share
        needed = max(min(n, math.ceil(head / max(1 - head, 1e-9) * n - 1e-9)), math.ceil(forgotten * n))
        self.lists = {key: first_distinct(key, self.seed, length, n) for key, length in lengths.items()}
        if lengths:  # whom nobody else has, the hottest takes in
            hottest = next(iter(lengths))
            others = {worker for key, workers in self.lists.items() if key != hottest for worker in workers}
            length = lengths[hottest]
            while len(others | set(self.lists[hottest])) < needed and length < n:
                length += 1
                self.lists[hottest] = first_distinct(hottest, self.seed, length, n)
        self.choices = max([len(workers) for workers in self.lists.values()], default=min(2, n))

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

TURNS = 2**31


def scatter(x: int) -> int:
    return ((x ^ (x >> 32)) % TURNS) * 1327217885 % TURNS


def bucket_of(key: int, buckets: int) -> int:
    return scatter(key) * buckets // TURNS


def route_by_plan(plan: object, hashes: Iterable[int], start: int = 0) -> list[int]:
    hot = {key.hash: key for key in plan.head}
    routed = []
    for position, key in enumerate((int(h) for h in hashes), start):
        if key in hot:
            turn = scatter(position)
            piece = next(i for i, end in enumerate(hot[key].ends) if turn < end)
            routed.append(hot[key].workers[piece])
        else:
            routed.append(int(plan.buckets[bucket_of(key, len(plan.buckets))]))
    return routed
