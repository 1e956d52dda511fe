"""Partial states of many keys at once, as columns: rows of one key are folded into one row. Plain Arrow, no engine.

A fold takes the columns of a partial state and the group of each row, and gives the same columns with a row a group.
It may be applied again to what it gave, in any cut and order: that is all a stream needs.
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
    """A partial state cannot be folded; the message says why."""


@dataclass(frozen=True)
class Groups:
    """Rows that belong together: the group of every row, and the row in which each group is seen first."""

    of_row: Ints
    first: Ints

    @property
    def count(self) -> int:
        """How many groups there are."""
        return self.first.size


Fold = Callable[[Columns, Groups], list[Any]]


def groups_of(columns: Columns) -> Groups:
    """Group rows that are equal in all columns: null equals null and NaN equals NaN; in order of appearance.

    >>> groups_of([pa.array(["a", None, "a"]), pa.array([1, 1, 1])])
    Groups(of_row=array([0, 1, 0]), first=array([0, 1]))
    """
    codes = _codes(columns[0])
    for column in columns[1:]:
        more = _codes(column)
        # Both are below the number of rows, so that their product is far from 2^63.
        codes = _codes(pa.array(codes * (int(more.max(initial=0)) + 1) + more))
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
    return Groups(codes, first)


def fold_table(table: pa.Table, keys: int, folds: Sequence[tuple[int, Fold]]) -> pa.Table:
    """Give one row for each key: the first `keys` columns say which, the others are folded, each fold taking its own.

    >>> rows = pa.table({"k": ["a", "b", "a"], "n": [1, 1, 1], "most": [3, 5, 4]})
    >>> fold_table(rows, 1, [(1, added), (1, greatest)]).to_pydict()
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


def added(columns: Columns, groups: Groups) -> list[Any]:
    """Sum; null where there is nothing but nulls."""
    (values,) = columns
    if pa.types.is_integer(values.type):
        _check_sums(values, groups)
    return [_aggregated(values, groups, "sum")]


def greatest(columns: Columns, groups: Groups) -> list[Any]:
    """Take the largest value, NaN above all."""
    return _extreme(columns[0], groups, "max")


def least(columns: Columns, groups: Groups) -> list[Any]:
    """Take the smallest value, NaN above all."""
    return _extreme(columns[0], groups, "min")


def of_greatest(columns: Columns, groups: Groups) -> list[Any]:
    """Fold (value, order): the value where the order is largest."""
    rows = _extreme_rows(columns[1], groups, "descending")
    return [column.take(rows) for column in columns]


def of_least(columns: Columns, groups: Groups) -> list[Any]:
    """Fold (value, order): the value where the order is smallest."""
    rows = _extreme_rows(columns[1], groups, "ascending")
    return [column.take(rows) for column in columns]


def all_true(columns: Columns, groups: Groups) -> list[Any]:
    """And; null where there is nothing but nulls."""
    return [_aggregated(columns[0], groups, "all")]


def any_true(columns: Columns, groups: Groups) -> list[Any]:
    """Or; null where there is nothing but nulls."""
    return [_aggregated(columns[0], groups, "any")]


def bits(operation: np.ufunc) -> Fold:
    """Make the fold of a bitwise operation of whole numbers, null where there is nothing but nulls."""

    def folded(columns: Columns, groups: Groups) -> list[Any]:
        rows = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        own = groups.of_row[rows]
        order = np.argsort(own, kind="stable")
        values = columns[0].take(pa.array(rows[order])).to_numpy(zero_copy_only=False)
        present, begins = np.unique(own[order], return_index=True)
        found = np.zeros(groups.count, values.dtype)
        if present.size:
            found[present] = operation.reduceat(values, begins)
        missing = np.ones(groups.count, bool)
        missing[present] = False
        return [pa.array(found, columns[0].type, mask=missing)]

    return folded


def moments(columns: Columns, groups: Groups) -> list[Any]:
    """Join (n, mean, squared distances from it) of many parts at once (Chan et al.): sums of squares would cancel."""
    n, mean, distances = (np.asarray(pc.struct_field(columns[0], i)) for i in range(3))
    of, count = groups.of_row, groups.count
    total = np.bincount(of, n, count)
    # Where there is no value there is no mean either; 0 stands for it, and weighs nothing.
    joined = np.bincount(of, n * mean, count) / np.where(total > 0, total, 1)
    squares = np.bincount(of, distances + n * (mean - joined[of]) ** 2, count)
    return [pa.StructArray.from_arrays([pa.array(x) for x in (total, joined, squares)], fields=list(columns[0].type))]


def lists(columns: Columns, groups: Groups) -> list[Any]:
    """Put lists together, in the order in which they come."""
    rows, values = pc.list_parent_indices(columns[0]).to_numpy(), pc.list_flatten(columns[0])
    return [_listed(groups.of_row[rows], values, groups, columns[0].type)]


def sets(columns: Columns, groups: Groups) -> list[Any]:
    """Put lists together, every value once."""
    rows, values = pc.list_parent_indices(columns[0]).to_numpy(), pc.list_flatten(columns[0])
    own = groups.of_row[rows]
    kept = groups_of([pa.array(own), values]).first
    return [_listed(own[kept], values.take(pa.array(kept)), groups, columns[0].type)]


def _codes(column: Any) -> Ints:
    """Number the values of a column in order of appearance."""
    try:
        encoded = _whole(column).dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:  # structs, lists
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(hashable(value), len(seen)) for value in column.to_pylist()], np.int64)
    return np.asarray(encoded.indices, np.int64)


def hashable(value: Any) -> Any:
    """Give a value that a dict can hold, equal if Spark holds the originals to be equal."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one and the same object, so that it equals itself in a dict
    if isinstance(value, (list, tuple)):
        return tuple(hashable(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, hashable(one)) for name, one in value.items())
    return value


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _aggregated(values: Any, groups: Groups, function: str) -> Any:
    table = pa.table({"group": groups.of_row, "value": values})
    # One thread: groups then come in order of appearance, which is their number.
    folded = table.group_by("group", use_threads=False).aggregate([("value", function)])
    return _whole(folded.column(f"value_{function}")).cast(values.type)


def _check_sums(values: Any, groups: Groups) -> None:
    """Refuse sums beyond the type, which Arrow would let wrap around; Spark refuses them too."""
    low, high = pc.min_max(values).as_py().values()
    limit = 2 ** (values.type.bit_width - 1)
    if low is None or max(-low, high) * len(values) < limit:
        return  # as good as always
    sums = [0] * groups.count
    for group, value in zip(groups.of_row.tolist(), values.to_pylist(), strict=True):
        sums[group] += value or 0
    if max(sums) >= limit or min(sums) < -limit:
        raise FoldError(f"a sum is beyond {values.type}: cast the column to decimal(38,0) before it is summed")


def _extreme(values: Any, groups: Groups, function: str) -> list[Any]:
    if not pa.types.is_floating(values.type):
        return [_aggregated(values, groups, function)]
    return [values.take(_extreme_rows(values, groups, "descending" if function == "max" else "ascending"))]


def _extreme_rows(order: Any, groups: Groups, direction: str) -> Any:
    """Give for each group the row of its largest or smallest value, null where it has none."""
    rows = np.flatnonzero(order.is_valid().to_numpy(zero_copy_only=False))
    own, kept = groups.of_row[rows], order.take(pa.array(rows))
    table, keys = pa.table({"group": own, "value": kept}), [("group", "ascending"), ("value", direction)]
    if pa.types.is_floating(order.type):  # which Arrow sorts to the end either way, and Spark above all
        table = table.append_column("nan", pc.is_nan(kept).cast(pa.int8()))
        keys.insert(1, ("nan", direction))
    sorted_ = pc.sort_indices(table, sort_keys=keys).to_numpy()
    present, begins = np.unique(own[sorted_], return_index=True)
    found = np.zeros(groups.count, np.int64)
    found[present] = rows[sorted_[begins]]
    missing = np.ones(groups.count, bool)
    missing[present] = False
    return pa.array(found, mask=missing)


def _listed(own: Ints, values: Any, groups: Groups, kind: pa.DataType) -> Any:
    order = np.argsort(own, kind="stable")
    ends = np.cumsum(np.bincount(own, minlength=groups.count))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, _whole(values).take(pa.array(order)), type=kind)
