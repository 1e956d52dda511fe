"""The setup of a deployment: streams, schemes, workers and their work. The defaults are the paper's."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import keyspread as ks
from keyspread import checks
from keyspread.errors import InputError
from keyspread.paper.runs.queueing import Waiting, finish_times, saturation, waiting
from keyspread.sender.registry import LOOK_AHEAD, PLANNED, Kind, online_scheme, resolve
from keyspread.sender.schemes import DChoices
from keyspread.streams import ZipfStream
from keyspread.streams.encoded import Encoded

SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices", PLANNED)
UTILIZATION = 0.2
"""The arrival rate when latency is measured, as a share of the rate that saturates perfectly even workers."""


@dataclass(frozen=True)
class Setup:
    """Zipf streams from `sources` to `workers` by several schemes; each message is `milliseconds` of work.

    Workers sleep instead of working, which needs no core, so there may be more workers than cores.
    """

    skews: tuple[float, ...] = (1.4, 1.7, 2.0)
    schemes: tuple[str, ...] = SCHEMES
    workers: int = 80
    sources: int = 48
    keys: int = 10_000
    milliseconds: float = 1.0
    seconds: float = 4.0
    """Seconds of work of the busiest worker in a throughput run, which decide its number of messages."""
    repetitions: int = 3
    arrivals: float = 2.0
    """Seconds during which messages arrive to measure latency; 0: latency is not measured."""

    def __post_init__(self) -> None:
        """Refuse what cannot be deployed, and replace aliases of schemes by their names."""
        check_values(self.skews, self.schemes)
        object.__setattr__(self, "schemes", tuple(_full_name(name) for name in self.schemes))
        for name in ("workers", "sources", "keys", "repetitions"):
            checks.whole_number(name, getattr(self, name))
        for name in ("milliseconds", "seconds"):
            if checks.not_negative(name, getattr(self, name)) == 0:
                raise InputError(f"{name} must be above 0, got 0")
        checks.not_negative("arrivals", self.arrivals)

    @property
    def work_seconds(self) -> float:
        """Seconds of work per message."""
        return self.milliseconds / 1000

    @property
    def best_rate(self) -> float:
        """Messages per second that perfectly even workers can process: an upper limit for every scheme."""
        return self.workers / self.work_seconds

    @property
    def arrival_rate(self) -> float:
        """Messages per second that arrive when latency is measured, the same for every scheme."""
        return UTILIZATION * self.best_rate

    @property
    def arriving(self) -> int:
        """The number of messages that arrive when latency is measured."""
        return round(self.arrival_rate * self.arrivals)

    def scaled(self, share: float) -> int:
        """Return the number of messages of a throughput run whose busiest worker gets this share of them."""
        return max(self.workers, round(self.seconds / self.work_seconds / share))

    def stream(self, skew: float, messages: int) -> ZipfStream:
        """Return the stream of this skew; a shorter one is the beginning of a longer one."""
        return ZipfStream(skew, self.keys, messages)

    def to_dict(self) -> dict[str, Any]:
        """Return the setup as plain values."""
        return {**asdict(self), "skews": list(self.skews), "schemes": list(self.schemes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Setup":
        """Make a setup from the result of `to_dict`."""
        return cls(**{**values, "skews": tuple(values["skews"]), "schemes": tuple(values["schemes"])})


def check_values(skews: tuple[float, ...], schemes: tuple[str, ...]) -> None:
    """Refuse skews and schemes that are missing or given twice, and negative skews."""
    for name, values in (("skews", skews), ("schemes", schemes)):
        if not values or len(set(values)) < len(values):
            raise InputError(
                f"{name} must have one or more values, each once, got {', '.join(map(str, values)) or 'none'}"
            )
    for skew in skews:
        checks.not_negative("skew", skew)


def streaming(scheme: str) -> str:
    """Return the scheme to use on a stream: look-ahead instead of planned, which needs the whole input."""
    return LOOK_AHEAD if resolve(scheme).kind is Kind.PLANNED else scheme


def _full_name(name: str) -> str:
    return PLANNED if resolve(name).kind is Kind.PLANNED else online_scheme(name).name


# Predictions from the loads alone: throughput is limited by the busiest worker, latency by one queue per worker.
#
# The loads come from simulations of the schemes; nothing is fitted to a measurement.


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
