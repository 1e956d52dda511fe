"""What figures 13 and 14 share: where the measurement comes from, and how the model goes on beyond one machine."""

import json
from dataclasses import replace
from functools import lru_cache

from keyspread.deployment.measurements import Deployment
from keyspread.deployment.prediction import Prediction, predict
from keyspread.deployment.setup import Setup
from keyspread.errors import InputError
from keyspread.experiments.scale import Scale

MORE_WORKERS = (1_000, 10_000)
PAPER_SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices")
_MODEL_SECONDS, _MODEL_ARRIVALS = 1.25, 0.5
"""Of work and of arrivals in the model's larger deployments: 12.5 million messages for the largest.

In much shorter ones D-C would be judged by its first messages, before its sources have computed d.
"""

SETUPS = {
    "quick": Setup(),
    "paper": Setup(seconds=10.0, repetitions=5, arrivals=10.0),
}
"""What `keyspread reproduce` measures if it is not given a measurement; all with the paper's 48 sources, 80 workers."""


def measurement(scale: Scale) -> Deployment:
    """Give the measurement that the figures are made from, refused if it lacks what the paper compares."""
    found = scale.deployment
    if found is None:
        raise InputError("figures 13 and 14 are made from a measurement: name them, or pass --deployment FILE")
    lacking = [scheme for scheme in PAPER_SCHEMES if scheme not in found.setup.schemes]
    if lacking or not found.latency:
        what = f"the schemes {', '.join(lacking)}" if lacking else "latency (--arrivals)"
        raise InputError(f"the measurement lacks {what}, which figures 13 and 14 compare: measure it again with them")
    return found


def read_measurement(path: str) -> Deployment:
    """Read what `keyspread bench deployment --json` printed."""
    try:
        with open(path, encoding="utf-8") as file:
            return Deployment.from_dict(json.load(file))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise InputError(
            f"{path}: cannot be used ({reason}): pass what keyspread bench deployment --json prints"
        ) from None


@lru_cache(maxsize=4)
def at_scale(setup: Setup, workers: int) -> list[Prediction]:
    """Predict the paper's schemes with more workers, at the highest skew; both figures ask, and it takes a while."""
    shorter = replace(setup, messages=None, seconds=_MODEL_SECONDS, arrivals=_MODEL_ARRIVALS)
    return [predict(shorter, max(setup.skews), scheme, workers) for scheme in PAPER_SCHEMES]
