"""The simulator: messages are routed by the senders in turn, and every number equals a naive count."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread import SCHEMES, Plan, Sender, plan, simulate
from keyspread.evaluation.metrics import replica_model
from keyspread.planned import look_ahead
from keyspread.streams import read_stream, zipf

ALL = [*SCHEMES, "planned"]
FIELDS = {
    "scheme": str,
    "workers": int,
    "sources": int,
    "seed": int,
    "messages": int,
    "keys": int,
    "threshold": float,
    "imbalance": float,
    "mean_imbalance": float,
    "windowed_imbalance": float,
    "loads": list,
    "head_load": list,
    "tail_load": list,
    "replicas": int,
    "head_replicas": int,
    "choices": list,
    "sender_error": float,
    "imbalance_over_time": list,
    "window_imbalance": list,
}


def check_every_number(result, stream, windows):
    """Compare every number of the result with a naive count of its assignment."""
    keys, routed, workers = stream.tolist(), result.assignment.tolist(), result.workers
    ends = [math.floor((w + 1) * len(keys) / min(windows, len(keys))) for w in range(min(windows, len(keys)))]
    begins = [0, *ends[:-1]] if ends else []
    over_time = [naive.imbalance(routed[:end], workers) for end in ends]
    by_window = [naive.imbalance(routed[begin:end], workers) for begin, end in zip(begins, ends, strict=True)]
    hot = naive.hot_keys(keys, result.threshold)
    of_hot = [worker for key, worker in zip(keys, routed, strict=True) if key in hot]
    close = {"rel": 1e-9, "abs": 1e-12}
    assert result.messages == len(keys)
    assert result.keys == len(set(keys))
    assert result.imbalance == pytest.approx(naive.imbalance(routed, workers), **close)
    assert result.imbalance_over_time.tolist() == pytest.approx(over_time, **close)
    assert result.window_imbalance.tolist() == pytest.approx(by_window, **close)
    assert result.mean_imbalance == pytest.approx(np.mean(over_time) if over_time else 0, **close)
    assert result.windowed_imbalance == pytest.approx(np.mean(by_window) if by_window else 0, **close)
    assert result.loads.tolist() == [routed.count(worker) for worker in range(workers)]
    assert result.head_load.tolist() == [of_hot.count(worker) for worker in range(workers)]
    assert len(result.choices) == result.sources
    assert result.sender_error == pytest.approx(sender_error(result), **close)
    assert (result.head_load + result.tail_load).tolist() == result.loads.tolist()
    assert result.replicas == naive.replicas(keys, routed)
    assert result.head_replicas == len({pair for pair in zip(keys, routed, strict=True) if pair[0] in hot})


def sender_error(result):
    """Return the largest error of a sender's estimate of a worker's share, from the assignment alone."""
    if result.scheme == "planned":
        return 0
    routed, workers = result.assignment.tolist(), result.workers
    errors = [0]
    for source in range(result.sources):
        own = routed[source :: result.sources]
        for worker in range(workers) if own else ():
            true = routed.count(worker) / len(routed)
            errors.append(abs(own.count(worker) / len(own) - true) / max(true, 1 / workers))
    return max(errors)


def choices(scheme, number):
    return {"choices": number} if scheme == "greedy" else {}


@pytest.mark.parametrize("scheme", ALL)
@pytest.mark.parametrize(("messages", "windows", "sources"), [(2003, 7, 3), (30, 50, 1), (3, 2, 5)])
def test_every_number_is_what_the_assignment_says(scheme, messages, windows, sources):
    stream = zipf(1.2, 300, messages, seed=messages)
    result = simulate(
        stream, scheme, 12, windows=windows, sources=sources, seed=3, assignment=True, **choices(scheme, 4)
    )
    check_every_number(result, stream, windows)
    assert (result.scheme, result.workers, result.sources, result.seed) == (scheme, 12, sources, 3)
    assert result.threshold == 1 / 60


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(ALL),
    st.lists(st.integers(-2, 12), max_size=80),
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(1, 100),
    st.sampled_from([None, 0.1, 0.5, 1.0]),
)
def test_every_number_for_any_stream(scheme, stream, workers, sources, windows, threshold):
    stream = np.array(stream, np.int64)
    options = {"sources": sources, "windows": windows, "threshold": threshold, "assignment": True, **choices(scheme, 2)}
    check_every_number(simulate(stream, scheme, workers, **options), stream, windows)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_message_i_goes_through_sender_i_mod_s(scheme):
    stream = zipf(1.3, 500, 4001)
    options = {"seed": 8, "half_life": 500, **choices(scheme, 3)}
    result = simulate(stream, scheme, 10, sources=3, assignment=True, **options)
    senders = [Sender(scheme, 10, source=source, **options) for source in range(3)]
    for source, sender in enumerate(senders):
        assert result.assignment[source::3].tolist() == sender.route(stream[source::3]).tolist()
    assert result.choices == tuple(sender.choices for sender in senders)


def test_routing_does_not_depend_on_the_size_of_a_chunk(monkeypatch):
    stream = zipf(1.3, 500, 4001)
    at_once = simulate(stream, "dc", 10, sources=3, assignment=True).assignment
    monkeypatch.setattr("keyspread.evaluation.simulate._CHUNK", 100)
    assert simulate(stream, "dc", 10, sources=3, assignment=True).assignment.tolist() == at_once.tolist()


def test_planned_plans_every_window_from_itself():
    stream = zipf(1.3, 500, 3000)
    result = simulate(stream, "planned", 10, windows=4, assignment=True, threshold=0.03, buckets=320)
    previous, routed, most = None, [], 1
    for window in np.split(stream, 4):
        previous = plan(window, 10, previous=previous, threshold=0.03, buckets=320)
        assert isinstance(previous, Plan)
        routed += previous.route(window).tolist()
        most = max([most, *(len(key.workers) for key in previous.head)])
    assert result.choices == (most,) * 5
    assert result.assignment.tolist() == routed
    assert result.threshold == 0.03
    assert result.windowed_imbalance <= 1e-3


@pytest.mark.parametrize("scheme", ALL)
def test_no_messages_give_an_empty_result(scheme):
    result = simulate(np.empty(0, np.int64), scheme, 5, assignment=True, **choices(scheme, 2))
    assert (result.messages, result.keys, result.replicas, result.head_replicas) == (0, 0, 0, 0)
    assert (result.imbalance, result.mean_imbalance, result.windowed_imbalance) == (0, 0, 0)
    assert result.loads.tolist() == result.head_load.tolist() == [0] * 5
    assert result.imbalance_over_time.size == result.window_imbalance.size == result.assignment.size == 0


@pytest.mark.parametrize("scheme", ["d-choices", "planned"])
def test_the_result_is_ready_for_json(scheme):
    result = simulate(zipf(1.2, 50, 500), scheme, 4, assignment=True)
    content = result.to_dict()
    assert {name: type(value) for name, value in content.items()} == FIELDS
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["loads"] == result.loads.tolist()


@pytest.mark.parametrize("scheme", ["w-choices", "planned"])
def test_progress_is_called_with_the_number_of_messages_routed(scheme, monkeypatch):
    monkeypatch.setattr("keyspread.evaluation.simulate._CHUNK", 100)
    calls = []
    simulate(np.arange(1050), scheme, 4, sources=2, windows=10, progress=calls.append)
    assert len(calls) > 5
    assert calls == sorted(calls)
    assert 0 < calls[0] < calls[-1] == 1050


def test_the_same_seed_gives_the_same_result_and_another_another():
    stream = zipf(1.2, 500, 3000)

    def outcome(seed):
        return simulate(stream, "d-choices", 10, seed=seed).to_dict()

    assert outcome(1) == outcome(1)
    assert outcome(1)["loads"] != outcome(2)["loads"]


# The purpose of the schemes, at modest sizes; benchmarks/ measures the full sizes.


@pytest.mark.parametrize(("workers", "skew"), [(100, 0.1), (50, 0.8), (100, 1.4), (50, 2.0)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_replicas_stay_within_the_model(scheme, workers, skew):
    stream = zipf(skew, 10_000, 200_000, seed=1)
    counts = np.unique(stream, return_counts=True)[1]
    measured = simulate(stream, scheme, workers, **choices(scheme, 6)).replicas
    assert measured <= replica_model(counts, workers, scheme, **choices(scheme, 6))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["key", "shuffle", "partial-key", "planned"]),
    st.lists(st.integers(0, 12), max_size=120),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from([None, 0.1, 0.5, 1.0]),
)
def test_the_model_bounds_the_replicas_of_any_stream_where_no_head_is_learnt(
    scheme, stream, workers, sources, threshold
):
    stream = np.array(stream, np.int64)
    counts = np.unique(stream, return_counts=True)[1]
    measured = simulate(stream, scheme, workers, sources=sources, windows=1, threshold=threshold).replicas
    assert measured <= replica_model(counts, workers, scheme, threshold=threshold)


HOT_FOR_A_WHILE = np.repeat(np.arange(500), 200)  # each key has 1/500 of the stream, and all messages while it lasts
CLOSE_TO_THE_THRESHOLD = np.random.default_rng(1).integers(0, 300, 100_000)  # 1/300 each, below 1/250


@pytest.mark.parametrize("stream", [HOT_FOR_A_WHILE, CLOSE_TO_THE_THRESHOLD])
def test_keys_that_are_treated_as_hot_for_a_while_make_more_replicas_than_the_model_counts(stream):
    """The model knows the counts of the whole stream only, and its docstring names these exceptions."""
    counts = np.unique(stream, return_counts=True)[1]
    assert simulate(stream, "w-choices", 50).replicas > 1.5 * replica_model(counts, 50, "w-choices")


def test_replicas_of_one_planned_batch_stay_within_the_model():
    for skew in (0.5, 1.0, 2.0):
        stream = zipf(skew, 10_000, 300_000)
        counts = np.unique(stream, return_counts=True)[1]
        result = simulate(stream, "planned", 50, windows=1)
        assert result.replicas <= replica_model(counts, 50, "planned")
        assert result.imbalance <= 1 / 300_000


def test_words_of_a_real_text_are_balanced_by_the_head_schemes_only(shared_data):
    stream = read_stream(shared_data / "words.tsv.gz").hashes[:1_000_000]
    assert simulate(stream, "partial-key", 100).imbalance > 1e-2
    assert simulate(stream, "w-choices", 100).imbalance < 5e-4
    assert simulate(stream, "d-choices", 100).imbalance < 1e-3
    assert simulate(stream, "planned", 100).windowed_imbalance < 1e-4


@pytest.mark.parametrize("scheme", ["key", "partial-key", "w-choices", "per-key", "planned", "look-ahead"])
def test_weights_are_in_every_measure(scheme):
    random = np.random.default_rng(2)
    stream, weights = zipf(1.3, 500, 6000, seed=1), random.integers(0, 100, 6000)
    result = simulate(stream, scheme, 4, weights=weights, windows=5, assignment=True)
    loads = np.bincount(result.assignment, weights=weights, minlength=4)
    assert result.loads.tolist() == loads.tolist()
    assert result.head_load.sum() + result.tail_load.sum() == weights.sum()
    assert result.imbalance == pytest.approx(loads.max() / weights.sum() - 1 / 4)
    windows = np.add.reduceat(np.eye(4)[result.assignment] * weights[:, None], range(0, 6000, 1200))
    totals = np.add.reduceat(weights, range(0, 6000, 1200))
    assert result.window_imbalance == pytest.approx(windows.max(axis=1) / totals - 1 / 4)
    by_key = [int(weights[stream == key].sum()) for key in np.unique(stream)]
    assert result.head_load.sum() == sum(weight for weight in by_key if weight >= weights.sum() / 20)


def test_look_ahead_takes_message_i_for_source_i_mod_s():
    stream = np.repeat([1, 2, 3, 4], [750, 751, 750, 751])  # a window each; not all of them begin with source 0
    result = simulate(stream, "look-ahead", 7, sources=3, windows=4, assignment=True)
    routed = np.empty(3002, np.int32)
    for begin, end in pairwise([0, 750, 1501, 2251, 3002]):
        for source in range(3):
            own = [i for i in range(begin, end) if i % 3 == source]
            routed[own] = look_ahead.route(stream[own], 7, source=source)
    assert result.assignment.tolist() == routed.tolist()
