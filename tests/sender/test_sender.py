"""A sender routes every message exactly by the rules, and reports exactly what it did."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import SCHEMES, Sender, SpaceSaving
from keyspread.sender.registry import resolve
from keyspread.streams import zipf

# 1 to 3 words of bits; from 300 on, levels have digests; at 600, a few choices are compared one by one.
WORKERS = [1, 2, 3, 7, 50, 100, 300, 600]


def senders(scheme, workers, counts, **options):
    """Return a sender and its oracle, with those of the options that apply to the scheme."""
    if scheme == "greedy":
        options.setdefault("choices", 3)
    options = {name: value for name, value in options.items() if name in {"source", "seed", *resolve(scheme).options}}
    shared = {name: value for name, value in options.items() if name != "counters"}
    return Sender(scheme, workers, **options), naive.Sender(scheme, workers, counts, **shared)


def check_equal(sender, oracle, stream):
    # Compare in parts, so that a failure shows where the two begin to differ.
    for part in np.array_split(stream, max(1, stream.size // 500)):
        assert sender.route(part).tolist() == oracle.route(part)
        assert sender.loads.tolist() == oracle.loads
        assert sender.choices == oracle.choices
    assert sender.messages == oracle.messages


@pytest.mark.parametrize("workers", [2, 7, 100, 600])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_to_the_rules_with_more_keys_than_counters(scheme, workers):
    """The oracle reads its counts from a SpaceSaving that is offered one message at a time."""
    counters = 6 * workers
    sender, oracle = senders(scheme, workers, SpaceSaving(counters), counters=counters, source=1, seed=2)
    many = 600 if scheme == "per-key" and workers >= 300 else 3000
    check_equal(sender, oracle, zipf(1.0, 50 * workers, many, seed=workers))


@pytest.mark.parametrize(("workers", "exact"), [(1, False), (3, True), (20, False), (100, True)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_to_the_rules_with_fading_by_change(scheme, workers, exact):
    """The hot keys change twice: each time, much of an epoch (512 messages) is new."""
    counters = 10 * workers
    counts = naive.ExactCounts() if exact else SpaceSaving(counters)
    sender, oracle = senders(scheme, workers, counts, half_life="auto", seed=6, counters=counters)
    keys = (counters if exact else 40 * workers) - 4
    hot_changes = zipf(1.5, max(1, keys), 7000, seed=workers) % max(1, keys) + np.arange(7000) // 2500
    check_equal(sender, oracle, hot_changes)
    if workers > 3 and sender.heavy_hitters is not None:
        assert sender.heavy_hitters.total < 4000  # old counts have lost weight


@pytest.mark.parametrize("choices", [1, 2, 5, 40, 299, 300, 5000])
def test_equal_to_the_rules_for_any_given_number_of_choices(choices):
    sender, oracle = senders("greedy", 300, naive.ExactCounts(), choices=choices, threshold=0.01, counters=1000)
    check_equal(sender, oracle, zipf(1.5, 1000, 3000, seed=choices))


@pytest.mark.parametrize("scheme", ["w-choices", "d-choices", "per-key"])
@pytest.mark.parametrize("workers", [5, 100, 300])
def test_equal_to_the_rules_for_streams_that_change_the_number_of_choices(scheme, workers):
    """Even, then one key with over half of the messages, then even again: d rises and falls, and rows are dropped."""
    random = np.random.default_rng(workers)
    even = random.integers(0, 3 * workers, size=4000)
    even[1200:2200][random.random(1000) < 0.6] = 7
    sender, oracle = senders(scheme, workers, naive.ExactCounts(), seed=1, threshold=0.5 / workers, half_life=500)
    check_equal(sender, oracle, even)
    if scheme == "d-choices" and workers > 5:
        assert len(seen_choices(even, workers)) > 2


def seen_choices(stream, workers):
    sender = Sender("d-choices", workers, seed=1, threshold=0.5 / workers, half_life=500)
    seen = set()
    for part in np.array_split(stream, 100):
        sender.route(part)
        seen.add(sender.choices)
    return seen


@pytest.mark.parametrize("scheme", ["w-choices", "d-choices", "per-key", "greedy"])
@pytest.mark.parametrize(("workers", "half_life"), [(2, 900), (9, None), (100, 900), (300, None)])
def test_equal_to_the_rules_when_loads_leave_the_window_of_levels(scheme, workers, half_life, monkeypatch):
    """With sixteen levels instead of thousands, a short stream leaves them, as otherwise only a long one does."""
    monkeypatch.setattr("keyspread.kernels.balance._TABLE_WORDS", 1)
    options = {"seed": 4, "half_life": half_life, "choices": 8, "counters": 10 * workers}
    sender, oracle = senders(scheme, workers, SpaceSaving(10 * workers), **options)
    check_equal(sender, oracle, zipf(1.6, 3000, 3000, seed=workers))


def test_equal_to_the_rules_when_more_keys_have_been_hot_than_there_are_rows_for_them():
    """There are 100 hot keys, a new one every 40 messages, and rows for 64."""
    stream = np.repeat(np.arange(100), 40) * 1_000_003
    options = {"choices": 7, "threshold": 0.1, "counters": 20, "half_life": 50}
    sender, oracle = senders("greedy", 50, SpaceSaving(20), **options)
    check_equal(sender, oracle, stream)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(SCHEMES),
    st.integers(1, 70),
    st.lists(st.one_of(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=400),
    st.integers(0, 2**63),
    st.integers(0, 2**62),
    st.sampled_from([None, 1, 64, 65, 100, "auto"]),
    st.floats(0, 0.1),
)
def test_equal_to_the_rules_for_any_stream(scheme, workers, stream, seed, source, half_life, tolerance):
    counters = 10 * workers
    options = {"seed": seed, "source": source, "half_life": half_life, "tolerance": tolerance, "counters": counters}
    sender, oracle = senders(scheme, workers, SpaceSaving(counters), **options)
    assert sender.route(np.array(stream, np.int64)).tolist() == oracle.route(stream)


# Messages of different weights.


def check_equal_weighted(sender, oracle, stream, weights):
    cuts = range(500, stream.size, 500)
    for part, heavy in zip(np.split(stream, cuts), np.split(weights, cuts), strict=True):
        assert sender.route(part, heavy).tolist() == oracle.route(part, heavy)
        assert sender.loads.tolist() == oracle.loads
        assert sender.choices == oracle.choices


@pytest.mark.parametrize(
    ("workers", "half_life"), [(1, 400), (2, None), (7, "auto"), (50, None), (50, 400), (130, "auto")]
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_to_the_rules_with_weights(scheme, workers, half_life):
    options = {"half_life": half_life, "seed": 4, "source": 2}
    sender, oracle = senders(scheme, workers, naive.ExactCounts(), **options)
    many = 1300 if scheme == "per-key" and workers > 100 else 2500
    stream = zipf(1.2, 10 * workers, many, seed=workers) % (5 * workers) + np.arange(many) // 1000
    check_equal_weighted(sender, oracle, stream, np.random.default_rng(1).integers(0, 1000, many))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SCHEMES),
    st.integers(1, 70),
    st.lists(st.one_of(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=300),
    st.integers(0, 300),
)
def test_weights_of_one_change_nothing(scheme, workers, stream, cut):
    """The loops for weights and the fast loops pick the same workers, also one after the other."""
    keys = np.array(stream, np.int64)
    plain, other = senders(scheme, workers, None)[0], senders(scheme, workers, None)[0]
    ones = np.ones(keys[:cut].size, np.uint32)
    first, second = other.route(keys[:cut], ones), other.route(keys[cut:])
    assert plain.route(keys).tolist() == [*first.tolist(), *second.tolist()]


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "per-key"])
def test_only_relative_weights_matter(scheme):
    """In bytes or in kilobytes, the workers are the same.

    (per-key is left out: it learns the mean weight after 64 messages, and assumes 1 until then.)
    """
    stream = zipf(1.3, 300, 4000, seed=1)
    light, heavy = senders(scheme, 30, None)[0], senders(scheme, 30, None)[0]
    assert light.route(stream).tolist() == heavy.route(stream, np.full(4000, 1 << 20)).tolist()
    assert heavy.loads.sum() == 4000 << 20


@pytest.mark.parametrize("scheme", ["w-choices", "d-choices", "per-key"])
def test_load_follows_weight(scheme):
    """A key with few but heavy messages is hot."""
    random = np.random.default_rng(5)
    stream = random.integers(0, 2000, 100_000)
    weights = np.where(random.random(stream.size) < 0.02, 2500, 50)
    stream[weights == 2500] = 7
    sender = Sender(scheme, 25)
    sender.route(stream, weights)
    assert [key for key, _, _ in sender.head()][:1] == [7]
    assert sender.loads.max() < 1.02 * weights.sum() / 25


# What a sender reports.


def test_defaults_are_a_fifth_of_an_even_share_and_twice_the_counters_needed():
    settings = Sender("d-choices", 100).settings
    assert (settings.threshold, settings.counters, settings.tolerance) == (1 / 500, 1000, 1e-4)
    assert (settings.source, settings.seed, settings.fixed_choices, settings.half_life) == (0, 0, None, None)


def test_a_half_life_is_a_whole_number_of_messages_or_left_to_the_sender():
    assert Sender("d-choices", 100, half_life="auto").settings.half_life == "auto"
    assert Sender("w-choices", 10, half_life=1000.0).settings.half_life == 1000


def test_a_sender_reports_its_scheme_and_its_progress():
    sender = Sender("WC", 7, source=2, seed=9)
    sender.route(np.arange(5))
    assert (sender.scheme, sender.workers, sender.messages) == ("w-choices", 7, 5)
    assert repr(sender) == "Sender('w-choices', workers=7, source=2, seed=9, messages=5)"


@pytest.mark.parametrize("scheme", ["key", "shuffle", "partial-key"])
def test_a_scheme_that_does_not_look_for_hot_keys_has_no_head(scheme):
    sender = Sender(scheme, 5)
    sender.route(np.zeros(100, np.int64))
    assert sender.head() == []
    assert sender.heavy_hitters is None


@pytest.mark.parametrize("scheme", ["round-robin", "w-choices", "d-choices", "greedy"])
def test_the_head_misses_no_key_at_the_threshold(scheme):
    sender, _ = senders(scheme, 20, None)
    stream = zipf(1.1, 5000, 20_000)
    sender.route(stream)
    keys, counts = np.unique(stream, return_counts=True)
    hot = {int(key): int(count) for key, count in zip(keys, counts, strict=True) if count >= stream.size / 100}
    head = sender.head()
    assert hot.keys() <= {key for key, _, _ in head}
    assert head == sender.heavy_hitters.head(1 / 100)
    assert [upper for _, _, upper in head] == sorted((upper for _, _, upper in head), reverse=True)
    assert all(lower <= hot[key] <= upper for key, lower, upper in head if key in hot)


def test_d_choices_finds_what_the_formula_says_of_the_stream():
    """The counts of the sender are a sample of the law, so the two may differ a little."""
    sender = Sender("d-choices", 100)
    assert sender.choices == 2
    sender.route(zipf(1.4, 10_000, 500_000))
    assert sender.choices == pytest.approx(43, abs=2)


def test_cold_keys_are_not_scattered_by_the_first_messages():
    """Among the first messages every key is frequent; still, a key that is cold in the end has at most two workers."""
    random = np.random.default_rng(0)
    for scheme in ("round-robin", "w-choices", "d-choices"):
        stream = random.integers(1, 400, size=20_000)  # each key has a quarter of a percent; the threshold is 2 %
        stream[random.random(stream.size) < 0.4] = 0
        routed = Sender(scheme, 10).route(stream)
        sets = naive.workers_of_keys(stream.tolist(), routed.tolist())
        assert len(sets.pop(0)) > 2
        assert max(len(workers) for workers in sets.values()) <= 2


def test_fading_follows_a_stream_whose_hot_keys_change():
    """Every thousand messages has its own hot key, with 30 % of them, but far below the threshold of 1 % overall."""
    random = np.random.default_rng(0)
    stream = random.integers(1000, 3000, size=200_000)
    stream[random.random(stream.size) < 0.3] = 0
    stream[stream == 0] = np.arange(200_000)[stream == 0] // 1000

    def mean_imbalance_of_a_thousand(half_life):
        routed = Sender("w-choices", 20, half_life=half_life).route(stream)
        return np.mean([naive.imbalance(part.tolist(), 20) for part in np.split(routed, 200)])

    assert mean_imbalance_of_a_thousand(None) > 0.1
    assert mean_imbalance_of_a_thousand(1000) < 0.02
    assert mean_imbalance_of_a_thousand("auto") < 0.02


@pytest.mark.parametrize("scheme", SCHEMES)
def test_messages_with_and_without_weights_may_alternate(scheme):
    stream = zipf(1.4, 200, 6000, seed=2)
    plain, mixed = (senders(scheme, 30, None, choices=8)[0] for _ in range(2))
    expected = plain.route(stream).tolist()
    routed = []
    for number, part in enumerate(np.array_split(stream, 12)):
        routed += mixed.route(part, np.ones(part.size, np.int64) if number % 2 else None).tolist()
    assert routed == expected


@pytest.mark.parametrize("half_life", [None, 100, "auto"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_messages_without_weight_may_come_first(scheme, half_life):
    stream = zipf(1.4, 50, 1000, seed=3)
    sender, _ = senders(scheme, 5, None, half_life=half_life)
    routed = sender.route(stream[:200], np.zeros(200, np.int64))
    assert set(routed.tolist()) <= set(range(5))
    assert sender.loads.sum() == 0
    sender = Sender.restore(sender.snapshot())
    sender.route(stream[200:], np.full(800, 7))
    assert sender.messages == 1000


def test_epochs_of_messages_without_weight_and_then_with():
    """Nothing was counted when the epoch began, so there is no past to compare with."""
    keys = np.arange(2000) % 7
    sender = Sender("per-key", 5, half_life="auto")
    sender.route(keys, np.zeros(keys.size, np.int64))
    sender.route(keys)
    assert sender.messages == 2 * keys.size
    assert sender.loads.sum() == sender.heavy_hitters.total == keys.size


def test_the_workers_do_not_depend_on_where_epochs_and_batches_end():
    """An epoch has 512 messages; some end with a change, so that counts fade, and some do not."""
    random = np.random.default_rng(5)
    parts = [zipf_keys(random, 3000) + 1000 * part for part in range(4)]
    keys = np.concatenate([*parts, parts[0]])
    whole, cut, single = (Sender("per-key", 20, half_life="auto", seed=1) for _ in range(3))
    expected = whole.route(keys)
    ends = [0, 1, 511, 512, 513, 1024, 3000, 3072, 5000, 5632, keys.size]
    routed = [cut.route(keys[begin:end]) for begin, end in itertools.pairwise(ends)]
    assert (np.concatenate(routed) == expected).all()
    assert [int(single.route(keys[at : at + 1])[0]) for at in range(keys.size)] == expected.tolist()
    assert whole.heavy_hitters.total < keys.size  # some of the past was forgotten
    assert whole.snapshot() == cut.snapshot() == single.snapshot()


def zipf_keys(random, size):
    return np.minimum(random.zipf(1.5, size), 500)
