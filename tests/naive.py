"""Oracles: every rule of the core in plain Python, slow and obvious. Nothing here calls a kernel.

Tests compare kernels with these functions for equality, not for similarity. If a rule changes, it changes here too.
Nothing here is clever: no trick, no cache, no array where a list is enough.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


# Mixing: from a key to 64 bits to a worker.


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def salt_of(seed: int) -> int:
    return mix((seed + GOLDEN) & MASK)


def first_turn(seed: int, source: int, workers: int) -> int:
    """The worker at which the sender of this source starts."""
    return mix(((salt_of(seed) ^ mix((source + 1 + GOLDEN) & MASK)) + GOLDEN) & MASK) % workers


def reduce(x: int, workers: int) -> int:
    return ((x >> 32) * workers) >> 32


def salted_candidate(key: int, salt: int, number: int, workers: int) -> int:
    return reduce(mix((((key & MASK) ^ salt) + number * GOLDEN) & MASK), workers)


def candidate(key: int, seed: int, number: int, workers: int) -> int:
    return salted_candidate(key, salt_of(seed), number, workers)


def candidates(key: int, seed: int, choices: int, workers: int) -> list[int]:
    return [candidate(key, seed, number, workers) for number in range(choices)]


def salted_candidates(key: int, salt: int, choices: int, workers: int) -> list[int]:
    return [salted_candidate(key, salt, number, workers) for number in range(choices)]


# Bits and the least loaded worker.


def bits_of(row: Iterable[int]) -> set[int]:
    """The positions of the bits that are set in words of 64 bits."""
    return {64 * at + bit for at, word in enumerate(row) for bit in range(64) if int(word) >> bit & 1}


def precedes(worker: int, other: int, start: int, workers: int) -> bool:
    return (worker - start) % workers < (other - start) % workers


def least_loaded(loads: Sequence[float], among: Iterable[int], start: int) -> int:
    """The least loaded worker; among equals, the first in the order start, start + 1, …, n-1, 0, …"""
    return min(among, key=lambda worker: (loads[worker], (worker - start) % len(loads)))


# Lists of workers of different lengths.


def first_distinct(key: int, size: int, salt: int, workers: int) -> list[int]:
    """The first `size` workers of a key, in the order in which they are drawn; all workers, if that takes 4n draws."""
    drawn = list(dict.fromkeys(salted_candidates(key, salt, 4 * workers - 1, workers)))
    return drawn[:size] if len(drawn) >= size else list(range(workers))


def lists_for(sizes: Mapping[int, int], needed: int, salt: int, workers: int) -> dict[int, list[int]]:
    """The list of every key, hottest first.

    The list of the hottest grows until all lists together hold `needed` workers.
    """
    lists = {key: first_distinct(key, size, salt, workers) for key, size in sizes.items()}
    if lists:
        hottest = next(iter(lists))
        others = {worker for key, listed in lists.items() if key != hottest for worker in listed}
        while len(others | set(lists[hottest])) < needed and len(lists[hottest]) < workers:
            lists[hottest] = first_distinct(hottest, len(lists[hottest]) + 1, salt, workers)
    return lists


# The loop over messages, for all rules.


class Rules(NamedTuple):
    """Which workers a key may use."""

    cold: str = "less of two"  # or "first", "first or second"
    hot: str = "choices"  # or "all", "list", "turn"
    choices: int = 2
    lead: float = 2.0
    lists: Mapping[int, Sequence[int]] = {}  # of `list`; a hot key without one is routed like a cold key


def route_loop(
    messages: Sequence[tuple[int, int, bool]],  # (key, weight, whether it is hot)
    rules: Rules,
    *,
    salt: int,
    start: int,
    turn: int,
    loads: list[int],
) -> tuple[list[int], int]:
    """Route one message after the other and add to `loads`; return the workers, and the worker whose turn is next."""
    workers, routed = len(loads), []
    for position, (key, weight, is_hot) in enumerate(messages):
        first, second = salted_candidates(key, salt, 2, workers)
        if is_hot and rules.hot == "choices":
            among = salted_candidates(key, salt, rules.choices, workers)
        elif is_hot and rules.hot == "all":
            among = list(range(workers))
        elif is_hot and rules.hot == "turn":
            among, turn = [turn], (turn + 1) % workers
        elif is_hot and key in rules.lists:
            among = list(rules.lists[key])
        elif rules.cold == "first":
            among = [first]
        elif rules.cold == "first or second":
            among = [second] if loads[first] - loads[second] > rules.lead else [first]
        else:
            among = [first, second]
        worker = least_loaded(loads, among, (start + position) % workers)
        loads[worker] += weight
        routed.append(worker)
    return routed, turn


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


# Change of the hot keys.


def unexpected_growth(
    counts: Iterable[tuple[float, float]], ratio: float, deviations: float, messages: float, unit: float
) -> float:
    """By how much counts, given as (before, growth), have grown beyond before * ratio and chance, in sum."""
    unexpected = 0.0
    for before, growth in counts:
        expected = before * ratio
        if growth - expected > messages * unit + deviations * math.sqrt(expected * unit):
            unexpected += growth - expected
    return unexpected


def since(counts: object, mark: object) -> tuple[list[int], list[int]]:
    """For every counter in use: how much of its count is from before `mark`, and how much surely is not."""
    if isinstance(counts, ExactCounts):
        return counts.since(mark)
    held, before, used = counts.arrays, mark.counts.tolist(), len(counts)
    past, recent = [], []
    for count, error, then in zip(held.counts[:used].tolist(), held.errors[:used].tolist(), before, strict=False):
        # A counter that another key has taken over has an error: the count that it had, which was not below that at the
        # mark. And a key without a counter had at most the least count then.
        past.append(then if error < then else min(before))
        recent.append(count - max(then, error))
    return past, recent


def halvings_for(counts: object, mark: object) -> int:
    """How often to halve what was counted until `mark`: the more, the less of what came after it was expected."""
    recent_total = counts.total - mark.total
    if not mark.total or not recent_total:
        return 0
    pairs = zip(*since(counts, mark), strict=True)
    change = unexpected_growth(pairs, recent_total / mark.total, 4, 8, counts.unit) / recent_total
    if not change:
        return 0
    most = max(counts.unit, 0.25 * recent_total * (1 - change) / change)
    halvings = 0
    while mark.total / 2**halvings > most:
        halvings += 1
    return halvings


# SpaceSaving.

Counters = dict[int, tuple[int, int]]  # key -> (count, error)


def after_offer(counters: Counters, key: int, amount: int, capacity: int) -> list[Counters]:
    """All states that one offer may lead to: one per counter that may be taken, if one must be taken.

    Which of several least counters SpaceSaving takes depends on its queue.
    """
    if key in counters:
        count, error = counters[key]
        return [counters | {key: (count + amount, error)}]
    if amount == 0:
        return [counters]
    if len(counters) < capacity:
        return [counters | {key: (amount, 0)}]
    lowest = min(count for count, _ in counters.values())
    return [
        {other: rest for other, rest in counters.items() if other != taken} | {key: (count + amount, count)}
        for taken, (count, _) in counters.items()
        if count == lowest
    ]


# One sender.


class Mark(NamedTuple):
    """The exact counts of one moment."""

    total: int
    counts: Counter[int]


class ExactCounts:
    """Exact counts of all keys. The interface is that of SpaceSaving, which is exact while it has free counters."""

    surplus = 0

    def __init__(self) -> None:
        self.total = self.messages = 0
        self._counts: Counter[int] = Counter()

    @property
    def unit(self) -> float:
        return self.total / self.messages if self.total else 1.0

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

    Which of several least counters SpaceSaving takes depends on its queue, which an oracle does not have. So `counts`
    is either ExactCounts, for streams with no more keys than counters, or a real SpaceSaving, which is offered one
    message at a time and tested elsewhere.
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
        return salted_candidates(key, salt_of(self.seed), choices, self.workers)

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
        """At the end of an epoch old counts are halved: the more, the more the hot keys have changed. Loads are not."""
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
        two, loads = self.candidates(key, 2), self.loads
        if self.scheme == "per-key":
            if self.is_hot(key, weight) and key in self.lists:
                return least_loaded(loads, self.lists[key], start)
            return two[1] if loads[two[0]] - loads[two[1]] > 2 * self.unit else two[0]
        if self.scheme == "partial-key" or not self.is_hot(key, weight):
            return least_loaded(loads, two, start)
        if self.scheme == "round-robin":
            return self.next_in_turn()
        if self.scheme == "w-choices" or self.choices >= self.workers:
            return least_loaded(loads, range(self.workers), start)
        return least_loaded(loads, self.candidates(key, self.choices), start)

    def next_in_turn(self) -> int:
        worker = self.turn_of_robin
        self.turn_of_robin = (worker + 1) % self.workers
        return worker

    def is_hot(self, key: int, weight: int) -> bool:
        if self.messages >= self.review_at:
            self.review()
        self.counts.offer(key, weight)
        count = self.counts.bounds(key)[1] - self.counts.surplus
        return count >= self.threshold * self.counts.total + self.margin * self.counts.unit

    def review(self) -> None:
        """Margin and choices change only here, every 64 messages, or every sixteenth of what was counted."""
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
        """Every hot key has a list of workers: as long as its share needs, longer if the loads show it is too short."""
        n, total = self.workers, max(1, self.counts.total)
        least_count = self.threshold * self.counts.total + self.margin * self.unit
        counted = [(key, upper - self.counts.surplus) for key, _, upper in self.counts.top(10**9)]
        hot = [(key, count) for key, count in counted if count >= least_count]
        hot.sort(key=lambda item: (-item[1], item[0] & MASK))
        known = total / self.unit
        forgotten = 1 - known / max(known, self.messages)
        mean = sum(self.loads) / n
        too_much = mean + self.tolerance * sum(self.loads) + 0.75 * math.sqrt(mean * self.unit)
        head, lengths, one_is_longer = 0.0, {}, False
        for key, count in hot:
            share = (count - math.sqrt(count * self.unit)) / total
            enough = 1.25 * (1 + 5 * forgotten) * share * n + 5 * forgotten
            length = min(n, math.ceil(enough - 1e-9) + 1)
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
        self.lists = lists_for(lengths, needed, salt_of(self.seed), n)
        self.choices = max([len(workers) for workers in self.lists.values()], default=min(2, n))

    def choices_for(self, shares: Sequence[float]) -> int:
        if self.scheme == "greedy":
            return min(self.given_choices, self.workers)
        if self.scheme == "d-choices":
            return find_choices(shares, self.workers, self.tolerance)
        return {"key": 1, "partial-key": min(2, self.workers), "per-key": min(2, self.workers)}.get(
            self.scheme, self.workers
        )


# Peers.


def route_by_salt(keys: Sequence[int], salts: Sequence[int], hash_salt: int, workers: int) -> list[int]:
    return [salted_candidate(key, hash_salt, salt, workers) for key, salt in zip(keys, salts, strict=True)]


def route_by_fanout(
    keys: Sequence[int], hot: Collection[int], fanout: int, nonce: int, hash_salt: int, workers: int
) -> tuple[list[int], int]:
    """The workers, and the next nonce."""
    routed = []
    for key in keys:
        routed.append(salted_candidate(key, hash_salt, nonce if key in hot else 0, workers))
        if key in hot:
            nonce = (nonce + 1) % fanout
    return routed, nonce


def fish_choices(count: int, top: int, total: int, threshold: float, widest: int, workers: int) -> int:
    """How many workers a key has: 2 if it is cold; if it is hot, half as many for every halving of the top count."""
    if count <= threshold * total:
        return min(2, workers)
    choices = workers
    while 2 * count <= top and choices > 2:
        count, choices = 2 * count, choices // 2
    return max(choices, widest)


def fish_worker(key: int, choices: int, hash_salt: int, loads: Sequence[int]) -> int:
    """The least loaded of so many neighbours on a ring, the first among equals."""
    first = salted_candidate(key, hash_salt, 0, len(loads))
    return least_loaded(loads, [(first + step) % len(loads) for step in range(max(1, choices))], first)


class Fish:
    """FISH with a counter for every key."""

    def __init__(self, workers: int, hash_salt: int, threshold: float, epoch: int, decay: float) -> None:
        self.hash_salt, self.threshold, self.epoch, self.decay = hash_salt, threshold, epoch, decay
        self.loads = [0] * workers
        self.counts: dict[int, int] = {}  # in the order of the counters
        self.widths: dict[int, tuple[int, int]] = {}  # number of a counter -> (its last key, the widest that this had)
        self.total = self.top = self.left = 0

    def route(self, keys: Iterable[int]) -> list[int]:
        return [self.route_one(key) for key in keys]

    def route_one(self, key: int) -> int:
        self.left = self.left or self.epoch
        self.counts[key] = self.counts.get(key, 0) + 1
        self.total += 1
        self.top = max(self.top, self.counts[key])
        workers, counter = len(self.loads), list(self.counts).index(key)
        if self.widths.get(counter, (None, 0))[0] != key:
            self.widths[counter] = key, min(2, workers)
        widest = self.widths[counter][1]
        choices = fish_choices(self.counts[key], self.top, self.total, self.threshold, widest, workers)
        self.widths[counter] = key, max(widest, choices)
        worker = fish_worker(key, choices, self.hash_salt, self.loads)
        self.loads[worker] += 1
        self.left -= 1
        if not self.left:
            self.end_epoch()
        return worker

    def end_epoch(self) -> None:
        """Counts decay. The keys that still have one move to the first counters, with their widths."""
        decayed = [
            (key, int(count * self.decay), self.widths[counter])
            for counter, (key, count) in enumerate(self.counts.items())
        ]
        remaining = [counter for counter in decayed if counter[1]]
        self.counts = {key: count for key, count, _ in remaining}
        self.widths |= {counter: width for counter, (_, _, width) in enumerate(remaining)}
        self.total = int(self.total * self.decay)
        self.top = max(self.counts.values(), default=0)


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


# Packing.


class Placed(NamedTuple):
    """What a plan decides: the worker of every bucket, the workers and amounts of every hot key, and the loads."""

    owners: list[int]
    pieces: list[dict[int, int]]
    loads: list[int]
    moved: float


def limit(total: int, workers: int, tolerance: float) -> int:
    """The largest load of a worker: its share rounded up, and what the tolerance adds."""
    return -(-total // workers) + int(tolerance * total)


def place_within(
    tolerance: float,
    buckets: Sequence[int],
    hot: Sequence[tuple[int, int]],  # (hash, messages), hottest first
    workers: int,
    old_owners: Sequence[int],  # -1: none
    old_workers: Sequence[Sequence[int]],  # of each hot key
    first_worker: int,
) -> Placed:
    """Buckets first, largest first, then hot keys: where they were if they fit, else on the least loaded worker."""
    total = sum(buckets) + sum(messages for _, messages in hot)
    even, at_most = limit(total, workers, 0.0), limit(total, workers, tolerance)
    loads, owners, moved = [0] * workers, list(old_owners), 0

    def least_loaded_of(among: Iterable[int]) -> int:
        return min(among, key=lambda worker: (loads[worker], (worker - first_worker) % workers))

    unplaced = []
    for bucket in sorted(range(len(buckets)), key=lambda bucket: -buckets[bucket]):
        owner, size = owners[bucket], buckets[bucket]
        if owner >= 0 and loads[owner] + size <= at_most:
            loads[owner] += size
        elif size:
            unplaced.append(bucket)
    for bucket in unplaced:
        worker = least_loaded_of(range(workers))
        moved += buckets[bucket] if worker != owners[bucket] else 0
        owners[bucket] = worker
        loads[worker] += buckets[bucket]
    pieces: list[dict[int, int]] = []
    for (_, messages), old in zip(hot, old_workers, strict=True):
        left, of_key = messages, Counter()
        for room in (even, at_most):
            for worker in old:
                amount = min(left, room - loads[worker])
                if amount > 0:  # only then is the worker a piece, in the order in which it got something
                    of_key[worker] += amount
                    loads[worker] += amount
                    left -= amount
        while left:
            worker = least_loaded_of(worker for worker in range(workers) if loads[worker] < even)
            amount = min(left, even - loads[worker])
            of_key[worker] += amount
            loads[worker] += amount
            left -= amount
            moved += 0 if worker in old else amount
        pieces.append(dict(of_key))
    owners = [bucket % workers if owner < 0 else owner for bucket, owner in enumerate(owners)]
    return Placed(owners, pieces, loads, moved / total if total else 0.0)


def place(tolerance: float, most_moved: float | None, *rest: object) -> Placed:
    """As even as the tolerance allows; if that moves too much, with the smallest tolerance that does not."""
    balanced = place_within(tolerance, *rest)
    if most_moved is None or balanced.moved <= most_moved:
        return balanced
    best = place_within(1.0, *rest)
    bound, too_small, large_enough = most_moved + best.moved, tolerance, 1.0
    for _ in range(24):
        between = (too_small + large_enough) / 2
        tried = place_within(between, *rest)
        if tried.moved <= bound:
            best, large_enough = tried, between
        else:
            too_small = between
    return best


# Where hot keys are cut.


def cut_by_weight(key: int, pieces: Mapping[int, int]) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The fields of a HotKey: its hash, its workers, their weights, and the ends of the pieces."""
    weights = tuple(pieces.values())
    return key, tuple(pieces), weights, tuple(ends_by_weight(weights))


def ends_by_weight(weights: Sequence[int]) -> list[int]:
    return [sum(weights[: piece + 1]) * SLOTS // sum(weights) for piece in range(len(weights))]


def ends_by_messages(weights: Sequence[int], messages: Sequence[tuple[int, int]]) -> list[int]:
    """A piece ends at the message, given as (slot, weight), whose middle is the first to reach the piece's weight."""
    messages, ends = sorted(messages), []
    for piece in range(len(weights) - 1):
        wanted, before = sum(weights[: piece + 1]), 0
        for slot, weight in messages:
            end, before = slot, before + weight
            if before - weight / 2 >= wanted:
                break
        ends.append(end)
    return [*ends, SLOTS]


def ends_by_cells(weights: Sequence[int], cells: Sequence[int]) -> list[int]:
    """Linear between the edges of the cells."""
    counted = np.concatenate([[0], np.cumsum(cells)])
    wanted = np.cumsum(weights)[:-1] * (counted[-1] / sum(weights))
    edges = np.linspace(0, SLOTS, counted.size)
    return [*np.interp(wanted, counted, edges).astype(np.int64).tolist(), SLOTS]


def cells_of(ends: Sequence[int], bits: int, first: int) -> list[int]:
    """For each of 2^bits equal cells of slots, the piece that covers it, or -1 - the first of several."""
    cells, width = [], SLOTS >> bits
    for begin in range(0, SLOTS, width):
        here = [piece for piece, end in enumerate(ends) if end > begin]
        whole = ends[here[0]] >= begin + width
        cells.append(here[0] + first if whole else -1 - (here[0] + first))
    return cells


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
