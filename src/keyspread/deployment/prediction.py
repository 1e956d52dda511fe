"""What the loads alone say: saturation at 1 / the largest load, latency by a queue before every worker.

The loads are those of the real schemes, simulated; nothing is fitted to a measurement.
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
"""Messages routed to see what routing costs."""


@dataclass(frozen=True)
class Prediction:
    """One scheme on one stream, by the model."""

    skew: float
    scheme: str
    workers: int
    share: float
    """Of the busiest worker."""
    rate: float
    """Messages a second at saturation."""
    replicas: int
    sending: float
    """CPU seconds of routing a million messages on one core; a measurement, as there is no model of it."""
    waiting: Waiting | None
    """At the setup's arrival rate; None if it has no arrivals."""


def predict(setup: Setup, skew: float, scheme: str, workers: int | None = None) -> Prediction:
    """Predict a deployment of this setup, or of one with more workers and as much more of a stream."""
    n = setup.workers if workers is None else workers
    stream = setup.stream(skew, _enough(setup, n)).encoded()
    dealt = ks.simulate(stream, scheme, n, sources=setup.sources, windows=1, **_options(scheme, n))
    return Prediction(
        skew=skew,
        scheme=scheme,
        workers=n,
        share=float(dealt.loads.max() / dealt.messages),
        rate=saturation(dealt.loads, setup.work_seconds),
        replicas=dealt.replicas,
        sending=_cpu_of_sending(stream, scheme, n),
        waiting=_wait(setup, stream, scheme, n) if setup.arriving else None,
    )


def _enough(setup: Setup, workers: int) -> int:
    """Give the messages that keep even workers busy for the setup's time, and those that arrive."""
    busy = setup.messages or round(setup.seconds * workers / setup.work_seconds)
    return max(busy, round(setup.arriving * workers / setup.workers))


def _options(scheme: str, workers: int) -> dict[str, Any]:
    # The default of 1e-4 is 1/n at 10,000 workers: one of them might have twice its share, within tolerance.
    return (
        {"tolerance": min(1e-4, 0.01 / workers)} if isinstance(resolve(scheme).rule, DChoices) and workers > 100 else {}
    )


def _wait(setup: Setup, stream: Encoded, scheme: str, workers: int) -> Waiting:
    arriving = round(setup.arriving * workers / setup.workers)
    sent = np.arange(1, arriving + 1) / (setup.arrival_rate * workers / setup.workers)
    part = Encoded(stream.ids[:arriving], stream.hashes)
    dealt = ks.simulate(
        part, scheme, workers, sources=setup.sources, windows=1, assignment=True, **_options(scheme, workers)
    )
    assert dealt.assignment is not None
    return waiting(sent, finish_times(sent, dealt.assignment, setup.work_seconds), dealt.assignment)


def _cpu_of_sending(stream: Encoded, scheme: str, workers: int) -> float:
    """Route a part of it once to compile, then against the clock of this thread."""
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
