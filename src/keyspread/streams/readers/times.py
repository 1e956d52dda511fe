"""Parse times. A number is taken as it is; a date or timestamp becomes seconds since 1970.

Functions on columns return the times and a mask of the rows that have one.
"""

import datetime
import math
import re
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keyspread.arrow_types import is_string_view

NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_NUMBER = re.compile(NUMBER, re.ASCII)
_TWITTER = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d\d?) (\d\d):(\d\d):(\d\d) ([+-]\d\d)(\d\d) (\d{4})", re.ASCII)
_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MICROSECONDS = 1e6

Times: TypeAlias = npt.NDArray[Any]
"""int64 if all times are whole numbers, else float64."""


def numbers(texts: Any) -> tuple[Times, Any]:
    """Return the numbers in these texts, and a mask of the texts that are numbers (None if all are).

    The numbers are int64 if all are whole, else float64.
    """
    valid = None
    if not pc.all(pc.ascii_is_decimal(texts), min_count=0).as_py():
        if (fractions := _fractions(texts)) is not None:
            return fractions, None
        valid = pc.match_substring_regex(texts.cast(pa.binary()), f"^{NUMBER}$")
        texts = texts.filter(valid)
        if pc.all(valid, min_count=0).as_py():
            valid = None
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind).to_numpy(zero_copy_only=False), valid
        except pa.ArrowInvalid:
            continue
    # Arrow does not accept a leading plus sign; Python accepts everything that NUMBER matches.
    return np.array([float(text) for text in texts.to_pylist()], np.float64), valid


def _fractions(texts: Any) -> npt.NDArray[np.float64] | None:
    """Return the numbers if all texts are numbers and not all are whole, else None. This common case is fast."""
    try:
        found: npt.NDArray[np.float64] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    # NUMBER matches whatever Arrow reads as a finite number. If all are whole, they may have to become int64.
    return found if np.isfinite(found).all() and (found % 1 != 0).any() else None


def column_times(column: Any) -> tuple[Times, Any]:
    """Return the times in an Arrow array, and a mask of the rows that have one (None if all do).

    The array holds numbers, strings, timestamps or dates; any other type raises a TypeError.
    """
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return column_times(column.cast(kind.value_type))
    if types.is_binary(kind) or types.is_string(kind) or types.is_large_string(kind) or is_string_view(kind):
        return _text_times(column)
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = getattr(kind, "tz", None)
        column = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
        seconds, valid = _present(column)
        return seconds / _MICROSECONDS, valid
    if types.is_integer(kind):
        return _present(column.cast(pa.int64(), safe=False))
    if types.is_floating(kind):
        return _present(column.cast(pa.float64()))
    if types.is_null(kind):
        return np.empty(0, np.int64), pa.array(np.zeros(len(column), np.bool_))
    raise TypeError(str(kind))


def _present(column: Any) -> tuple[Times, Any]:
    """Drop nulls and everything that is not a finite number."""
    valid = None
    finite = pc.fill_null(pc.is_finite(column), False)
    if not pc.all(finite, min_count=0).as_py():
        valid, column = finite, column.filter(finite)
    return column.to_numpy(zero_copy_only=False), valid


def _text_times(column: Any) -> tuple[Times, Any]:
    texts = column.cast(pa.binary()).fill_null(b"").cast(pa.string(), safe=False)
    found, valid = numbers(texts)
    if valid is None:
        return found, None
    if not len(found):
        for zone in (None, "UTC"):
            try:
                return column_times(texts.cast(pa.timestamp("us", zone)))
            except pa.ArrowInvalid:
                continue
    # The texts mix several notations, or some are no times: parse them one by one.
    each = [moment(text.decode("utf-8", "replace")) for text in texts.cast(pa.binary()).to_pylist()]
    return as_array([time for time in each if time is not None]), pa.array([time is not None for time in each])


def moment(text: str) -> float | None:
    """Parse one time: a number, ISO 8601 (UTC if there is no zone) or Twitter's notation; None for anything else.

    >>> moment("1219842525"), moment("2008-08-27T13:08:45Z"), moment("Wed Aug 27 13:08:45 +0000 2008"), moment("soon")
    (1219842525, 1219842525.0, 1219842525, None)
    """
    if _NUMBER.fullmatch(text):
        return plain_number(int(text) if text.lstrip("+-").isdigit() else float(text))
    try:
        # Not strptime: it depends on the locale and is five times slower.
        if written := _TWITTER.fullmatch(text):
            month, day, hour, minute, second, zone_hours, zone_minutes, year = written.groups()
            ahead = datetime.timedelta(hours=int(zone_hours), minutes=int(zone_hours[0] + zone_minutes))
            zone = datetime.timezone(ahead)
            clock = (int(hour), int(minute), int(second))
            return int(datetime.datetime(int(year), _MONTHS.index(month), int(day), *clock, tzinfo=zone).timestamp())
        time = datetime.datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def plain_number(value: Any) -> float | None:
    """Return the value if it is a finite 64-bit int or a finite float, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def as_array(times: list[Any]) -> Times:
    """Return an int64 array if all times are ints, else a float64 array."""
    whole = all(type(time) is int for time in times)
    return np.array(times, np.int64 if whole else np.float64)
