"""Folds: merge the partial states of many keys at once, stored as Arrow columns, into one row per key. No engine.

A fold takes the columns of a partial state and the group of each row, and returns the same columns with one row per
group. Its output may be folded again, split and ordered in any way: a stream relies on that.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keyspread.errors import KeyspreadError

Ints = npt.NDArray[np.int64]
Columns = Sequence[Any]
"""Arrow arrays, all of one length."""


class FoldError(KeyspreadError):
    """A partial state cannot be merged; the message says why."""


@dataclass(frozen=True)
class Groups:
    """Rows grouped by key: the group of every row, and the first row of each group."""

    of_row: Ints
    first: Ints

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.first.size


Fold = Callable[[Columns, Groups], list[Any]]


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


def fold_table(table: pa.Table, keys: int, folds: Sequence[tuple[int, Fold]]) -> pa.Table:
    """Fold a table to one row per key. The first `keys` columns are the key; each fold takes its own of the others.

    >>> rows = pa.table({"k": ["a", "b", "a"], "n": [1, 1, 1], "most": [3, 5, 4]})
    >>> fold_table(rows, 1, [(1, add), (1, greatest)]).to_pydict()
    {'k': ['a', 'b'], 'n': [2, 1], 'most': [4, 5]}
    """
    columns = [_whole(column) for column in table.columns]
    groups = groups_of(columns[:keys])
    if groups.count == table.num_rows:
        return table
    first = pa.array(groups.first)
    folded, at = [column.take(first) for column in columns[:keys]], keys
    for width, fold in folds:
        folded += fold(columns[at : at + width], groups)
        at += width
    return pa.table(folded, schema=table.schema)


def add(columns: Columns, groups: Groups) -> list[Any]:
    """Sum the values; null if all of them are null."""
    (values,) = columns
    if pa.types.is_integer(values.type):
        _check_sums(values, groups)
    return [_aggregated(values, groups, "sum")]


def greatest(columns: Columns, groups: Groups) -> list[Any]:
    """Take the largest value; NaN is larger than all others."""
    return _extreme(columns[0], groups, "max")


def least(columns: Columns, groups: Groups) -> list[Any]:
    """Take the smallest value; NaN is larger than all others."""
    return _extreme(columns[0], groups, "min")


def value_at_greatest(columns: Columns, groups: Groups) -> list[Any]:
    """Fold (value, order): take the value in the row with the largest order."""
    rows = _extreme_rows(columns[1], groups, "descending")
    return [column.take(rows) for column in columns]


def value_at_least(columns: Columns, groups: Groups) -> list[Any]:
    """Fold (value, order): take the value in the row with the smallest order."""
    rows = _extreme_rows(columns[1], groups, "ascending")
    return [column.take(rows) for column in columns]


def all_true(columns: Columns, groups: Groups) -> list[Any]:
    """Combine the values with AND; null if all of them are null."""
    return [_aggregated(columns[0], groups, "all")]


def any_true(columns: Columns, groups: Groups) -> list[Any]:
    """Combine the values with OR; null if all of them are null."""
    return [_aggregated(columns[0], groups, "any")]


def bits(operation: np.ufunc) -> Fold:
    """Make the fold of a bitwise operation on whole numbers; null if all values are null."""

    def fold(columns: Columns, groups: Groups) -> list[Any]:
        rows = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        group = groups.of_row[rows]
        order = np.argsort(group, kind="stable")
        values = columns[0].take(pa.array(rows[order])).to_numpy(zero_copy_only=False)
        present, begins = np.unique(group[order], return_index=True)
        found = np.zeros(groups.count, values.dtype)
        if present.size:
            found[present] = operation.reduceat(values, begins)
        missing = np.ones(groups.count, bool)
        missing[present] = False
        return [pa.array(found, columns[0].type, mask=missing)]

    return fold


def moments(columns: Columns, groups: Groups) -> list[Any]:
    """Merge (n, mean, sum of squared distances from the mean); sums of squares would lose digits (Chan et al.)."""
    n, mean, distances = (np.asarray(pc.struct_field(columns[0], i)) for i in range(3))
    of, count = groups.of_row, groups.count
    total = np.bincount(of, n, count)
    # A group without values has no mean; 0 stands for it, with weight 0.
    joined = np.bincount(of, n * mean, count) / np.where(total > 0, total, 1)
    squares = np.bincount(of, distances + n * (mean - joined[of]) ** 2, count)
    return [pa.StructArray.from_arrays([pa.array(x) for x in (total, joined, squares)], fields=list(columns[0].type))]


def lists(columns: Columns, groups: Groups) -> list[Any]:
    """Concatenate lists in the order of their rows."""
    rows, values = pc.list_parent_indices(columns[0]).to_numpy(), pc.list_flatten(columns[0])
    return [_listed(groups.of_row[rows], values, groups, columns[0].type)]


def sets(columns: Columns, groups: Groups) -> list[Any]:
    """Concatenate lists, keeping each value once."""
    rows, values = pc.list_parent_indices(columns[0]).to_numpy(), pc.list_flatten(columns[0])
    group = groups.of_row[rows]
    first = groups_of([pa.array(group), values]).first
    return [_listed(group[first], values.take(pa.array(first)), groups, columns[0].type)]


def _codes(column: Any) -> Ints:
    """Number the values of a column in order of appearance."""
    try:
        encoded = _whole(column).dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:  # structs, lists
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(hashable(value), len(seen)) for value in column.to_pylist()], np.int64)
    return np.asarray(encoded.indices, np.int64)


def hashable(value: Any) -> Any:
    """Return a hashable form of a value; two forms are equal if Spark considers the values equal."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # always the same object, so that it equals itself in a dict
    if isinstance(value, (list, tuple)):
        return tuple(hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return value


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _aggregated(values: Any, groups: Groups, function: str) -> Any:
    table = pa.table({"group": groups.of_row, "value": values})
    # With one thread, groups come in order of appearance, which is their number.
    folded = table.group_by("group", use_threads=False).aggregate([("value", function)])
    return _whole(folded.column(f"value_{function}")).cast(values.type)


def _check_sums(values: Any, groups: Groups) -> None:
    """Refuse sums that overflow, as Spark does; Arrow would let them wrap around."""
    low, high = pc.min_max(values).as_py().values()
    limit = 2 ** (values.type.bit_width - 1)
    if low is None or max(-low, high) * len(values) < limit:
        return  # no sum can overflow: the usual case
    sums = [0] * groups.count
    for group, value in zip(groups.of_row.tolist(), values.to_pylist(), strict=True):
        sums[group] += value or 0
    if max(sums) >= limit or min(sums) < -limit:
        raise FoldError(f"a sum overflows {values.type}: cast the column to decimal(38,0) before you sum it")


def _extreme(values: Any, groups: Groups, function: str) -> list[Any]:
    if not pa.types.is_floating(values.type):
        return [_aggregated(values, groups, function)]
    return [values.take(_extreme_rows(values, groups, "descending" if function == "max" else "ascending"))]


def _extreme_rows(order: Any, groups: Groups, direction: str) -> Any:
    """Return the row of the largest or smallest value of each group; null for a group without values."""
    rows = np.flatnonzero(order.is_valid().to_numpy(zero_copy_only=False))
    group, values = groups.of_row[rows], order.take(pa.array(rows))
    table, keys = pa.table({"group": group, "value": values}), [("group", "ascending"), ("value", direction)]
    if pa.types.is_floating(order.type):  # Arrow always sorts NaN last; to Spark it is the largest value
        table = table.append_column("nan", pc.is_nan(values).cast(pa.int8()))
        keys.insert(1, ("nan", direction))
    sorted_ = pc.sort_indices(table, sort_keys=keys).to_numpy()
    present, begins = np.unique(group[sorted_], return_index=True)
    found = np.zeros(groups.count, np.int64)
    found[present] = rows[sorted_[begins]]
    missing = np.ones(groups.count, bool)
    missing[present] = False
    return pa.array(found, mask=missing)


def _listed(group: Ints, values: Any, groups: Groups, kind: pa.DataType) -> Any:
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=groups.count))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, _whole(values).take(pa.array(order)), type=kind)
