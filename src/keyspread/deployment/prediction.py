"""Predictions from the loads alone: throughput is limited by the busiest worker, latency by one queue per worker.

The loads come from simulations of the schemes; nothing is fitted to a measurement.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import keyspread as ks
from keyspread.deployment.setup import Setup
from keyspread.evaluation.queueing import Waiting, finish_times, saturation, waiting
from keyspread.schemes import Kind, resolve
from keyspread.schemes.d_choices import DChoices
from keyspread.streams.encoded import Encoded

_TIMED = 200_000
"""Messages that are routed to measure the cost of routing."""


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
    sending: float
    """CPU seconds for routing a million messages on one core; measured, because there is no model of it."""
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
        sending=_cpu_of_sending(stream, scheme, n),
        waiting=_wait(setup, stream, scheme, n) if setup.arriving else None,
    )


def _message_count(setup: Setup, workers: int) -> int:
    """Return the number of messages that keeps evenly loaded workers busy, at least those that arrive."""
    busy = setup.messages or round(setup.seconds * workers / setup.work_seconds)
    return max(busy, round(setup.arriving * workers / setup.workers))


def _options(scheme: str, workers: int) -> dict[str, Any]:
    # At 10,000 workers the default of 1e-4 is 1/n: a worker could have twice its share within the tolerance.
    return (
        {"tolerance": min(1e-4, 0.01 / workers)} if isinstance(resolve(scheme).rule, DChoices) and workers > 100 else {}
    )


def _wait(setup: Setup, stream: Encoded, scheme: str, workers: int) -> Waiting:
    arriving = round(setup.arriving * workers / setup.workers)
    sent = np.arange(1, arriving + 1) / (setup.arrival_rate * workers / setup.workers)
    part = Encoded(stream.ids[:arriving], stream.hashes)
    simulated = ks.simulate(
        part, scheme, workers, sources=setup.sources, windows=1, assignment=True, **_options(scheme, workers)
    )
    assert simulated.assignment is not None
    return waiting(sent, finish_times(sent, simulated.assignment, setup.work_seconds), simulated.assignment)


def _cpu_of_sending(stream: Encoded, scheme: str, workers: int) -> float:
    """Route a part of the stream once to compile the kernels, then measure the CPU time of this thread."""
    hashes = stream.part(0, min(stream.messages, _TIMED))

    def route() -> None:
        if resolve(scheme).kind is Kind.PLANNED:
            ks.plan(hashes, workers).route(hashes)
        else:
            ks.Sender(scheme, workers).route(hashes)

    route()
    begin = time.thread_time()
    route()
    return (time.thread_time() - begin) / hashes.size * 1e6
