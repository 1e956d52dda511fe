"""Generated streams by name, with default parameters. A parameter that a stream does not take is an error.

To offer another stream, add it to `DEFAULTS` and to `named_stream`.
"""

from typing import Any

from keyspread.errors import InputError
from keyspread.streams.generated.drift import DriftingZipfStream
from keyspread.streams.generated.generator import GeneratedStream
from keyspread.streams.generated.lookalikes import ORIGINALS, look_alike
from keyspread.streams.generated.zipf import ZipfStream

DEFAULTS: dict[str, dict[str, Any]] = {
    "zipf": {"skew": 1.4, "keys": 10_000, "messages": 1_000_000, "seed": 0},
    "drift": {
        "skew": 1.2,
        "keys": 100_000,
        "messages": 1_000_000,
        "every": 50_000,
        "hottest": 100,
        "redrawn": 1.0,
        "seed": 0,
    },
    **{symbol: {"scale": 1.0, "seed": 0} for symbol in ORIGINALS},
}
"""The parameters that each stream takes, with their default values."""

NAMES = tuple(DEFAULTS)


def named_stream(
    name: str,
    *,
    skew: float | None = None,
    keys: int | None = None,
    messages: int | None = None,
    seed: int | None = None,
    every: int | None = None,
    hottest: int | None = None,
    redrawn: float | None = None,
    scale: float | None = None,
) -> GeneratedStream:
    """Return the generated stream with one of `NAMES`; a parameter that is None takes the default of that stream.

    >>> named_stream("zipf", skew=1.0)
    ZipfStream(skew=1.0, keys=10000, messages=1000000, seed=0, name='')
    >>> named_stream("wp", skew=1.0)
    Traceback (most recent call last):
    keyspread.errors.InputError: skew is for zipf and drift only, got 1 with wp: leave it out
    """
    name = str(name).lower()
    if name not in DEFAULTS:
        raise InputError(f"unknown stream {name!r}; known are {', '.join(NAMES)}")
    parameters = {"skew": skew, "keys": keys, "messages": messages, "seed": seed, "every": every}
    parameters |= {"hottest": hottest, "redrawn": redrawn, "scale": scale}
    given = {parameter: value for parameter, value in parameters.items() if value is not None}
    for parameter, value in given.items():
        if parameter not in DEFAULTS[name]:
            raise InputError(
                f"{parameter} is for {taken_by(parameter)} only, got {shown(value)} with {name}: leave it out"
            )
    numbers = DEFAULTS[name] | given
    if name == "zipf":
        return ZipfStream(**numbers)
    if name == "drift":
        if hottest is None and isinstance(keys, int):
            numbers["hottest"] = max(0, min(numbers["hottest"], keys))  # with few keys, the default means all of them
        return DriftingZipfStream(**numbers)
    return look_alike(name, **numbers)


def taken_by(parameter: str) -> str:
    """Return the names of the streams that take a parameter, as text for people.

    >>> taken_by("skew"), taken_by("every"), taken_by("scale")
    ('zipf and drift', 'drift', 'wp, tw and ct')
    """
    *others, last = (name for name, parameters in DEFAULTS.items() if parameter in parameters)
    return f"{', '.join(others)} and {last}" if others else last


def shown(value: Any) -> str:
    """Return a value about as the user typed it."""
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) else repr(value)
