"""Checks of parameters: each returns the value in its plain type, or raises an InputError that says what is wrong."""

import math
import operator
import threading
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.errors import InputError, ThreadError

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


# The threshold: the share of all messages from which a key is hot.


def default_threshold(workers: int) -> float:
    """Return 1/(5n): two workers are enough for any key with a smaller share (Sec. 3.1)."""
    return 1 / (5 * workers)


def checked_threshold(threshold: Any, workers: int) -> float:
    """Return `threshold` as a share in (0, 1], or the default for this many workers if it is None.

    >>> checked_threshold(None, workers=10), checked_threshold(0.5, workers=10)
    (0.02, 0.5)
    """
    return default_threshold(workers) if threshold is None else share("threshold", threshold)


def least_hot_count(threshold: float, total: float) -> float:
    """Return the smallest count of a hot key among `total` messages: its share is the threshold or more.

    The result is slightly smaller than the product, which rounding may make too large: 1/75 of 525 is 7, not
    7.000000000000001.
    """
    return threshold * total * (1 - 1e-12)


# One thread at a time: compiled loops run without Python's lock, so two of them could change the same arrays.


class OneThread:
    """Guards an object: `with guard:` around what changes it, `with guard.reading:` around what only reads it.

    A change by a second thread is refused: it could not be repeated, because the order would depend on the timing. A
    reader waits until the change is complete, and a change waits until nobody reads.

    >>> guard = OneThread("a Sender", "use one per thread")
    >>> with guard:
    ...     pass
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.reading = threading.RLock()
        self._changing = threading.RLock()  # apart from `reading`: a reader is no reason to refuse a change
        self._what, self._remedy = what, remedy

    def __enter__(self) -> None:
        """Begin a change; raise if another thread is in the middle of one."""
        if not self._changing.acquire(blocking=False):
            raise ThreadError(f"{self._what} was used by two threads at the same time: {self._remedy}")
        self.reading.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the change."""
        self.reading.release()
        self._changing.release()
