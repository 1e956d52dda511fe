"""Measurements: medians, ratios within a round, and a round trip through JSON."""

import json
from dataclasses import replace

import pytest

from keyspread import InputError
from keyspread.paper.deployment.measurements import Deployment, LatencyRun, ThroughputRun, summary
from keyspread.paper.deployment.setup import Prediction, Setup
from keyspread.paper.runs.queueing import Waiting

WAITING = Waiting(0.5, 0.1, 0.2, 0.3, 7)


def run(scheme, repetition, messages, seconds):
    return ThroughputRun(2.0, scheme, repetition, messages, seconds, 0.1, seconds - 0.2, 0.1, 0, 1, 1, 9, 5, 80)


@pytest.fixture
def deployment():
    setup = Setup(skews=(2.0,), schemes=("kg", "sg"), repetitions=3)
    # In the second round, the machine was half as fast for all schemes.
    runs = [run("key", 0, 100, 1), run("key", 1, 100, 2), run("key", 2, 100, 1)]
    runs += [run("shuffle", 0, 1000, 2), run("shuffle", 1, 1000, 4), run("shuffle", 2, 1000, 2.5)]
    predicted = [
        Prediction(2.0, "key", 80, 0.6, 1600.0, 5, WAITING),
        Prediction(2.0, "shuffle", 80, 0.01, 8e4, 9, None),
    ]
    latency = LatencyRun("queues", 2.0, "key", 100, WAITING, 0.06, 1)
    return Deployment(setup, tuple(runs), (latency,), tuple(predicted), "local[80]")


def test_a_ratio_is_taken_within_its_round(deployment):
    key, shuffle = summary(deployment)
    assert (key["ratio"], key["ratio_low"], key["ratio_high"]) == (0.2, 0.2, 0.25)
    assert (shuffle["ratio"], shuffle["ratio_low"], shuffle["ratio_high"]) == (1, 1, 1)
    assert (key["rate"], key["rate_low"], key["rate_high"]) == (100, 50, 100)
    assert key["predicted_ratio"] == pytest.approx(0.02)


def test_without_shuffling_there_are_no_ratios(deployment):
    alone = replace(deployment, setup=Setup(skews=(2.0,), schemes=("kg",)))
    assert [row["ratio"] for row in summary(replace(alone, throughput=alone.throughput[:3]))] == [None]


def test_a_measurement_survives_json_and_other_json_is_refused(deployment):
    assert Deployment.from_dict(json.loads(json.dumps(deployment.to_dict()))) == deployment
    for values in ([], {}, {"format": 1, "setup": {"workers": 3}}):
        with pytest.raises(InputError, match="is not what keyspread bench deployment --json prints"):
            Deployment.from_dict(values)
    with pytest.raises(InputError, match="has format 0, this version reads 1: measure it again"):
        Deployment.from_dict({**deployment.to_dict(), "format": 0})
