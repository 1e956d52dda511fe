"""Look-alikes of the paper's real streams, which cannot be redistributed.

A look-alike has the number of messages, the number of keys and the share p_1 of the hottest key that the paper's Table
I gives. It is a Zipf law: the exponent is fitted to p_1, and the number of possible keys to the number of keys that
occur. The look-alike of the cashtags drifts: its hot keys change over the whole period. A look-alike copies neither the
daily rhythm of the real stream nor the distribution of its tail.
"""

import gzip
import math
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from keyspread import checks
from keyspread.errors import InputError
from keyspread.streams.generated import (
    DriftingRanks,
    DriftingZipfStream,
    GeneratedStream,
    ZipfStream,
    zipf_probabilities,
)

_EXACT = 10_000  # ranks summed one by one; integrals approximate the rest, with an error far below one in a million
_LEAST_KEYS = 100  # of a scaled look-alike: with fewer keys, no Zipf law fits both p_1 and the number of keys


@dataclass(frozen=True)
class Original:
    """What the paper's Table I says about a real stream, and our assumption on how it drifts."""

    symbol: str
    what: str
    messages: int
    keys: int
    p1: float
    phases: int = 1
    """Phases with different hot keys. The paper gives no number, only 'changes drastically throughout time'."""


ORIGINALS = {
    "wp": Original("WP", "Wikipedia page visits of one day, key = URL", 22_000_000, 2_900_000, 0.0932),
    "tw": Original("TW", "tweets of July 2012, key = word", 1_200_000_000, 31_000_000, 0.0267),
    "ct": Original("CT", "tweets of November 2013, key = cashtag", 690_000, 2_900, 0.0329, phases=8),
}
_HOTTEST = 100  # ranks that are assigned to other keys when a stream drifts


def look_alike(symbol: str, scale: float = 1.0, seed: int = 0) -> ZipfStream | DriftingZipfStream:
    """Return a stream like WP, TW or CT; `scale` shrinks messages and keys by the same factor and keeps p_1.

    >>> look_alike("wp", scale=0.01)
    ZipfStream(skew=1.01..., keys=..., messages=220000, seed=0, name='WP look-alike, 0.01 of its size')
    """
    original = ORIGINALS.get(str(symbol).lower())
    if original is None:
        raise InputError(f"unknown look-alike {symbol!r}; known are {', '.join(ORIGINALS)}")
    scale = checks.share("scale", scale)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    messages, keys = round(original.messages * scale), round(original.keys * scale)
    if keys < _LEAST_KEYS:
        least = _LEAST_KEYS / original.keys
        raise InputError(f"scale {scale:g} leaves {keys} keys of {original.symbol}: take {least:.2g} or more")
    name = f"{original.symbol} look-alike" + ("" if scale == 1 else f", {scale:g} of its size")
    if original.phases == 1:
        skew, law_keys = _fitted(messages, keys, original.p1)
        return ZipfStream(skew, law_keys, messages, seed, name)
    every = math.ceil(messages / original.phases)
    hottest = min(_HOTTEST, keys // 2)
    skew = _drifting_skew(keys, original.p1, original.phases, hottest, seed)
    return DriftingZipfStream(skew, keys, messages, every, hottest, seed=seed, name=name)


@lru_cache
def _fitted(messages: int, keys: int, p1: float) -> tuple[float, int]:
    """Return exponent and number of keys of the Zipf law with the share p1 and `keys` expected keys in `messages`."""

    def skew_for(law_keys: float) -> float:
        return _least(lambda skew: 1 / _powers_sum(skew, law_keys) >= p1, 0.0, 4.0)

    law_keys = _least(lambda size: _occurring(skew_for(size), size, messages) >= keys, keys, 1000 * keys)
    return round(skew_for(law_keys), 6), round(law_keys)


def _drifting_skew(keys: int, p1: float, phases: int, hottest: int, seed: int) -> float:
    """Return the exponent with which the hottest key has the share p1 over all phases together."""
    law = DriftingRanks(1.0, keys, every=1, hottest=hottest, seed=seed)
    key_of = [law.key_of(phase)[1:].copy() for phase in range(phases)]

    def hottest_share(skew: float) -> float:
        shares = np.zeros(keys + 1)
        for ranked in key_of:
            shares[ranked] += zipf_probabilities(skew, keys) / phases
        return float(shares.max())

    return round(_least(lambda skew: hottest_share(skew) >= p1, 0.0, 4.0), 6)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number from which on `enough` holds, by bisection."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _powers_sum(skew: float, keys: float) -> float:
    """Return 1^-skew + … + keys^-skew."""
    exact = min(_EXACT, int(keys))
    total = float((np.arange(1, exact + 1, dtype=np.float64) ** -skew).sum())
    if keys > exact:
        # Euler-Maclaurin formula: the integral plus half the difference of the integrand at both ends.
        rest = math.log(keys / exact) if skew == 1 else (keys ** (1 - skew) - exact ** (1 - skew)) / (1 - skew)
        total += rest + (keys**-skew - exact**-skew) / 2
    return total


def _occurring(skew: float, keys: float, messages: int) -> float:
    """Return the expected number of keys that occur: a key with share p does with probability 1 - e^(-messages·p)."""
    scale = messages / _powers_sum(skew, keys)
    exact = min(_EXACT, int(keys))
    ranks = np.arange(1, exact + 1, dtype=np.float64)
    total = float(-np.expm1(-scale * ranks**-skew).sum())
    if keys > exact:
        ends = np.geomspace(exact, keys, 2001)
        middles = np.sqrt(ends[1:] * ends[:-1])
        total += float((-np.expm1(-scale * middles**-skew) * np.diff(ends)).sum())
    return total


# Generated streams by name, with default parameters. A parameter that a stream does not take is an error.
#
# To offer another stream, add it to `DEFAULTS` and to `named_stream`.


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


# Write generated streams to files, for use without keyspread.
#
# A file appears only when it is complete. Memory use does not depend on the length of the stream.


ENDINGS = (".tsv", ".tsv.gz", ".parquet")
"""Endings of the files that can be written."""

_CHUNK = 1 << 20
"""Messages written at once: about 50 MB as text, however long the stream is."""


def check_writable(path: str, overwrite: bool = False) -> None:
    """Raise an InputError if the file has another ending, already exists or cannot be created."""
    if not path.lower().endswith(ENDINGS):
        raise InputError(f"the file of a stream must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {path}")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file")
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} already exists: choose another name or pass --overwrite")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: there is no folder {parent}, create it first")


def write_stream(
    stream: GeneratedStream, path: str, *, overwrite: bool = False, progress: Callable[[int], None] | None = None
) -> None:
    """Write message i with the time i: lines of `time<TAB>key`, plain or gzip, or Parquet, by the ending of the file.

    The file appears only when it is complete. Memory use does not depend on the length of the stream. `progress` is
    called with the number of messages written so far. Keys are integers in Parquet. In text files they are strings,
    which hash differently.
    """
    check_writable(path, overwrite)
    law = stream.law()
    with _replacement(path) as file, _writer(file, path) as write:
        for start in range(0, stream.messages, _CHUNK):
            count = min(_CHUNK, stream.messages - start)
            write(np.arange(start, start + count), law.draw(start, count).astype(np.int64))
            if progress is not None:
                progress(start + count)


@contextmanager
def _replacement(path: str) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if all goes well and is removed otherwise, even by Ctrl-C."""
    parent = os.path.dirname(os.path.abspath(path))
    beside = os.path.join(parent, f".keyspread-{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            yield file
        os.replace(beside, path)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(
            f"{path} cannot be written ({reason}): check the permissions and the free space of {parent}"
        ) from problem
    finally:
        with suppress(OSError):
            os.remove(beside)


_Write = Callable[[Any, Any], None]


@contextmanager
def _writer(file: BinaryIO, path: str) -> Iterator[_Write]:
    schema = pa.schema({"time": pa.int64(), "key": pa.int64()})
    if path.lower().endswith(".parquet"):
        import pyarrow.parquet as pa_parquet

        with pa_parquet.ParquetWriter(file, schema) as parquet:
            yield lambda times, keys: parquet.write_table(pa.table([times, keys], schema))
        return
    # The gzip header has no name and no time, so that the same stream always gives the same file.
    packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if path.lower().endswith(".gz") else None
    lines = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with packed or nullcontext(), pa_csv.CSVWriter(cast(BinaryIO, packed or file), schema, write_options=lines) as text:
        yield lambda times, keys: text.write_table(pa.table([times, keys], schema))
