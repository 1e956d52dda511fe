"""Wrong input is refused with one line that names the parameter, the value and the remedy, and changes nothing."""

import math
import re

import numpy as np
import pytest

import keyspread as ks

HASHES = np.arange(20)


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


TAKE_WORKERS = [
    pytest.param(lambda workers: ks.Sender("w-choices", workers), id="Sender"),
    pytest.param(lambda workers: ks.Sender("key", workers), id="Sender of a scheme without a head"),
    pytest.param(lambda workers: ks.find_choices([0.5], workers), id="find_choices"),
    pytest.param(lambda workers: ks.expected_workers(workers, 3), id="expected_workers"),
    pytest.param(lambda workers: ks.replica_model([1, 2], workers, "wc"), id="replica_model"),
    pytest.param(lambda workers: ks.replica_model([1, 2], workers, "planned"), id="replica_model of planned"),
    pytest.param(lambda workers: ks.plan(HASHES, workers), id="plan"),
    pytest.param(lambda workers: ks.simulate(HASHES, "wc", workers), id="simulate"),
    pytest.param(lambda workers: ks.simulate(HASHES, "planned", workers), id="simulate planned"),
]


@pytest.mark.parametrize("call", TAKE_WORKERS)
@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (0, "workers must be at least 1, got 0"),
        (-3, "workers must be at least 1, got -3"),
        (2.5, "workers must be a whole number, got 2.5"),
        (4.0, "workers must be a whole number, got 4.0"),
        ("4", "workers must be a whole number, got '4'"),
        (None, "workers must be a whole number, got None"),
        (True, "workers must be a whole number, got True"),
        (math.nan, "workers must be a whole number, got nan"),
        (2**31, "workers must be at most 100000, got 2147483648"),
    ],
)
def test_workers(call, workers, message):
    assert refused(call, workers) == message


def test_a_whole_number_of_numpy_is_a_whole_number():
    assert ks.Sender("wc", np.int32(4), seed=np.uint8(3), source=np.int64(2)).settings.workers == 4


TAKE_A_THRESHOLD = [
    pytest.param(lambda threshold: ks.Sender("w-choices", 10, threshold=threshold), id="Sender"),
    pytest.param(lambda threshold: ks.SpaceSaving(10).head(threshold), id="SpaceSaving.head"),
    pytest.param(lambda threshold: ks.plan(HASHES, 10, threshold=threshold), id="plan"),
    pytest.param(lambda threshold: ks.simulate(HASHES, "wc", 10, threshold=threshold), id="simulate"),
    pytest.param(lambda threshold: ks.simulate(HASHES, "planned", 10, threshold=threshold), id="simulate planned"),
    pytest.param(lambda threshold: ks.replica_model([1, 2], 10, "wc", threshold=threshold), id="replica_model"),
    pytest.param(
        lambda threshold: ks.replica_model([1, 2], 10, "planned", threshold=threshold), id="replica_model of planned"
    ),
]


@pytest.mark.parametrize("call", TAKE_A_THRESHOLD)
@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (0, "threshold is a share of the messages, above 0 and at most 1, got 0"),
        (0.0, "threshold is a share of the messages, above 0 and at most 1, got 0.0"),
        (-0.1, "threshold is a share of the messages, above 0 and at most 1, got -0.1"),
        (1.01, "threshold is a share of the messages, above 0 and at most 1, got 1.01"),
        (math.nan, "threshold must be a finite number, got nan"),
        (math.inf, "threshold must be a finite number, got inf"),
        ("high", "threshold must be a number, got 'high'"),
    ],
)
def test_threshold(call, threshold, message):
    assert refused(call, threshold) == message


@pytest.mark.parametrize("threshold", [1e-9, 1e-300, 5e-324])
def test_a_threshold_that_needs_too_many_counters(threshold):
    for counters in (None, 1000):
        message = refused(ks.Sender, "w-choices", 10, threshold=threshold, counters=counters)
        assert f"threshold {threshold:g}" in message
        assert "counters" in message


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        (-1e-9, "tolerance must not be negative, got -1e-09"),
        (math.nan, "tolerance must be a finite number, got nan"),
        ("small", "tolerance must be a number, got 'small'"),
        (None, "tolerance must be a number, got None"),
    ],
)
def test_tolerance(tolerance, message):
    assert refused(ks.Sender, "d-choices", 10, tolerance=tolerance) == message
    assert refused(ks.find_choices, [0.5], 10, tolerance) == message
    assert refused(ks.simulate, HASHES, "dc", 10, tolerance=tolerance) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"counters": 50},
            "counters 50 is too small for threshold 0.02: it needs at least 51 (the default is 100)",
        ),
        (
            {"counters": 10, "threshold": 0.1},
            "counters 10 is too small for threshold 0.1: it needs at least 11 (the default is 20)",
        ),
        ({"counters": 0}, "counters must be at least 1, got 0"),
        ({"counters": 99.5}, "counters must be a whole number, got 99.5"),
        ({"counters": 2**40}, "counters must be at most 67108864, got 1099511627776"),
        ({"counters": 200, "capacity": 200}, "capacity is the old name of counters, got both: leave out capacity"),
    ],
)
def test_counters(options, message):
    assert refused(ks.Sender, "w-choices", 10, **options) == message


def test_the_number_of_counters_that_is_said_to_be_needed_is_enough():
    for threshold in (1.0, 0.5, 0.3, 0.1, 0.02, 1 / 3, 0.007):
        message = refused(ks.Sender, "w-choices", 10, threshold=threshold, counters=1)
        needed = int(re.search(r"at least (\d+) ", message)[1])
        assert ks.Sender("w-choices", 10, threshold=threshold, counters=needed).settings.counters == needed
        assert needed > 1 / threshold


@pytest.mark.parametrize("scheme", ["fastest", "", "w_choices", None, 5, b"wc"])
def test_an_unknown_scheme_lists_the_known_ones(scheme):
    message = refused(ks.Sender, scheme, 10)
    assert message.startswith(f"unknown scheme {scheme!r}; known are ")
    aliases = ("(kg)", "(sg)", "(pkg)", "(rr)", "(wc)", "(dc)", "(pk)")
    for name in (*ks.SCHEMES, *aliases, "planned", "look-ahead", "fish", "hot-key-fanout", "salting"):
        assert name in message
    assert refused(ks.simulate, HASHES, scheme, 10) == message
    assert refused(ks.replica_model, [1, 2], 10, scheme) == message


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("planned", "planned needs the whole batch: use keyspread.plan"),
        ("PLANNED", "planned needs the whole batch: use keyspread.plan"),
        (
            "look-ahead",
            "look-ahead needs a sender's part of a batch: use keyspread.simulate or keyspread.spark.spread",
        ),
        ("fish", "fish is only simulated, for comparison: use keyspread.simulate"),
    ],
)
def test_a_sender_says_what_to_use_for_a_scheme_that_it_cannot_run(scheme, message):
    assert refused(ks.Sender, scheme, 10) == message


@pytest.mark.parametrize("scheme", ["look-ahead", "salting"])
def test_the_model_of_replicas_says_which_schemes_it_does_not_know(scheme):
    assert refused(ks.replica_model, [1, 2], 10, scheme) == (
        f"there is no model of the replicas of {scheme}: use keyspread.simulate"
    )


TAKE_HASHES = [
    pytest.param(lambda hashes: ks.Sender("w-choices", 10).route(hashes), id="Sender.route"),
    pytest.param(lambda hashes: ks.Sender("key", 10).route(hashes), id="Sender.route of key"),
    pytest.param(lambda hashes: ks.SpaceSaving(10).offer_many(hashes), id="SpaceSaving.offer_many"),
    pytest.param(lambda hashes: ks.plan(hashes, 10), id="plan"),
    pytest.param(lambda hashes: ks.plan(HASHES, 10).route(hashes), id="Plan.route"),
    pytest.param(lambda hashes: ks.simulate(hashes, "wc", 10), id="simulate"),
]


@pytest.mark.parametrize("call", TAKE_HASHES)
@pytest.mark.parametrize(
    ("hashes", "got"),
    [
        (np.array([1.0, 2.0]), "float64"),
        (np.array([1, 2], np.int32), "int32"),
        (np.array([True]), "bool"),
        (np.array(["a"]), "<U1"),
        (["a", "b"], "<U1"),
        (np.array([None, 1]), "object"),
        (np.array([[1, 2]]), "2 dimensions of int64"),
        (np.int64(5), "a single int64"),
        (None, "a single object"),
        (np.array([1, 2]).astype(">i8"), ">i8"),
        (np.array(["2020-01-01"], "datetime64[s]"), "datetime64[s]"),
    ],
    ids=str,
)
def test_hashes(call, hashes, got):
    assert refused(call, hashes) == (
        f"hashes must be a one-dimensional array of int64 or uint64, got {got}; keyspread.hash_keys makes one from keys"
    )


def test_refused_hashes_leave_the_sender_as_it_was():
    sender = ks.Sender("w-choices", 10)
    sender.route(HASHES)
    before = sender.snapshot()
    refused(sender.route, HASHES.astype(float))
    assert sender.snapshot() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": -1}, "source must be at least 0, got -1"),
        ({"source": 1.5}, "source must be a whole number, got 1.5"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": "x"}, "seed must be a whole number, got 'x'"),
        ({"seed": 2**63 + 1}, "seed must be at most 9223372036854775808, got 9223372036854775809"),
        ({"choices": 0}, "choices must be at least 1, got 0"),
        ({"choices": 2.5}, "choices must be a whole number, got 2.5"),
        ({"half_life": 0}, "half_life must be at least 1, got 0"),
        ({"half_life": -5}, "half_life must be at least 1, got -5"),
        ({"half_life": 2.5}, "half_life must be a whole number, got 2.5"),
        ({"half_life": math.nan}, "half_life must be a whole number, got nan"),
        ({"half_life": math.inf}, "half_life must be a whole number, got inf"),
        ({"half_life": np.array([1, 2])}, "half_life must be a whole number, got array([1, 2])"),
        ({"half_life": "soon"}, "half_life must be a number of messages, 'auto' or None, got 'soon'"),
        ({"half_life": []}, "half_life must be a whole number, got []"),
    ],
)
def test_other_parameters_of_a_sender(options, message):
    for scheme in ("key", "d-choices"):
        assert refused(ks.Sender, scheme, 10, **options) == message


def test_greedy_says_what_it_needs():
    expected = "scheme 'greedy' needs choices, the number of workers a hot key may use"
    assert refused(ks.Sender, "greedy", 10) == expected
    assert refused(ks.simulate, HASHES, "greedy", 10) == expected
    assert refused(ks.replica_model, [1, 2], 10, "greedy") == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ks.SpaceSaving(0), "capacity must be at least 1, got 0"),
        (lambda: ks.SpaceSaving("9"), "capacity must be a whole number, got '9'"),
        (lambda: ks.SpaceSaving(9).offer(1, -1), "count must be at least 0, got -1"),
        (lambda: ks.SpaceSaving(9).offer(1, 1.5), "count must be a whole number, got 1.5"),
        (lambda: ks.SpaceSaving(9).offer("a"), "a hash must be a whole number, got 'a'"),
        (
            lambda: ks.SpaceSaving(9).offer(2**64),
            "a hash must be at most 18446744073709551615, got 18446744073709551616",
        ),
        (lambda: ks.SpaceSaving(9).bounds(1.0), "a hash must be a whole number, got 1.0"),
        (lambda: ks.SpaceSaving(9).top(-1), "k must be at least 0, got -1"),
    ],
)
def test_space_saving(call, message):
    assert refused(call) == message


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ([0.5, -0.1], "got 2 from -0.1 to 0.5 with sum 0.4"),
        ([1.5], "got 1 from 1.5 to 1.5 with sum 1.5"),
        ([0.6, 0.6], "got 2 from 0.6 to 0.6 with sum 1.2"),
        ([math.nan], "got 1 from nan to nan with sum nan"),
    ],
)
def test_shares_of_a_head(head, message):
    opening = "head_probabilities must each be between 0 and 1 and sum to at most 1, "
    assert refused(ks.find_choices, head, 10) == opening + message


def test_heads_that_are_no_shares():
    assert refused(ks.find_choices, ["a"], 10) == "head_probabilities must be numbers, got ['a']"
    assert refused(ks.find_choices, [[0.1]], 10) == "head_probabilities must be one-dimensional, got 2 dimensions"
    assert refused(ks.find_choices, 0.5, 10) == "head_probabilities must be one-dimensional, got 0 dimensions"


@pytest.mark.parametrize("counts", [[-1], [math.nan], [math.inf], [[1, 2]], 5, ["a"], [None, "b"]], ids=str)
@pytest.mark.parametrize("scheme", ["w-choices", "planned"])
def test_counts_of_the_model(counts, scheme):
    assert refused(ks.replica_model, counts, 10, scheme) == (
        "counts must be a one-dimensional array of numbers that are not negative"
    )


def test_an_unknown_option_of_the_model_is_named():
    assert refused(ks.replica_model, [1, 2], 10, "wc", treshold=0.1).startswith("unknown option 'treshold'; ")


def test_draws():
    assert refused(ks.expected_workers, 10, -1) == "draws must not be negative, got -1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": 0}, "sources must be at least 1, got 0"),
        ({"sources": 2.5}, "sources must be a whole number, got 2.5"),
        ({"windows": 0}, "windows must be at least 1, got 0"),
        ({"windows": "many"}, "windows must be a whole number, got 'many'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
@pytest.mark.parametrize("scheme", ["w-choices", "planned"])
def test_parameters_of_a_simulation(options, message, scheme):
    assert refused(ks.simulate, HASHES, scheme, 10, **options) == message


@pytest.mark.parametrize("scheme", ["w-choices", "planned"])
def test_an_unknown_option_is_not_ignored(scheme):
    """A misspelt option must not run with the default instead."""
    with pytest.raises(ks.InputError, match="unknown option 'treshold'"):
        ks.simulate(HASHES, scheme, 10, treshold=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ks.plan(HASHES, 10, buckets=9), "buckets must be at least 10, got 9"),
        (lambda: ks.plan(HASHES, 10, buckets=2**40), "buckets must be at most 16777216, got 1099511627776"),
        (lambda: ks.plan(HASHES, 10, buckets="all"), "buckets must be a whole number, got 'all'"),
        (lambda: ks.plan(HASHES, 10).route(HASHES, start=-1), "start must be at least 0, got -1"),
        (lambda: ks.plan(HASHES, 10).route(HASHES, start=0.5), "start must be a whole number, got 0.5"),
    ],
)
def test_parameters_of_a_plan(call, message):
    assert refused(call) == message


@pytest.mark.parametrize("capacities", [[1e308, 1e308, 1], [1e-320, 1, 1], [1, 1, 1e10]])
def test_capacities_that_differ_too_much(capacities):
    with pytest.raises(ks.InputError, match="capacities must be within a factor of 1e\\+09 of each other"):
        ks.Sender("pk", 3, capacities=capacities)
    assert ks.Sender("pk", 3, capacities=[1e308, 1e308, 1e307]).settings.capacities


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


@pytest.mark.parametrize("scheme", ks.SCHEMES)
def test_loads_beyond_64_bits_are_refused_before_anything_changes(scheme):
    sender = ks.Sender(scheme, 2, choices=2)
    sender.route(np.arange(3), np.full(3, 2**32))
    sender._state.balance.loads[0] = 2**62 - 2**34  # as after a billion such messages
    before = sender.snapshot()
    message = refused(sender.route, np.arange(9), np.full(9, 2**32))
    assert message.startswith(f"the sum of all loads must be at most {2**62}, got ")
    assert sender.snapshot() == before
