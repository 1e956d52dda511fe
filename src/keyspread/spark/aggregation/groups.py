"""Groups: the rows of a table that have the same key, as numbers. No engine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.spark.aggregation.stored_types import comparable_values

Ints = npt.NDArray[np.int64]
Columns = Sequence[Any]
"""Arrow arrays, all of one length."""


@dataclass(frozen=True)
class Groups:
    """Rows grouped by key: the group of every row, and the first row of each group."""

    of_row: Ints
    first: Ints

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.first.size


def groups_of(columns: Columns) -> Groups:
    """Group the rows that are equal in all columns, in order of appearance; null equals null and NaN equals NaN.

    >>> groups_of([pa.array(["a", None, "a"]), pa.array([1, 1, 1])])
    Groups(of_row=array([0, 1, 0]), first=array([0, 1]))
    """
    codes = _codes(columns[0])
    for column in columns[1:]:
        more = _codes(column)
        # Both are below the number of rows, so their product is far below 2^63.
        codes = _codes(pa.array(codes * (int(more.max(initial=0)) + 1) + more))
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
    return Groups(codes, first)


def hashable(value: Any) -> Any:
    """Return a hashable form of a value; two forms are equal if Spark considers the values equal."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # always the same object, so that it equals itself in a dict
    if isinstance(value, (list, tuple)):
        return tuple(hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return value


def _codes(column: Any) -> Ints:
    """Number the values of a column in order of appearance."""
    try:
        encoded = _whole(column).dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:  # structs, lists
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(hashable(one), len(seen)) for one in comparable_values(column)], np.int64)
    return np.asarray(encoded.indices, np.int64)


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
