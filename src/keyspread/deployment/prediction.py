"""Predictions from the loads alone: throughput is limited by the busiest worker, latency by one queue per worker.

The loads come from simulations of the schemes; nothing is fitted to a measurement.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import keyspread as ks
from keyspread.deployment.setup import Setup
from keyspread.evaluation.queueing import Waiting, finish_times, saturation, waiting
from keyspread.schemes import resolve
from keyspread.schemes.d_choices import DChoices
from keyspread.streams.encoded import Encoded


@dataclass(frozen=True)
class Prediction:
    """The prediction for one scheme on one stream."""

    skew: float
    scheme: str
    workers: int
    share: float
    """The share of the busiest worker."""
    rate: float
    """Messages per second at saturation."""
    replicas: int
    waiting: Waiting | None
    """Waiting times at the setup's arrival rate; None if it has no arrivals."""


def predict(setup: Setup, skew: float, scheme: str, workers: int | None = None) -> Prediction:
    """Predict a deployment of this setup; with `workers`, of a larger one with a stream that grows in proportion."""
    n = setup.workers if workers is None else workers
    stream = setup.stream(skew, _message_count(setup, n)).encoded()
    simulated = ks.simulate(stream, scheme, n, sources=setup.sources, windows=1, **_options(scheme, n))
    return Prediction(
        skew=skew,
        scheme=scheme,
        workers=n,
        share=float(simulated.loads.max() / simulated.messages),
        rate=saturation(simulated.loads, setup.work_seconds),
        replicas=simulated.replicas,
        waiting=_wait(setup, stream, scheme, n) if setup.arriving else None,
    )


def _message_count(setup: Setup, workers: int) -> int:
    """Return the number of messages that keeps evenly loaded workers busy, at least those that arrive."""
    busy = round(setup.seconds * workers / setup.work_seconds)
    return max(busy, round(setup.arriving * workers / setup.workers))


def _options(scheme: str, workers: int) -> dict[str, Any]:
    if not isinstance(resolve(scheme).rule, DChoices):
        return {}
    # At 10,000 workers the default of 1e-4 is 1/n: a worker could have twice its share within the tolerance.
    return {"tolerance": min(1e-4, 0.01 / workers)}


def _wait(setup: Setup, stream: Encoded, scheme: str, workers: int) -> Waiting:
    arriving = round(setup.arriving * workers / setup.workers)
    sent = np.arange(1, arriving + 1) / (setup.arrival_rate * workers / setup.workers)
    part = Encoded(stream.ids[:arriving], stream.hashes)
    simulated = ks.simulate(
        part, scheme, workers, sources=setup.sources, windows=1, assignment=True, **_options(scheme, workers)
    )
    assert simulated.assignment is not None
    return waiting(sent, finish_times(sent, simulated.assignment, setup.work_seconds), simulated.assignment)
