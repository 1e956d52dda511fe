"""Checks of parameters: each returns the value in its plain type, or raises an InputError that says what is wrong."""

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.errors import InputError

LARGEST_WEIGHT = 2**32  # of one message: the sum of a billion such weights is still allowed
LARGEST_TOTAL = 2**62  # of all counts or weights: sums and bounds of it fit in 64 bits

LIMITS = {
    "workers": 100_000,  # a sender counts 10 keys per worker, a plan has 64 buckets per worker
    "sources": 10_000,  # each is a sender with its own counters
    "senders": 10_000,
    "partitions": 10_000,
    "executors": 1000,  # each is a process
    "windows": 10_000,  # planned and look-ahead plan each of them
    "buckets": 1 << 24,
    "keys": 100_000_000,  # of a generated stream: its law takes 24 bytes per key
    "messages": 10**11,  # of a generated stream, on Spark or in a file
    "messages in memory": 2**31 - 1,
    "top": 1_000_000,
    "seeds": 1000,
    "repetitions": 1000,
    "workers here": 1000,  # of `keyspread bench` on this machine: each is a Python process
    "seconds": 86_400,
    "arrivals": 86_400,  # seconds
    "milliseconds": 3_600_000,
    "rate": 1_000_000_000,
    "trigger": 86_400,  # seconds
    "workers × windows × sources": 5_000_000,  # of a simulation: look-ahead plans 64 buckets for each
    "bytes in memory": 1 << 36,  # of a simulation
}
"""What may be asked for at most, by the name of the parameter: more would take hours or more memory than machines have.

Parameters that are not listed may have any value below 2^31.
"""


def whole_number(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """Return `value` as an int that is at least `minimum` and at most `maximum`, by default that of `LIMITS`."""
    maximum = LIMITS.get(name, 2**31 - 1) if maximum is None else maximum
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    if number < minimum:
        raise InputError(f"{name} must be at least {minimum}, got {number}")
    if number > maximum:
        raise InputError(f"{name} must be at most {maximum}, got {number}")
    return number


def fits_in_memory(what: str, needed: int, remedy: str) -> None:
    """Refuse what would need more memory than the limit."""
    gib, limit = needed / 2**30, LIMITS["bytes in memory"] / 2**30
    if gib > limit:
        raise InputError(f"{what} would take {gib:,.0f} GiB of memory, over the limit of {limit:,.0f} GiB: {remedy}")


def number(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(result):
        raise InputError(f"{name} must be a finite number, got {value!r}")
    return result


def share(name: str, value: Any) -> float:
    """Return `value` as a float in (0, 1]."""
    result = number(name, value)
    if not 0 < result <= 1:
        raise InputError(f"{name} is a share of the messages, above 0 and at most 1, got {value!r}")
    return result


def not_negative(name: str, value: Any) -> float:
    """Return `value` as a float that is 0 or more, and at most the limit of `LIMITS` if there is one."""
    result = number(name, value)
    if result < 0:
        raise InputError(f"{name} must not be negative, got {value!r}")
    if result > LIMITS.get(name, math.inf):
        raise InputError(f"{name} must be at most {LIMITS[name]}, got {value!r}")
    return result


def hashes(values: Any) -> npt.NDArray[np.int64]:
    """Return an array of key hashes as contiguous int64; uint64 is reinterpreted, never rounded."""
    array = np.asarray(values)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)  # an empty list may have any type
    if array.ndim != 1 or array.dtype not in (np.int64, np.uint64):
        raise InputError(
            f"hashes must be a one-dimensional array of int64 or uint64, got {_describe(array)}; "
            "keyspread.hash_keys makes one from keys"
        )
    # Copy a read-only array (as from Arrow): otherwise kernels would be compiled a second time for it.
    return np.require(array, requirements=["C", "W"]).view(np.int64)


def weights(values: Any, messages: int) -> npt.NDArray[np.int64]:
    """Return the weights of `messages` messages as contiguous int64, none of them negative."""
    array = np.asarray(values)
    if array.size == 0 and messages == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"weights must be a one-dimensional array of whole numbers, got {_describe(array)}; "
            "pass bytes, or microseconds instead of seconds"
        )
    if array.size != messages:
        raise InputError(f"there must be one weight per message, got {array.size} for {messages}")
    if array.size and (array.min() < 0 or array.max() > LARGEST_WEIGHT):
        wrong = array.min() if array.min() < 0 else array.max()
        raise InputError(f"a weight must be between 0 and {LARGEST_WEIGHT}, got {wrong}")
    return np.require(array.astype(np.int64, copy=False), requirements=["C", "W"])


def weight_of(weighed: npt.NDArray[np.int64]) -> int:
    """Return the sum of checked weights."""
    return int(weighed.sum(dtype=np.uint64))  # 64 bits suffice for four billion messages of the largest weight


def total(name: str, before: int, added: int) -> int:
    """Return the sum of two totals, if 64 bits are enough to count with it."""
    if before + added > LARGEST_TOTAL:
        raise InputError(f"{name} must be at most {LARGEST_TOTAL}, got {before} + {added}; use a larger unit of weight")
    return before + added


def one_hash(value: Any) -> np.uint64:
    """Return one key hash as the unsigned 64 bits that kernels take."""
    number = whole_number("a hash", value, minimum=-(2**63), maximum=2**64 - 1)
    return np.uint64(number & 0xFFFFFFFFFFFFFFFF)


def _describe(array: npt.NDArray[Any]) -> str:
    if array.ndim == 0:
        return f"a single {array.dtype}"
    return f"{array.ndim} dimensions of {array.dtype}" if array.ndim > 1 else f"{array.dtype}"
