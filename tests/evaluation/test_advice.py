"""The advice follows from the numbers, allows for chance, and names only schemes of ours."""

from functools import partial

import numpy as np
import pytest

from keyspread.evaluation.compare import ALL, Compared, Sample, advise, compare
from keyspread.sender.peers import PEERS
from keyspread.sender.registry import DESCRIPTORS, Kind
from keyspread.streams import read_stream, zipf
from keyspread.streams.encoded import Encoded

BASELINES = [scheme.name for scheme in DESCRIPTORS if scheme.kind is Kind.BASELINE]
MANY = partial(Sample, messages=50_000_000, windows=50, keys=1_000_000)
NOT_NEEDED = "You do not need keyspread here: "


def one(scheme, windowed, replicas, workers=10):
    return Compared(scheme, windowed, windowed, 1 + windowed * workers, replicas, 1, replicas / 100, 1e6)


def advice_on(stream, workers, schemes=ALL, windows=50, seed=0, **options):
    stream = Encoded.of(stream)
    compared = compare(stream, workers, schemes, windows=windows, seed=seed, **options)
    return advise(compared, Sample(workers, stream.messages, windows, stream.keys))


@pytest.mark.parametrize(
    ("keys", "messages", "workers"),
    [(5000, 100_000, 16), (5000, 400_000, 16), (10_000, 300_000, 50), (500, 100_000, 4), (200, 20_000, 2)],
)
def test_uniform_keys_need_nothing(keys, messages, workers):
    for seed in range(5):
        advice = advice_on(zipf(0.0, keys, messages, seed=seed), workers, ["key", "per-key"], seed=seed)
        assert advice.scheme is None
        assert advice.text.startswith(NOT_NEEDED)


@pytest.mark.parametrize(("skew", "workers"), [(1.0, 50), (1.4, 5), (2.0, 50)])
def test_skewed_keys_get_a_scheme_of_ours(skew, workers):
    advice = advice_on(zipf(skew, 10_000, 300_000), workers, windows=20)
    assert advice.scheme == "planned"
    assert advice.text.startswith("Use planned: the busiest worker has 1.00 × its even share (with key grouping ")
    assert " If messages must be routed one by one, use " in advice.text
    assert not any(f"use {name}:" in advice.text.lower() for name in (*BASELINES, *PEERS))


def test_two_rows_are_too_few():
    advice = advice_on(np.array([1, 2]), 50)
    assert advice.scheme is None
    assert advice.text == (
        "No advice: with 1 message per window, chance alone makes 50 workers uneven; at least 5,000 are "
        "needed: use more messages or fewer workers."
    )
    assert advice_on(np.empty(0, np.int64), 50).text.startswith("No advice: with 0 messages per window")


def test_the_limit_is_100_messages_per_worker_and_window():
    hot = [one("key", 0.3, 100), one("planned", 0.0, 110)]
    assert advise(hot, Sample(10, 50_000, 50, 10_000)).scheme == "planned"
    advice = advise(hot, Sample(10, 49_999, 50, 10_000))
    assert advice.scheme is None
    assert advice.text.startswith(
        "No advice: with 999 messages per window, chance alone makes 10 workers uneven; at least 1,000 "
        "are needed: use more messages, 49 windows or fewer or 9 workers or fewer. "
    )
    assert ", 1 window or 3 workers or fewer." in advise(hot, Sample(10, 1500, 5, 100)).text


def test_few_messages_can_still_show_that_key_grouping_is_uneven():
    few = Sample(10, 49_999, 50, 10_000)
    skewed = advise([one("key", 0.3, 100), one("planned", 0.0, 110)], few).text
    assert " But key grouping is clearly uneven: its busiest worker has 4.00 × its even share, and with " in skewed
    noisy = advise([one("key", 0.1, 100), one("planned", 0.0, 110)], few).text
    assert "clearly" not in noisy


def test_baselines_are_never_recommended():
    every = [one(name, 0.0, 1) for name in BASELINES if name != "key"]
    hot = [one("key", 0.3, 100), *every, one("w-choices", 0.2, 900)]
    assert advise(hot, MANY(10)).scheme == "w-choices"
    assert (
        advice_on(zipf(1.5, 100, 50_000), 5, ["key", "greedy", "w-choices"], windows=5, choices=4).scheme == "w-choices"
    )


@pytest.mark.parametrize("schemes", [PEERS, BASELINES, [*PEERS, *BASELINES]])
def test_without_a_scheme_of_ours_there_is_no_advice(schemes):
    advice = advise([one(name, 0.3, 100) for name in schemes], MANY(10))
    assert advice.scheme is None
    assert advice.text == ("No advice: only baselines and published alternatives were compared; add planned, per-key.")


def test_where_all_are_equal_none_is_recommended():
    advice = advise([one(name, 0.3, 100) for name in ALL], MANY(10))
    assert advice.scheme is None
    assert advice.text == (
        "No scheme is clearly better than key grouping here: the busiest worker has 4.00 × its even share, with "
        "w-choices 4.00 ×."
    )


def test_the_best_is_the_cheapest_that_is_even_enough():
    assert advise([one("w-choices", 0.0, 900), one("d-choices", 0.009, 150)], MANY(10)).scheme == "d-choices"
    assert advise([one("w-choices", 0.05, 900), one("d-choices", 0.2, 150)], MANY(10)).scheme == "w-choices"


def test_the_sentence():
    hot = [one("key", 0.3, 100), one("w-choices", 0.001, 200), one("planned", 0.0, 110)]
    assert advise(hot, MANY(10)).text == (
        "Use planned: the busiest worker has 1.00 × its even share (with key grouping 4.00 ×), at 1.10 replicas per "
        "key. If messages must be routed one by one, use w-choices: 1.01 × at 2.00 replicas per key."
    )
    with_peer = advise([*hot, one("fish", 0.0005, 150)], MANY(10)).text
    assert with_peer.startswith("Use planned:")  # one of ours, even if a peer is better
    assert with_peer.endswith(" fish, a published alternative, is better than w-choices on both counts.")
    with_two = advise([*hot, one("fish", 0.0005, 150), one("salting", 0.0006, 150)], MANY(10)).text
    assert with_two.endswith(" fish and salting, published alternatives, are better than w-choices on both counts.")


@pytest.mark.slow
def test_real_streams(shared_data):
    """Whatever is recommended is one of ours and clearly better than key grouping."""
    names = sorted(path for path in shared_data.rglob("*.tsv.gz"))
    assert names
    for path in names:
        stream = Encoded.of(read_stream(path, limit=500_000).hashes)
        compared = {result.scheme: result for result in compare(stream, 10, windows=10)}
        advice = advise(list(compared.values()), Sample(10, stream.messages, 10, stream.keys))
        assert advice.scheme not in (*BASELINES, *PEERS)
        if advice.scheme is not None:
            assert compared[advice.scheme].busiest <= compared["key"].busiest - 0.1
