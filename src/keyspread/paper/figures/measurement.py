"""The measurement behind figures 13 and 14, and the model for more workers than one machine can run."""

import json
from dataclasses import replace
from functools import lru_cache

from keyspread.errors import InputError
from keyspread.paper.deployment.measurements import Deployment
from keyspread.paper.deployment.setup import Prediction, Setup, predict
from keyspread.paper.figures.figure import Scale

MORE_WORKERS = (1_000, 10_000)
PAPER_SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices")
_MODEL_SECONDS, _MODEL_ARRIVALS = 1.25, 0.5
"""Seconds of work and of arrivals in the larger deployments of the model: up to 12.5 million messages.

Much shorter runs would judge D-C by its first messages, before its sources have computed d.
"""

SETUPS = {
    "quick": Setup(),
    "paper": Setup(seconds=10.0, repetitions=5, arrivals=10.0),
}
"""What `keyspread reproduce` measures; always with the paper's 48 sources and 80 workers."""


def measurement(scale: Scale) -> Deployment:
    """Return the measurement of this scale; raise an InputError if it lacks something that the paper compares."""
    measured = scale.deployment
    if measured is None:
        raise InputError("figures 13 and 14 need a measurement: name the figures to measure now")
    missing = [scheme for scheme in PAPER_SCHEMES if scheme not in measured.setup.schemes]
    if missing or not measured.latency:
        what = f"the schemes {', '.join(missing)}" if missing else "latency (--arrivals)"
        raise InputError(f"the measurement lacks {what}, which figures 13 and 14 compare: measure again with them")
    return measured


def read_measurement(path: str) -> Deployment:
    """Read a measurement from a file: the output of `keyspread bench deployment --json`."""
    try:
        with open(path, encoding="utf-8") as file:
            return Deployment.from_dict(json.load(file))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise InputError(
            f"{path}: cannot be used ({reason}): pass the output of keyspread bench deployment --json"
        ) from None


@lru_cache(maxsize=4)
def predict_larger(setup: Setup, workers: int) -> list[Prediction]:
    """Predict the paper's schemes with more workers, at the highest skew.

    The result is cached: both figures need it, and it takes a while.
    """
    shorter = replace(setup, seconds=_MODEL_SECONDS, arrivals=_MODEL_ARRIVALS)
    return [predict(shorter, max(setup.skews), scheme, workers) for scheme in PAPER_SCHEMES]
