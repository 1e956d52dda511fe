"""Stored types: the Arrow types in which partial states are kept, whatever the session's settings are. No engine.

How Spark hands its types to Arrow depends on the session: its time zone, large strings or not, and whether a column
may be null. A state outlives the session, so it is kept in one form: times in UTC, small offsets, all nullable.
"""

import math
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from keyspread.hashing import is_binary_view, is_string_view

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of this type are kept.

    >>> stored_type(pa.list_(pa.timestamp("us", tz="Europe/Berlin")))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(stored_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, stored_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    return kind


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which a table of this schema is kept."""
    return pa.schema([pa.field(field.name, stored_type(field.type)) for field in schema])


def as_stored(table: pa.Table) -> pa.Table:
    """Return a table in the types in which it is kept."""
    wanted = stored_schema(table.schema)
    return table if table.schema.equals(wanted) else table.cast(wanted)


def is_stored_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type are kept as another one, unless a value does not fit; text is not a number.

    >>> is_stored_as(pa.int32(), pa.float64()), is_stored_as(pa.float64(), pa.int64())
    (True, False)
    """
    kinds, found = pa.types, stored_type(found)
    if found == wanted or kinds.is_null(found):
        return True
    if kinds.is_dictionary(found):
        return is_stored_as(found.value_type, wanted)
    if kinds.is_integer(found):
        return bool(kinds.is_integer(wanted) or kinds.is_floating(wanted) or kinds.is_decimal(wanted))
    if kinds.is_floating(found):
        return bool(kinds.is_floating(wanted) and found.bit_width <= wanted.bit_width)
    if kinds.is_timestamp(found):
        return bool(kinds.is_timestamp(wanted) and (found.tz is None) == (wanted.tz is None))
    if kinds.is_struct(found) or kinds.is_map(found) or hasattr(found, "value_type"):  # the last: all kinds of lists
        names = [[field.name for field in kind] if kinds.is_struct(kind) else None for kind in (found, wanted)]
        same = names[0] == names[1] and kinds.is_map(found) == kinds.is_map(wanted) and kinds.is_nested(wanted)
        return bool(same) and all(map(is_stored_as, _children(found), _children(wanted)))
    alike = (
        (kinds.is_string, is_string_view),
        (kinds.is_binary, is_binary_view),
        (kinds.is_decimal,),
        (kinds.is_date,),
    )
    return any(all(any(is_of(kind) for is_of in family) for kind in (found, wanted)) for family in alike)


def comparable_values(column: Any) -> list[Any]:
    """Return a column as Python values; times are whole numbers, because Python's own end in the year 9999."""
    wanted = _without_times(column.type)
    return list((column if wanted == column.type else column.cast(wanted)).to_pylist())


def to_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values as an Arrow array; unlike `pa.array`, refuse what would be stored as something else.

    `pa.array` cuts 1.5 to a whole number and a time to its date or its microsecond, makes 1e300 an infinite float,
    takes a time without a zone as UTC and text as a list of its characters, drops the fields that a struct does not
    have and fills those that are missing with null.
    """
    if _is_cut_by_arrow(kind) and not (pa.types.is_integer(kind) and {*map(type, values)} <= {int, type(None)}):
        for value in values:
            _check(value, kind)
    return pa.array(values, kind)


def to_python(column: Any) -> list[Any]:
    """Return an Arrow column as Python values, with maps as dicts, as they were passed to `to_array`."""
    values = column.to_pylist()
    return [_with_dicts(value, column.type) for value in values] if _contains_map(column.type) else list(values)


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(i).type for i in range(kind.num_fields)]


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_times(field.type)) for field in kind])
    return kind


def _is_cut_by_arrow(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_float32(kind)
    )


def _contains_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(map(_contains_map, _children(kind)))


def _check(value: Any, kind: pa.DataType) -> None:
    if value is None:
        return
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        if isinstance(value, (float, np.floating, Decimal)) and value % 1 != 0:  # true for NaN and infinity, too
            raise ValueError(f"{value!r} is not a whole number")
        if isinstance(value, date):
            _check_time(value, kind)
    elif pa.types.is_float32(kind):
        if isinstance(value, (int, float, np.floating)) and _LARGEST_FLOAT < _size(value) < math.inf:
            raise ValueError(f"{value!r} is too large for a float; declare a double")
    elif pa.types.is_map(kind):
        for key, item in value.items() if isinstance(value, dict) else value:
            _check(key, kind.key_type)
            _check(item, kind.item_type)
    elif pa.types.is_list(kind) and isinstance(value, (str, bytes)):
        raise ValueError(f"{value!r} is not a list")
    elif pa.types.is_list(kind) and np.iterable(value):
        for item in value:
            _check(item, kind.value_type)
    elif pa.types.is_struct(kind) and isinstance(value, dict):
        names = [field.name for field in kind]
        if value.keys() != set(names):
            raise ValueError(f"a struct must be a dict of {', '.join(names)}, got {value!r}")
        for field in kind:
            _check(value[field.name], field.type)


def _size(number: Any) -> Any:
    return abs(number)


def _check_time(value: date, kind: pa.DataType) -> None:
    """Refuse a date or time of Python or pandas that would be stored as another one."""
    pandas = sys.modules.get("pandas")  # not imported for this: a worker that never saw pandas has none of its values
    if pandas is not None and value is pandas.NaT:
        raise ValueError("NaT is no time; use None")
    if pa.types.is_date(kind) and isinstance(value, datetime):
        raise ValueError(f"{value!r} is a time, not a date; use its date()")
    if not pa.types.is_timestamp(kind):
        return
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is a date, not a time; use a datetime")
    if (value.tzinfo is None) != (kind.tz is None):
        wanted = "no time zone" if kind.tz is None else "a time zone"
        raise ValueError(
            f"{value!r} must have {wanted}, because its type is {'timestamp' if kind.tz else 'timestamp_ntz'}"
        )
    if kind.unit == "us" and getattr(value, "nanosecond", 0):
        raise ValueError(f"{value!r} has nanoseconds, of which Spark keeps microseconds; use floor('us')")


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_with_dicts(key, kind.key_type): _with_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_with_dicts(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    return value
