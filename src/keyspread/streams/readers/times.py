"""Parse times. A number is taken as it is; a date or timestamp becomes seconds since 1970."""

import datetime
import math
import re
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_NUMBER = re.compile(NUMBER, re.ASCII)
_MICROSECONDS = 1e6

Times: TypeAlias = npt.NDArray[Any]
"""int64 if all times are whole numbers, else float64."""


def column_times(column: Any) -> tuple[Times, Any]:
    """Return the times in an Arrow array, and a mask of the rows that have one (None if all do).

    The array holds numbers, strings, timestamps or dates; any other type raises a TypeError.
    """
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return _text_times(column)
    if types.is_timestamp(kind) or types.is_date(kind):
        # Not safe: a safe cast refuses nanoseconds, which a float64 of seconds cannot hold anyway.
        microseconds = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        seconds, valid = _finite(microseconds.cast(pa.int64()))
        return seconds / _MICROSECONDS, valid
    if types.is_integer(kind):
        return _finite(column.cast(pa.int64()))
    if types.is_floating(kind):
        return _finite(column.cast(pa.float64()))
    raise TypeError(str(kind))


def _finite(column: Any) -> tuple[Times, Any]:
    """Drop nulls and everything that is not a finite number."""
    valid = None
    finite = pc.fill_null(pc.is_finite(column), False)
    if not pc.all(finite, min_count=0).as_py():
        valid, column = finite, column.filter(finite)
    return column.to_numpy(zero_copy_only=False), valid


def _text_times(texts: Any) -> tuple[Times, Any]:
    try:
        numbers = texts.cast(pa.float64())
        try:
            return _finite(texts.cast(pa.int64()))  # alone it would accept 0x1f
        except pa.ArrowInvalid:
            return _finite(numbers)
    except pa.ArrowInvalid:
        pass
    for zone in (None, "UTC"):
        try:
            return column_times(texts.cast(pa.timestamp("us", zone)))
        except pa.ArrowInvalid:
            continue
    # The texts mix several notations, or some are no times.
    moments = [moment((text or b"").decode("utf-8", "replace")) for text in texts.cast(pa.large_binary()).to_pylist()]
    return np.array([time for time in moments if time is not None]), pa.array([time is not None for time in moments])


def moment(value: Any) -> float | None:
    """Return one time from a finite number or a text (a number or ISO 8601, UTC if there is no zone), else None.

    >>> moment("1219842525"), moment("2008-08-27T13:08:45Z"), moment("2008-08-27"), moment("soon")
    (1219842525, 1219842525.0, 1219795200.0, None)
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value) if value.lstrip("+-").isdigit() else float(value)
        if isinstance(value, str):
            time = datetime.datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else float(value)
    except (ValueError, OverflowError):
        return None
