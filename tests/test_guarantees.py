"""The guarantees of SpaceSaving and Sender under everything that may happen to them, in any order."""

import numpy as np
import pytest

import guarantees
from guarantees import Counted, Followed
from keyspread import SCHEMES, Sender, SpaceSaving


@pytest.mark.parametrize("seed", range(25))
def test_summaries_on_random_streams(seed):
    guarantees.try_summaries(seed)


@pytest.mark.parametrize("seed", [*range(2 * len(SCHEMES)), 726])  # 726: choices were above the number of workers
def test_senders_on_random_streams(seed):
    guarantees.try_sender(seed)


def test_a_counter_that_was_taken_over_does_not_keep_what_fades():
    """The counter of 1 had 100 at the mark, and 3 took it over: 3 has 1 message, not 100."""
    one = Counted(SpaceSaving(2))
    one.offer(1, 100)
    one.offer(2, 1)
    one.set_mark()
    one.offer(2, 150)
    one.offer(3, 1)
    one.fade_until(6)
    one.check()
    assert one.summary.total == 152
    assert one.summary.counts().sum() <= 152
    assert one.summary.bounds(3) == (1, 2)
    assert one.summary.bounds(1) == (0, 2)


def without_a_counter_for_3():
    """Return counts of 98 messages of key 3 that has no counter: the old counts of others, now faded, were larger."""
    one = Counted(SpaceSaving(2))
    one.offer(1, 100)
    one.offer(2, 1)
    one.set_mark()
    for _ in range(2):
        one.offer(3, 49)
        one.offer(4, 60)
        one.offer(5, 60)
    one.fade_until(6)
    return one


def test_a_key_that_lost_its_counter_to_old_counts_is_within_the_surplus():
    one = without_a_counter_for_3()
    one.check()
    assert one.true[3] == 98
    assert one.summary.bounds(3)[1] >= 98
    assert one.summary.surplus > 0


@pytest.mark.parametrize("others", [SpaceSaving(2), None])
def test_a_merge_adds_the_surplus_of_both(others):
    """Left, right or both: what a key without a counter may have had on each side counts."""
    one, other = without_a_counter_for_3(), without_a_counter_for_3() if others is None else Counted(others)
    for left, right in ((one, other), (other, one)):
        merged = left.merge(right)
        merged.check()
        assert merged.summary.surplus == one.summary.surplus + other.summary.surplus


def test_the_head_lists_keys_that_only_the_surplus_makes_hot():
    """A key whose count is below the threshold is listed if its true count may reach it."""
    summary, counts = SpaceSaving(4), np.array([10, 5, 2])
    summary.replace_counters(np.array([1, 2, 3], np.uint64), counts, 0 * counts, total=20, messages=20, surplus=4)
    assert summary.head(0.4) == [(1, 10, 14), (2, 5, 9)]  # 5 + 4 >= 8 > 2 + 4


def rounded_down(lower, upper, capacity=64, fades=12):
    """Return a summary that has faded so often that its key 7 has these bounds, as far apart as rounding allows."""
    one = Counted(SpaceSaving(capacity))
    amount = (lower + 1) * 2**fades - 1  # all ones at the end: each fade takes as much of the lower bound as it can
    for key in range(1000, 1000 + capacity):
        one.offer(key, upper * 2**fades - amount)
    one.offer(7, amount)  # it takes over a counter; its upper bound ends in zeros, so nothing of that is lost
    for _ in range(fades):
        one.fade()
        one.check()
    assert one.summary.bounds(7) == (lower, upper)
    return one


def excess(one):
    """Return by how much the bounds of key 7 are further apart than without rounding."""
    lower, upper = one.summary.bounds(7)
    return upper - lower - one.summary.total / one.summary.capacity - one.summary.surplus


def test_rounding_adds_up_over_summaries_that_had_faded():
    """One that has faded has an excess of up to 1, both together of up to 2, and a further fade leaves more than 1."""
    left, right = rounded_down(0, 9), rounded_down(1, 11)
    assert 0.9 < excess(left) <= 1
    assert 0.9 < excess(right) <= 1
    merged = left.merge(right)
    merged.check()
    assert 1.8 < excess(merged) <= 2 == merged.faded
    assert excess(merged.merge(Counted(SpaceSaving(64)))) == excess(merged)  # an operand that has not faded adds none
    merged.fade()
    merged.check()
    assert 1.4 < excess(merged) <= 2 == merged.faded


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_abrupt_changes_of_all_keys(scheme, workers):
    """Every epoch has its own keys: what was counted before is worth nothing."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        followed = Followed(
            Sender(scheme, workers, half_life="auto", seed=seed, choices=2 if scheme == "greedy" else None)
        )
        for epoch in range(8):
            several = int(random.integers(1, 40))
            batch = (random.zipf(1.0 + random.random(), 512) % several + 1000 * epoch).tolist()
            followed.route(batch, None)
            followed.check()


def test_counts_halved_while_messages_have_weights():
    """Weights used to be queued by levels of several counts. A counter that was not the least could be taken."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        one = Counted(SpaceSaving(int(random.integers(1, 8))))
        for _ in range(12):
            one.offer_many(random.integers(0, 20, 30).tolist(), random.choice([1, 3, 50, 400], 30).tolist())
            if random.random() < 0.5:
                one.fade()
            one.check()


def test_messages_without_weight_take_no_counter():
    one = Counted(SpaceSaving(1))
    one.offer_many([1, 2, 3], [5, 0, 0])
    assert one.summary.head(1.0) == [(1, 5, 5)]
    one.check()


def test_the_checks_see_a_broken_promise(monkeypatch):
    replace = SpaceSaving.replace_counters
    monkeypatch.setattr(SpaceSaving, "replace_counters", lambda self, *values: replace(self, *values[:5]))
    with pytest.raises(AssertionError):
        test_a_key_that_lost_its_counter_to_old_counts_is_within_the_surplus()
