"""A live benchmark without a broker: its messages, its workers, the model, and when a scheme gets no higher rate."""

import json

import numpy as np
import pytest

pytest.importorskip("pyspark")

import keyspread as ks
from keyspread.errors import InputError
from keyspread.paper.deployment.measurements import Deployment
from keyspread.paper.live import measure as bench
from keyspread.paper.live.measure import model
from keyspread.paper.live.setup import LiveSetup, Load, Measured, fitting
from keyspread.paper.runs.queueing import Waiting

LOAD = Load(2.0, (20.0, 100.0), seconds=4, milliseconds=20, sources=2)


def measured(latency, workers, loads, rate=10.0, work=0.02):
    return Measured(
        rate, np.array(latency, float), np.array(workers, np.int32), np.array(loads), work, Waiting(0, 0, 0, 0, 0)
    )


@pytest.mark.parametrize("scheme", ["key", "d-choices"])
def test_the_model_routes_as_one_sender_per_partition(scheme):
    hashes = LOAD.hashes()
    workers = np.empty(hashes.size, np.int32)
    for source in range(2):
        workers[source::2] = ks.Sender(scheme, 4, source=source).route(hashes[source::2])
    first, second = model(scheme, 4, LOAD)
    assert first.loads.tolist() == np.bincount(workers[:200], minlength=4).tolist()
    assert second.workers.tolist() == workers[400:].tolist()
    assert first.waiting.p50 == pytest.approx(0.02)


def test_the_model_saturates_by_key_and_not_by_d_choices():
    _, by_key = model("key", 4, LOAD)
    _, spread = model("d-choices", 4, LOAD)
    assert by_key.is_saturated  # 61 of 100 messages per second, and it can do 50
    assert by_key.in_use > 1
    assert by_key.growth == pytest.approx(by_key.in_use - 1, abs=0.1)
    assert not spread.is_saturated
    assert spread.waiting.p99 < by_key.waiting.p50


def test_a_worker_is_saturated_if_its_own_latency_grows():
    growing = np.arange(60) / 10 * 0.3  # 0.3 s more per second of sending
    workers = np.arange(60) % 2
    assert measured(np.where(workers == 0, growing, 0.02), workers, [31, 30]).is_saturated
    assert not measured(np.where(workers == 1, growing, 0.02), workers, [31, 30]).is_saturated  # not the busiest
    assert not measured(np.full(60, 3.0), workers, [30, 30]).is_saturated  # slow, but it keeps up
    assert measured(np.full(60, 0.02), workers, [60, 0], rate=50).is_saturated  # 50 × 20 ms of work per second
    assert measured([0.1, 0.2], [0, 0], [2, 0]).growth == 0  # too few to tell


def test_a_scheme_gets_no_higher_rate_once_it_is_saturated_and_its_query_stops():
    ended = []

    def rates():
        try:
            for loads in ([1, 1], [9, 1], [1, 1]):
                yield measured([0.02] * 9, [0] * 9, loads, rate=60)
        finally:
            ended.append(True)

    found = list(bench._until_saturated(rates()))
    assert [one.is_saturated for one in found] == [False, True]
    assert ended == [True]


@pytest.mark.parametrize(
    ("slots", "given", "found"),
    [
        (16, (None, None), (11, 4)),
        (16, (8, None), (8, 7)),
        (16, (8, 3), (8, 3)),
        (129, (None, None), (80, 48)),
        (1000, (None, None), (80, 48)),
        (1, (None, None), (1, 1)),
    ],
)
def test_as_many_workers_as_there_are_slots_for(slots, given, found):
    assert fitting(slots, *given) == found


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": 12}, "Spark has 16 slots, and all tasks of a real-time query run at once: 4 senders, 12 workers"),
        ({"schemes": ("dc", "dc")}, "schemes must have one or more values, each once, got dc, dc"),
        ({"schemes": ("planned",)}, "planned does not work with realtime=True, because it counts a whole batch"),
        ({"rates": (20, 10)}, "rates must be above 0 and rising, got 20, 10"),
        ({"rates": (0,)}, "rates must be above 0 and rising, got 0"),
        ({"milliseconds": 0}, "milliseconds must be above 0, got 0"),
        ({"seconds": 0}, "arrivals must be above 0, got 0"),
    ],
)
def test_what_cannot_run_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        LiveSetup(**{"workers": 11, "sources": 4, "slots": 16, **wrong})


def test_figures_of_batches_do_not_take_a_live_measurement(live_deployment):
    stored = json.loads(json.dumps({"format": 1, **live_deployment.to_dict()}))
    assert stored["limits"][0]["saturated"] == 100
    assert stored["why_not_more_workers"]
    with pytest.raises(InputError, match="was measured with --realtime, which has no throughput: measure without it"):
        Deployment.from_dict(stored)
