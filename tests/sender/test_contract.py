"""The contract that every scheme in SCHEMES fulfils, a new one included."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import SCHEMES, Sender, SpaceSaving
from keyspread.streams import zipf

CHOICES = 4  # for greedy

any_scheme = pytest.mark.parametrize("scheme", SCHEMES)
any_half_life = pytest.mark.parametrize("half_life", [None, 333, "auto"])


def sender(scheme, workers=20, **options):
    return Sender(scheme, workers, **({"choices": CHOICES} if scheme == "greedy" else {}), **options)


def skewed(messages=5000, seed=0):
    return zipf(1.3, 2000, messages, seed=seed)


def same_state(sender, other):
    return sender.snapshot() == other.snapshot()


@any_scheme
@any_half_life
def test_repeatable_by_seed_and_source(scheme, half_life):
    options = {"source": 3, "seed": 11, "half_life": half_life}
    one, other = sender(scheme, **options), sender(scheme, **options)
    assert one.route(skewed()).tolist() == other.route(skewed()).tolist()
    assert same_state(one, other)


@any_scheme
def test_another_seed_gives_other_workers(scheme):
    assert (sender(scheme, seed=1).route(skewed()) != sender(scheme, seed=2).route(skewed())).any()


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"key"}))
def test_another_source_may_choose_another_worker(scheme):
    assert (sender(scheme, source=1).route(skewed()) != sender(scheme, source=2).route(skewed())).any()


@any_scheme
def test_the_candidates_of_a_key_do_not_depend_on_the_source(scheme):
    """A cold key has the same two workers, or one, at every source, which keeps partial states few."""
    if scheme == "shuffle":
        pytest.skip("a key may go anywhere")
    random = np.random.default_rng(0)
    stream = random.integers(0, 1000, size=20_000)  # no key is hot
    allowed = 1 if scheme == "key" else 2
    for source in range(5):
        routed = sender(scheme, source=source, seed=9).route(stream)
        for key, workers in naive.workers_of_keys(stream.tolist(), routed.tolist()).items():
            assert workers <= set(naive.candidates(key, 9, allowed, 20))


@any_scheme
@any_half_life
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=8), workers=st.sampled_from([1, 2, 5, 70, 300]))
def test_batches_of_any_size_give_the_same_workers(scheme, half_life, cuts, workers):
    stream = skewed(3000, seed=workers)
    whole, parts = (sender(scheme, workers, half_life=half_life) for _ in range(2))
    routed = [parts.route(part) for part in np.split(stream, sorted(cuts))]
    assert np.concatenate(routed).tolist() == whole.route(stream).tolist()
    assert parts.loads.tolist() == whole.loads.tolist()
    assert same_state(parts, whole)


COPIES = [lambda s: Sender.restore(s.snapshot()), lambda s: pickle.loads(pickle.dumps(s))]


@any_scheme
@pytest.mark.parametrize(
    ("half_life", "stop", "travel"),
    [
        (None, 2999, COPIES[0]),
        (None, 64, COPIES[1]),
        (333, 500, COPIES[0]),
        ("auto", 2999, COPIES[1]),
        ("auto", 1, COPIES[0]),
    ],
)
def test_resumes_as_if_never_interrupted(scheme, half_life, stop, travel):
    """A snapshot or a pickle is taken in mid-stream, with far more keys than counters, so the queue matters too."""
    stream = zipf(0.9, 5000, 6000, seed=stop)
    uninterrupted, interrupted = (sender(scheme, 15, half_life=half_life, source=2) for _ in range(2))
    uninterrupted.route(stream[:stop])
    interrupted.route(stream[:stop])
    arrived = travel(interrupted)
    assert same_state(arrived, interrupted)
    assert arrived.settings == interrupted.settings
    assert arrived.head() == interrupted.head()
    assert arrived.route(stream[stop:]).tolist() == uninterrupted.route(stream[stop:]).tolist()
    assert same_state(arrived, uninterrupted)
    assert interrupted.messages == stop  # copying does not change the original


@any_scheme
@pytest.mark.parametrize("workers", [1, 2, 3, 50, 1000])
def test_every_message_gets_one_of_the_workers(scheme, workers):
    one = sender(scheme, workers)
    routed = one.route(skewed())
    assert routed.dtype == np.int32
    assert routed.shape == (5000,)
    assert routed.min() >= 0
    assert routed.max() < workers
    assert one.messages == 5000
    assert one.loads.tolist() == np.bincount(routed, minlength=workers).tolist()


@any_scheme
def test_loads_are_those_of_the_recent_past_with_a_half_life(scheme):
    one = sender(scheme, half_life=100)
    routed = one.route(skewed(1050))
    expected = np.zeros(20, np.int64)
    for part in np.split(routed, range(100, 1001, 100)):
        expected = (expected >> 1) + np.bincount(part, minlength=20)
    assert one.loads.tolist() == expected.tolist()
    assert one.messages == 1050


@any_scheme
def test_nothing_in_nothing_out(scheme):
    one = sender(scheme)
    for nothing in (np.empty(0, np.int64), np.empty(0, np.uint64), []):
        routed = one.route(nothing)
        assert routed.dtype == np.int32
        assert routed.shape == (0,)
    assert one.messages == 0
    assert same_state(one, sender(scheme))


@any_scheme
def test_the_input_is_neither_changed_nor_kept(scheme):
    stream = skewed()
    before = stream.copy()
    one, other = sender(scheme), sender(scheme)
    stream.flags.writeable = False
    first = one.route(stream)
    assert (stream == before).all()
    stream.flags.writeable = True
    other.route(stream)
    stream[:] = 0
    assert one.route(before).tolist() == other.route(before).tolist()
    assert first.flags.writeable


@any_scheme
def test_unsigned_and_strided_hashes_are_the_same_hashes(scheme):
    stream = skewed()
    expected = sender(scheme).route(stream).tolist()
    assert sender(scheme).route(stream.view(np.uint64)).tolist() == expected
    assert sender(scheme).route(np.repeat(stream, 2)[::2]).tolist() == expected
    assert sender(scheme).route(stream[::-1][::-1]).tolist() == expected


@any_scheme
def test_memory_does_not_grow_with_the_number_of_keys(scheme):
    one = sender(scheme)
    counters = one.settings.counters
    sizes = []
    for begin in range(0, 500_000, 100_000):
        one.route(np.arange(begin, begin + 100_000))
        sizes.append(len(one.snapshot()))
    assert max(sizes) <= 50 * counters + 8 * 20 + 1000
    assert max(sizes) <= 1.2 * sizes[0]
    if one.heavy_hitters is not None:
        assert len(one.heavy_hitters) <= counters


@any_scheme
@pytest.mark.parametrize("workers", [5, 40])
def test_workers_of_a_key_are_as_many_as_the_scheme_allows(scheme, workers):
    stream = skewed(4000, seed=1)
    one = sender(scheme, workers)
    routed, most = [], one.choices
    for i in range(stream.size):  # one by one, to see every number of choices in use
        routed.append(int(one.route(stream[i : i + 1])[0]))
        most = max(most, one.choices)
    assert most == most_choices(scheme, workers, stream)
    sets = naive.workers_of_keys(stream.tolist(), routed)
    used = max(len(of_key) for of_key in sets.values())
    assert used <= most
    if scheme in ("key", "partial-key", "greedy", "d-choices") and most < workers:
        for key, of_key in sets.items():
            assert of_key <= set(naive.candidates(key, 0, most, workers))
    if scheme in ("shuffle", "round-robin", "w-choices"):
        assert used == workers  # the hottest key has a quarter of 4,000 messages


def most_choices(scheme, workers, stream):
    """Return the largest number of choices that the rules allow at any message of the stream."""
    fixed = {"key": 1, "partial-key": 2, "greedy": CHOICES, "shuffle": workers, "round-robin": workers}
    fixed["w-choices"] = workers
    if scheme in fixed:
        return fixed[scheme]
    oracle = naive.Sender(scheme, workers, SpaceSaving(10 * workers))
    most = oracle.choices
    for message in stream.tolist():
        oracle.route([message])
        most = max(most, oracle.choices)
    return most


@any_scheme
def test_equal_loads_are_no_advantage_for_low_numbers(scheme):
    """Many senders with one message each, of many keys, do not prefer either half of the workers."""
    first = [int(sender(scheme, source=source).route(np.array([source * 7919]))[0]) for source in range(2000)]
    assert set(first) == set(range(20))
    assert sum(worker < 10 for worker in first) == pytest.approx(1000, abs=5 * 500**0.5)


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"key"}))
def test_many_senders_with_short_batches_of_one_hot_key_add_up_to_balance(scheme):
    """Each sends 27 messages of one key to 20 workers; the 7 left over must not go to the same workers every time."""
    loads = np.zeros(20, np.int64)
    for source in range(400):
        loads += np.bincount(sender(scheme, source=source).route(np.full(27, 5)), minlength=20)
    used = np.flatnonzero(loads)
    assert loads[used].min() > 0.2 * loads[used].mean()  # every candidate is used by some sender
    if scheme == "round-robin":  # before the key is hot, its candidates get more, which is never evened out
        loads = np.delete(loads, naive.candidates(5, 0, 2, 20))
    if scheme in ("shuffle", "round-robin", "w-choices"):
        assert loads.max() <= 1.35 * loads.mean()


# Balance and memory of each scheme on a skewed stream, with modest sizes and fixed seeds.


def imbalance(scheme, skew, workers, **options):
    routed = sender(scheme, workers, **options).route(zipf(skew, 10_000, 300_000))
    return np.bincount(routed, minlength=workers).max() / routed.size - 1 / workers


@pytest.mark.parametrize(("workers", "skew"), [(2, 2.0), (3, 0.8), (5, 1.4), (50, 0.8), (100, 2.0)])
def test_shuffle_and_w_choices_are_balanced_for_any_skew(skew, workers):
    assert imbalance("shuffle", skew, workers) <= 1 / 300_000
    assert imbalance("w-choices", skew, workers) <= 1e-4


@pytest.mark.parametrize("workers", [50, 100])
@pytest.mark.parametrize("skew", [1.4, 2.0])
def test_two_choices_are_not_enough_for_high_skew_and_d_choices_are(skew, workers):
    assert imbalance("key", skew, workers) > imbalance("partial-key", skew, workers) > 0.1
    assert np.median([imbalance("d-choices", skew, workers, seed=seed) for seed in range(5)]) < 2e-3
