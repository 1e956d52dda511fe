"""The number of choices, the expected workers and the memory model equal the formulas and known values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import SCHEMES
from keyspread.choices import expected_workers, find_choices
from keyspread.evaluation.metrics import replica_model
from keyspread.streams import zipf_probabilities

KEYS = 10_000
MESSAGES = 10**7


def head_of(skew, workers):
    law = zipf_probabilities(skew, KEYS)
    return law[law >= 1 / (5 * workers)]


@pytest.mark.parametrize(
    ("workers", "skew", "hottest", "head", "choices"),
    [
        (50, 0.8, 0.0369, 16, 2),
        (50, 1.0, 0.1022, 25, 6),
        (50, 1.4, 0.3286, 23, 22),
        (50, 2.0, 0.6080, 12, 49),
        (100, 0.8, 0.0369, 38, 4),
        (100, 1.0, 0.1022, 51, 12),
        (100, 1.4, 0.3286, 38, 43),
        (100, 2.0, 0.6080, 17, 95),
    ],
)
def test_known_values_for_an_exact_zipf_law(workers, skew, hottest, head, choices):
    shares = head_of(skew, workers)
    assert shares[0] == pytest.approx(hottest, abs=5e-5)
    assert shares.size == head
    assert find_choices(shares, workers) == choices == naive.find_choices(shares.tolist(), workers)


# Heads of every shape: some hot keys and a tail, which has from 0 to 99 % of the messages.
@st.composite
def heads(draw):
    weights = draw(st.lists(st.floats(0.001, 1), min_size=1, max_size=25))
    mass = draw(st.floats(0.01, 1))
    return [weight / math.fsum(weights) * mass for weight in weights]


@settings(max_examples=300, deadline=None)
@given(heads(), st.integers(1, 60), st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 0.02, 0.5]))
def test_equal_to_a_linear_search_over_all_prefixes(head, workers, tolerance):
    assert find_choices(head, workers, tolerance) == naive.find_choices(head, workers, tolerance)


def test_order_and_type_of_the_head_do_not_matter():
    head = head_of(1.4, 50)
    shuffled = np.random.default_rng(0).permutation(head)
    assert find_choices(shuffled, 50) == find_choices(list(head), 50) == find_choices(tuple(head[::-1]), 50) == 22
    assert find_choices(head.astype(np.float32), 50) == 22


@pytest.mark.parametrize(("workers", "choices"), [(1, 1), (2, 2), (3, 2), (10_000, 2)])
def test_without_a_head_two_are_enough(workers, choices):
    assert find_choices([], workers) == choices
    assert find_choices(np.empty(0), workers) == choices


@settings(max_examples=100, deadline=None)
@given(heads(), st.integers(1, 300))
def test_never_under_two_nor_over_the_workers_nor_under_the_share_of_the_hottest(head, workers):
    choices = find_choices(head, workers)
    assert min(2, workers) <= choices <= workers
    assert choices >= max(head) * workers - 1e-6


def test_a_larger_tolerance_never_needs_more():
    head = head_of(1.0, 100)
    choices = [find_choices(head, 100, tolerance) for tolerance in (0, 1e-5, 1e-4, 1e-3, 1e-2, 1)]
    assert choices == sorted(choices, reverse=True)
    assert choices[-1] == max(2, math.ceil(head[0] * 100))


def test_a_product_slightly_above_a_whole_number_is_that_number():
    assert 0.07 * 100 > 7
    assert find_choices([0.07], 100, tolerance=1) == 7


# Expected workers.


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2000), st.floats(0, 5000))
def test_expected_workers_is_the_formula(workers, draws):
    assert expected_workers(workers, draws) == pytest.approx(naive.expected_workers(workers, draws), rel=1e-9, abs=1e-9)


def test_expected_workers_is_the_mean_of_many_draws():
    random = np.random.default_rng(0)
    distinct = [np.unique(random.integers(40, size=60)).size for _ in range(3000)]
    assert np.mean(distinct) == pytest.approx(expected_workers(40, 60), abs=0.2)


# Memory model.


def model(skew, workers, scheme, **options):
    return replica_model(MESSAGES * zipf_probabilities(skew, KEYS), workers, scheme, **options)


@pytest.mark.parametrize(
    ("skew", "scheme", "percent"),
    [(1.0, "w-choices", 25.0), (1.0, "d-choices", 2.6), (2.0, "w-choices", 26.2), (2.0, "d-choices", 24.8)],
)
def test_known_cost_against_partial_key_for_100_workers(skew, scheme, percent):
    more = model(skew, 100, scheme) / model(skew, 100, "partial-key") - 1
    assert round(100 * more, 1) == percent


def test_known_least_saving_against_shuffle():
    savings = {
        (workers, skew, scheme): 1 - model(skew, workers, scheme) / model(skew, workers, "shuffle")
        for workers in (50, 100)
        for skew in (np.arange(1, 21) / 10).round(1).tolist()
        for scheme in ("w-choices", "d-choices")
    }
    worst = min(savings, key=savings.get)
    assert worst == (50, 1.9, "w-choices")
    assert round(100 * savings[worst], 1) == 79.6


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=60), st.integers(1, 40), st.sampled_from(SCHEMES))
def test_the_model_is_the_sum_over_keys(counts, workers, scheme):
    total, threshold = sum(counts), 1 / (5 * workers)
    head = [count for count in counts if count >= threshold * total]
    tail = [count for count in counts if count < threshold * total]
    choices = {
        "key": 1,
        "partial-key": min(2, workers),
        "d-choices": naive.find_choices([count / total for count in head], workers),
        "greedy": min(3, workers),
    }.get(scheme, workers)
    for_tail = choices if scheme in ("key", "shuffle", "partial-key") else min(2, workers)
    expected = sum(min(count, choices) for count in head) + sum(min(count, for_tail) for count in tail)
    if scheme == "per-key":
        hottest_first = sorted(head, reverse=True)
        lists = [min(workers, math.ceil(1.25 * workers * count / total - 1e-9) + 1) for count in hottest_first]
        listed = sum(count for count, size in zip(hottest_first, lists, strict=True) if size > 2) / total
        for_all = min(workers, math.ceil(listed / max(1 - listed, 1e-9) * workers - 1e-9))
        lists[:1] = [max(size, for_all) for size in lists[:1]]
        expected = sum(map(min, hottest_first, lists)) + sum(min(count, for_tail) for count in tail)
    assert replica_model(counts, workers, scheme, choices=3 if scheme == "greedy" else None) == pytest.approx(expected)


def test_the_model_takes_a_threshold_and_a_tolerance():
    counts = [1000, 100, 10, 10, 10]
    assert replica_model(counts, 50, "wc", threshold=0.5) == 50 + 4 * 2
    assert replica_model(counts, 50, "wc", threshold=0.05) == 2 * 50 + 3 * 2
    assert replica_model(counts, 50, "dc", tolerance=1) < replica_model(counts, 50, "dc", tolerance=0)


def test_planned_needs_one_worker_a_cold_key_and_one_more_piece_a_worker_at_most():
    counts = [10_000, 500] + [1] * 300
    assert replica_model(counts, 20, "planned") == 300 + 2 + 20
    assert replica_model(counts, 20, "planned", threshold=0.5) == 301 + 20  # one hot key uses at most all workers
