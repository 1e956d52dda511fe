"""What SpaceSaving and Sender promise, checked on random streams against exact counts.

    ./dev python tests/guarantees.py [STREAMS] [SEED]

tries so many streams for SpaceSaving and as many for senders, and prints how many promises were broken, with the seed
of every stream that broke one. The tests use the same checks.
"""

import copy
import math
import pickle
import sys
import traceback
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from keyspread import SCHEMES, Sender, SpaceSaving
from keyspread.heavy_hitters import Mark
from keyspread.sender.registry import resolve

UNSEEN = -999  # a key that no stream contains


class Counted:
    """A summary and the exact counts of the same messages, which fade in the same way."""

    def __init__(self, summary: SpaceSaving) -> None:
        self.summary = summary
        self.true: Counter[int] = Counter()
        self.total = 0
        self.most_surplus = Fraction(0)
        self.rounding = Fraction(0)  # what rounding has added to the distance of the bounds, at most
        self.faded = 0  # summaries in this one that had faded, which is what the docstrings state
        self.faded_until = False
        self.mark: tuple[Mark, Counter[int]] | None = None

    def offer(self, key: int, count: int) -> None:
        self.summary.offer(key, count)
        self.count([key], [count])

    def offer_many(self, keys: list[int], weights: list[int] | None = None) -> None:
        weighed = None if weights is None else np.array(weights, np.int64)
        self.summary.offer_many(np.array(keys, np.int64), weighed)
        self.count(keys, [1] * len(keys) if weights is None else weights)

    def count(self, keys: list[int], weights: list[int]) -> None:
        for key, weight in zip(keys, weights, strict=True):
            self.true[key] += weight
            self.total += weight

    def fade(self) -> None:
        self.summary.fade()
        self.count_fade()

    def count_fade(self) -> None:
        self.true = Counter({key: count // 2 for key, count in self.true.items() if count > 1})
        self.total = (self.total + 1) // 2
        self.rounding = (self.rounding + 1) / 2
        self.faded = max(1, self.faded)
        self.most_surplus = Fraction(math.ceil((self.most_surplus) / 2))
        self.mark = None

    def set_mark(self) -> None:
        self.mark = self.summary.mark(), Counter(self.true)

    def fade_until(self, halvings: int) -> None:
        assert self.mark is not None
        mark, before = self.mark
        self.summary.fade_until(mark, halvings)
        self.count_fade_until(mark, before, halvings)

    def count_fade_until(self, mark: Mark, before: Counter[int], halvings: int) -> None:
        if not halvings:
            return
        allowed = Fraction(self.total, self.summary.capacity) + self.rounding
        self.most_surplus = math.ceil(self.most_surplus / 2**halvings) + allowed
        self.true = Counter({key: (before[key] >> halvings) + count - before[key] for key, count in self.true.items()})
        self.total = (mark.total >> halvings) + self.total - mark.total
        self.rounding, self.faded, self.faded_until = Fraction(0), 0, True
        self.mark = None

    def merge(self, other: "Counted") -> "Counted":
        merged = Counted(self.summary.merge(other.summary))
        merged.true, merged.total = self.true + other.true, self.total + other.total
        merged.rounding, merged.faded = self.rounding + other.rounding, self.faded + other.faded
        merged.faded_until = self.faded_until or other.faded_until
        merged.most_surplus = self.most_surplus + other.most_surplus
        return merged

    def travel(self, way: int) -> None:
        """Replace the summary by a copy: of its state, of a pickle, of itself."""
        summary = self.summary
        if way == 0:
            self.summary = SpaceSaving(summary.capacity)
            self.summary.load_state(summary.save_state())
        elif way == 1:
            self.summary = pickle.loads(pickle.dumps(summary))
        else:
            self.summary = copy.deepcopy(summary)
        assert self.summary.top(summary.capacity) == summary.top(summary.capacity)
        assert self.summary.bounds(UNSEEN) == summary.bounds(UNSEEN)
        assert (self.summary.total, self.summary.unit) == (summary.total, summary.unit)

    def check(self) -> None:
        """Check all that the docstrings of SpaceSaving promise, in their form."""
        summary, capacity, true = self.summary, self.summary.capacity, self.true
        listed = {key: (lower, upper) for key, lower, upper in summary.top(capacity)}
        counts, surplus = summary.counts().tolist(), summary.surplus
        assert summary.total == self.total
        assert len(listed) == len(counts) == len(summary) <= capacity
        assert sum(counts) <= summary.total
        assert 0 <= surplus <= self.most_surplus
        least = counts[-1] if len(counts) == capacity else 0
        assert self.rounding <= self.faded  # so all that follows is within what the docstrings state
        widest = Fraction(summary.total, capacity) + surplus + self.rounding
        for key in true.keys() | listed.keys() | {UNSEEN}:
            lower, upper = summary.bounds(key)
            assert 0 <= lower <= true[key] <= upper, (key, lower, true[key], upper)
            assert upper - lower <= widest, (key, lower, upper, widest)
            assert (lower, upper) == listed.get(key, (0, least + surplus))
        for threshold in (Fraction(1, capacity), Fraction(1, 4), Fraction(1)):
            self.check_head(threshold, summary.head(float(threshold)))

    def check_head(self, threshold: Fraction, head: list[tuple[int, int, int]]) -> None:
        """Check the list of all keys whose share may be `threshold` or more."""
        summary = self.summary
        total, slack = summary.total, Fraction(summary.total, summary.capacity) + summary.surplus
        listed = {key for key, _, _ in head}
        for key, count in self.true.items():
            if count and count >= threshold * total and key not in listed:
                assert threshold <= Fraction(1, summary.capacity) or summary.surplus, (key, count, total)
                assert threshold < Fraction(1, summary.capacity) or self.faded_until, (key, count, total)
                assert count <= slack, (key, count, slack)
        for key, lower, upper in head:
            assert summary.bounds(key) == (lower, upper)
            assert self.true[key] >= float(threshold * total - slack - self.rounding) - 1e-6 * (1 + total)


def random_keys(random: np.random.Generator, capacity: int, size: int) -> list[int]:
    """Return keys that are hard for so many counters: they evict each other, or all change at once."""
    start = int(random.integers(0, 4)) * 1000
    kind = random.integers(0, 5)
    if kind == 0:  # all distinct
        return list(range(start, start + size))
    if kind == 1:  # one key more than counters, in turn
        return [start + i % (capacity + 1) for i in range(size)]
    if kind == 2:  # a few hot keys among many
        return [start + int(key) % 50 for key in random.zipf(1.4, size)]
    if kind == 3:  # one key, then all others
        return [start] * (size // 2) + list(range(start + 1, start + 1 + size - size // 2))
    return [int(key) for key in random.integers(start, start + 2 * capacity + 2, size)]


def random_weights(random: np.random.Generator, size: int) -> list[int]:
    """Return weights of 0, of 1, of up to 2^32, or with a heavy tail."""
    kind = random.integers(0, 5)
    if kind == 0:
        return [0] * size
    if kind == 1:
        return [1] * size
    if kind == 2:
        return random.choice([0, 1, 2, 1000, 2**32], size).tolist()
    if kind == 3:
        return np.minimum(random.pareto(0.6, size) * 5, 2**31).astype(np.int64).tolist()
    return random.integers(0, 100, size).tolist()


def try_summaries(seed: int) -> None:
    """Count, fade, merge and copy two summaries at random; check both after every step."""
    random = np.random.default_rng([seed, 1])
    pair = [Counted(SpaceSaving(int(random.integers(1, 12)))) for _ in range(2)]
    for _ in range(int(random.integers(3, 25))):
        at = int(random.integers(0, 2))
        one = pair[at]
        step = random.integers(0, 9)
        keys = random_keys(random, one.summary.capacity, int(random.integers(0, 40)))
        if step <= 1:
            one.offer_many(keys)
        elif step <= 3:
            one.offer_many(keys, random_weights(random, len(keys)))
        elif step == 4:
            one.offer(keys[0] if keys else 1, int(random.choice([0, 1, 100, 10**6])))
        elif step == 5 and random.random() < 0.5:
            one.fade()
        elif step == 6:
            one.set_mark()
            for _ in range(int(random.integers(0, 4))):
                more = random_keys(random, one.summary.capacity, int(random.integers(0, 40)))
                one.offer_many(more, random_weights(random, len(more)) if random.random() < 0.5 else None)
                one.check()
            if random.random() < 0.6:
                one.fade_until(int(random.integers(0, 9)))
        elif step == 7 and one.mark is not None:
            one.fade_until(int(random.integers(0, 9)))
        elif step == 8 and random.random() < 0.3:
            one.travel(int(random.integers(0, 3)))
        elif step == 8:
            pair[at] = one.merge(pair[1 - at])
        pair[at].check()


class Followed:
    """A sender, and the exact counts of its messages as far as it remembers them."""

    def __init__(self, sender: Sender) -> None:
        self.loads = [0] * sender.workers
        self.weight = 0
        self.follow(sender)
        self.counted = None if sender.heavy_hitters is None else Counted(sender.heavy_hitters)

    def follow(self, sender: Sender) -> None:
        """Follow this sender from now on; note when its counts fade."""
        self.sender, hitters = sender, sender.heavy_hitters
        if hitters is None:
            return
        fade, fade_until, mark = hitters.fade, hitters.fade_until, hitters.mark
        marks = getattr(self, "marks", {})
        self.marks = marks

        def noted_fade() -> None:
            fade()
            assert self.counted is not None
            self.counted.count_fade()

        def noted_mark() -> Mark:
            now = mark()
            assert self.counted is not None
            self.marks = {"last": Counter(self.counted.true)}
            return now

        def noted_fade_until(then: Mark, halvings: int) -> None:
            fade_until(then, halvings)
            assert self.counted is not None
            self.counted.count_fade_until(then, self.marks["last"], halvings)

        changed: Any = hitters
        changed.fade, changed.fade_until, changed.mark = noted_fade, noted_fade_until, noted_mark

    def route(self, keys: list[int], weights: list[int] | None) -> None:
        """Route a batch within which no counts fade."""
        before = self.sender.messages
        routed = self.sender.route(np.array(keys, np.int64), None if weights is None else np.array(weights, np.int64))
        assert routed.shape == (len(keys),)
        assert not len(keys) or 0 <= routed.min() <= routed.max() < self.sender.workers
        assert self.sender.messages == before + len(keys)
        weighed = [1] * len(keys) if weights is None else weights
        self.weight += sum(weighed)
        np.add.at(loads := np.array(self.loads, np.int64), routed, weighed)
        self.loads = loads.tolist()
        if self.counted is not None:
            self.counted.count(keys, weighed)

    def travel(self) -> None:
        """Replace the sender by the one that its snapshot describes."""
        sender = Sender.restore(self.sender.snapshot())
        self.follow(sender)
        if self.counted is not None:
            assert sender.heavy_hitters is not None
            self.counted.summary = sender.heavy_hitters

    def check(self) -> None:
        """Check what Sender promises: no load is lost, and no hot key is missing."""
        if not isinstance(self.sender.settings.half_life, int):
            assert self.sender.loads.tolist() == self.loads
            assert int(self.sender.loads.sum()) == self.weight
        assert 1 <= self.sender.choices <= self.sender.workers
        if self.counted is None:
            assert self.sender.head() == []
            return
        self.counted.check()
        self.counted.check_head(Fraction(self.sender.settings.threshold), self.sender.head())


def try_sender(seed: int) -> None:
    """Route a random stream whose keys change abruptly; stop, copy and check the sender on the way."""
    random = np.random.default_rng([seed, 2])
    scheme = SCHEMES[seed % len(SCHEMES)]
    workers = int(random.choice([1, 2, 3, 5, 20, 70]))
    half_life: Any = [None, int(random.integers(1, 700)), "auto", "auto"][random.integers(0, 4)]
    with_weights = random.random() < 0.5
    options: dict[str, Any] = {"half_life": half_life}
    if scheme == "greedy":
        options["choices"] = int(random.integers(1, 9))
    if random.random() < 0.3 and "counters" in resolve(scheme).options:  # hardly more counters than needed
        options |= {"threshold": 0.3, "counters": 4}
    followed = Followed(Sender(scheme, workers, source=seed, seed=seed, **options))
    every = half_life if isinstance(half_life, int) else max(512, math.ceil(1 / followed.sender.settings.threshold))
    for _ in range(int(random.integers(2, 9))):
        keys = random_keys(random, followed.sender.settings.counters or 10, int(random.integers(1, 900)))
        weights = random_weights(random, len(keys)) if with_weights else None
        while keys:
            # Cut where counts fade: between two such messages the exact counts need no attention.
            cut = every - followed.sender.messages % every
            followed.route(keys[:cut], None if weights is None else weights[:cut])
            keys, weights = keys[cut:], None if weights is None else weights[cut:]
        followed.check()
        if random.random() < 0.3:
            followed.travel()
            followed.check()


def main(streams: int, first: int) -> int:
    """Try so many streams of each kind; return 1 if a promise was broken."""
    broken = 0
    for what, attempt in (("SpaceSaving", try_summaries), ("Sender", try_sender)):
        failed = []
        for seed in range(first, first + streams):
            try:
                attempt(seed)
            except Exception:
                failed.append(seed)
                if len(failed) == 1:
                    traceback.print_exc()
        broken += len(failed)
        print(f"{what}: {streams} streams, {len(failed)} with a broken promise{f': {failed[:20]}' if failed else ''}")
    return 1 if broken else 0


if __name__ == "__main__":
    given = [int(float(text)) for text in sys.argv[1:3]]
    sys.exit(main(*(given + [1000, 0][len(given) :])))
