"""Wrong input is refused with one line that names the parameter, the value and the remedy, and changes nothing."""

import math
import re

import numpy as np
import pytest

import keyspread as ks
from keyspread.choices import expected_workers
from keyspread.evaluation.metrics import replica_model

HASHES = np.arange(20)
NAN, INF = math.nan, math.inf


def refused(call, *arguments, **options):
    """Return the message of the error: an InputError, which is a KeyspreadError and a ValueError, in one line."""
    with pytest.raises(ks.InputError) as caught:
        call(*arguments, **options)
    assert isinstance(caught.value, ks.KeyspreadError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


def sender(**options):
    return ks.Sender("d-choices", 10, **options)


def test_every_function_checks_its_workers():
    for call in (
        lambda workers: ks.Sender("w-choices", workers),
        lambda workers: ks.Sender("key", workers),
        lambda workers: ks.find_choices([0.5], workers),
        lambda workers: expected_workers(workers, 3),
        lambda workers: replica_model([1, 2], workers, "planned"),
        lambda workers: ks.plan(HASHES, workers),
        lambda workers: ks.simulate(HASHES, "wc", workers),
        lambda workers: ks.compare(HASHES, workers),
    ):
        assert refused(call, 0) == "workers must be at least 1, got 0"


@pytest.mark.parametrize(
    ("workers", "problem"),
    [
        (-3, "at least 1, got -3"),
        (2.5, "a whole number, got 2.5"),
        (4.0, "a whole number, got 4.0"),
        ("4", "a whole number, got '4'"),
        (None, "a whole number, got None"),
        (True, "a whole number, got True"),
        (NAN, "a whole number, got nan"),
        (2**31, "at most 100000, got 2147483648"),
    ],
)
def test_whole_numbers(workers, problem):
    assert refused(ks.Sender, "w-choices", workers) == f"workers must be {problem}"


def test_every_function_checks_its_threshold():
    for call in (
        lambda threshold: sender(threshold=threshold),
        lambda threshold: ks.SpaceSaving(10).head(threshold),
        lambda threshold: ks.plan(HASHES, 10, threshold=threshold),
        lambda threshold: ks.simulate(HASHES, "key", 10, threshold=threshold),
        lambda threshold: replica_model([1, 2], 10, "planned", threshold=threshold),
    ):
        assert refused(call, 1.01) == "threshold is a share of the messages, above 0 and at most 1, got 1.01"


@pytest.mark.parametrize(
    ("threshold", "problem"),
    [
        (0, "is a share of the messages, above 0 and at most 1, got 0"),
        (-0.1, "is a share of the messages, above 0 and at most 1, got -0.1"),
        (NAN, "must be a finite number, got nan"),
        (INF, "must be a finite number, got inf"),
        ("high", "must be a number, got 'high'"),
    ],
)
def test_shares(threshold, problem):
    assert refused(sender, threshold=threshold) == f"threshold {problem}"


@pytest.mark.parametrize("threshold", [1e-9, 1e-300, 5e-324])
def test_a_threshold_that_needs_too_many_counters(threshold):
    for counters in (None, 1000):
        message = refused(sender, threshold=threshold, counters=counters)
        assert f"threshold {threshold:g}" in message
        assert "counters" in message


@pytest.mark.parametrize(
    ("tolerance", "problem"),
    [
        (-1e-9, "not be negative, got -1e-09"),
        (NAN, "be a finite number, got nan"),
        ("small", "be a number, got 'small'"),
    ],
)
def test_tolerance(tolerance, problem):
    assert refused(sender, tolerance=tolerance) == f"tolerance must {problem}"
    assert refused(ks.find_choices, [0.5], 10, tolerance) == f"tolerance must {problem}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counters": 50}, "counters 50 is too small for threshold 0.02: it needs at least 51 (the default is 100)"),
        ({"counters": 0}, "counters must be at least 1, got 0"),
        ({"counters": 2**40}, "counters must be at most 67108864, got 1099511627776"),
        ({"source": -1}, "source must be at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**63 + 1}, "seed must be at most 9223372036854775808, got 9223372036854775809"),
        ({"half_life": 0}, "half_life must be at least 1, got 0"),
        ({"half_life": 2.5}, "half_life must be a whole number, got 2.5"),
        ({"half_life": NAN}, "half_life must be a whole number, got nan"),
        ({"half_life": np.array([1, 2])}, "half_life must be a whole number, got array([1, 2])"),
        ({"half_life": "soon"}, "half_life must be a number of messages, 'auto' or None, got 'soon'"),
        (
            {"choices": 3},
            "choices does not apply to d-choices, got 3; d-choices takes tolerance, threshold, counters, half_life",
        ),
    ],
)
def test_parameters_of_a_sender(options, message):
    assert refused(sender, **options) == message


def test_the_choices_of_greedy():
    needed = "scheme 'greedy' needs choices, the number of workers a hot key may use"
    assert refused(ks.Sender, "greedy", 10) == needed
    assert refused(ks.simulate, HASHES, "greedy", 10) == needed
    assert refused(replica_model, [1, 2], 10, "greedy") == needed
    assert refused(ks.Sender, "greedy", 10, choices=0) == "choices must be at least 1, got 0"
    assert refused(ks.Sender, "greedy", 10, choices=2.5) == "choices must be a whole number, got 2.5"


def test_the_number_of_counters_that_is_said_to_be_needed_is_enough():
    for threshold in (1.0, 0.5, 0.3, 0.1, 0.02, 1 / 3, 0.007):
        message = refused(sender, threshold=threshold, counters=1)
        needed = int(re.search(r"at least (\d+) ", message)[1])
        assert sender(threshold=threshold, counters=needed).settings.counters == needed
        assert needed > 1 / threshold


@pytest.mark.parametrize("scheme", ["fastest", "", None, b"wc"])
def test_an_unknown_scheme_lists_the_known_ones(scheme):
    message = refused(ks.Sender, scheme, 10)
    assert message.startswith(f"unknown scheme {scheme!r}; known are ")
    aliases = ("(kg)", "(sg)", "(pkg)", "(rr)", "(wc)", "(dc)", "(pk)")
    for name in (*ks.SCHEMES, *aliases, "planned", "look-ahead", "fish", "hot-key-fanout", "salting"):
        assert name in message
    assert refused(ks.simulate, HASHES, scheme, 10) == message


@pytest.mark.parametrize(
    ("scheme", "instead"),
    [
        ("PLANNED", "planned needs the whole batch: use keyspread.plan"),
        ("look-ahead", "look-ahead needs a sender's part of a batch: use keyspread.simulate or keyspread.spark.spread"),
        ("fish", "fish is only simulated, for comparison: use keyspread.simulate"),
    ],
)
def test_a_sender_says_what_to_use_for_a_scheme_that_it_cannot_run(scheme, instead):
    assert refused(ks.Sender, scheme, 10) == instead


@pytest.mark.parametrize(
    "call",
    [
        ks.Sender("key", 10).route,
        ks.SpaceSaving(10).offer_many,
        lambda hashes: ks.plan(hashes, 10),
        ks.plan(HASHES, 10).route,
        lambda hashes: ks.simulate(hashes, "wc", 10),
    ],
)
def test_every_function_checks_its_hashes(call):
    assert refused(call, np.array([1.0, 2.0])) == (
        "hashes must be a one-dimensional array of int64 or uint64, got float64; "
        "keyspread.hash_keys makes one from keys"
    )


@pytest.mark.parametrize(
    ("hashes", "got"),
    [
        (np.array([1, 2], np.int32), "int32"),
        (np.array([True]), "bool"),
        (["a", "b"], "<U1"),
        (np.array([None, 1]), "object"),
        (np.array([[1, 2]]), "2 dimensions of int64"),
        (np.int64(5), "a single int64"),
        (None, "a single object"),
        (np.array([1, 2]).astype(">i8"), ">i8"),
    ],
    ids=str,
)
def test_hashes(hashes, got):
    assert f"uint64, got {got}; " in refused(sender().route, hashes)


def test_refused_hashes_leave_the_sender_as_it_was():
    routing = sender()
    routing.route(HASHES)
    before = routing.snapshot()
    refused(routing.route, HASHES.astype(float))
    assert routing.snapshot() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ks.SpaceSaving(0), "capacity must be at least 1, got 0"),
        (lambda: ks.SpaceSaving(9).offer(1, -1), "count must be at least 0, got -1"),
        (lambda: ks.SpaceSaving(9).offer("a"), "a hash must be a whole number, got 'a'"),
        (
            lambda: ks.SpaceSaving(9).offer(2**64),
            "a hash must be at most 18446744073709551615, got 18446744073709551616",
        ),
        (lambda: ks.SpaceSaving(9).bounds(1.0), "a hash must be a whole number, got 1.0"),
        (lambda: ks.SpaceSaving(9).top(-1), "k must be at least 0, got -1"),
        (lambda: ks.SpaceSaving(9).merge(5), "merge needs another SpaceSaving, got int"),
        (lambda: ks.find_choices(["a"], 10), "head_probabilities must be numbers, got ['a']"),
        (lambda: ks.find_choices([[0.1]], 10), "head_probabilities must be one-dimensional, got 2 dimensions"),
        (lambda: expected_workers(10, -1), "draws must not be negative, got -1"),
        (lambda: ks.simulate(HASHES, "wc", 10, sources=0), "sources must be at least 1, got 0"),
        (lambda: ks.simulate(HASHES, "wc", 10, windows="many"), "windows must be a whole number, got 'many'"),
        (lambda: ks.simulate(HASHES, "planned", 10, seed=-1), "seed must be at least 0, got -1"),
        (lambda: ks.plan(HASHES, 10, buckets=9), "buckets must be at least 10, got 9"),
        (
            lambda: ks.plan(HASHES, 10, previous="old"),
            "previous must be a Plan, got str; Plan.from_json reads a stored one",
        ),
        (lambda: ks.plan(HASHES, 10).route(HASHES, start=-1), "start must be at least 0, got -1"),
    ],
)
def test_other_parameters(call, message):
    assert refused(call) == message


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ([0.5, -0.1], "got 2 from -0.1 to 0.5 with sum 0.4"),
        ([1.5], "got 1 from 1.5 to 1.5 with sum 1.5"),
        ([0.6, 0.6], "got 2 from 0.6 to 0.6 with sum 1.2"),
        ([NAN], "got 1 from nan to nan with sum nan"),
    ],
)
def test_shares_of_a_head(head, message):
    opening = "head_probabilities must each be between 0 and 1 and sum to at most 1, "
    assert refused(ks.find_choices, head, 10) == opening + message


def test_a_misspelt_option_is_not_ignored():
    for call in (ks.Sender, lambda *a, **o: ks.simulate(HASHES, *a, **o), lambda *a, **o: replica_model([1], 9, **o)):
        with pytest.raises(TypeError, match="treshold"):
            call("d-choices", 10, treshold=0.1)


def test_a_total_beyond_64_bits_is_refused_before_anything_changes():
    summary = ks.SpaceSaving(3)
    summary.offer(7, 2**62)
    limit = f"the total must be at most {2**62}, got {2**62} + "
    assert refused(summary.offer, 7, 2**62) == f"{limit}{2**62}; use a larger unit of weight"
    assert refused(summary.offer, 8, 1).startswith(limit)
    assert refused(summary.offer_many, np.array([8])).startswith(limit)
    assert refused(summary.offer_many, np.array([8]), np.array([5])).startswith(limit)
    assert refused(summary.merge, summary).startswith("the total of both must be at most")
    assert (summary.total, summary.top(3)) == (2**62, [(7, 2**62, 2**62)])


@pytest.mark.parametrize("scheme", ["key", "w-choices"])
def test_loads_beyond_64_bits_are_refused_before_anything_changes(scheme):
    routing = ks.Sender(scheme, 2)
    routing.route(np.arange(3), np.full(3, 2**32))
    routing._state.balance.loads[0] = 2**62 - 2**34  # as after a billion such messages
    before = routing.snapshot()
    message = refused(routing.route, np.arange(9), np.full(9, 2**32))
    assert message.startswith(f"the sum of all loads must be at most {2**62}, got ")
    assert routing.snapshot() == before
