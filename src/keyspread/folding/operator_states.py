"""The states of an `Operator`, which is called for each key: made from rows, merged, finished. No engine."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.folding.states import (
    MOST_BYTES,
    MOST_STATES,
    Groups,
    Ints,
    KeyedStates,
    OperatorError,
    PickledColumn,
    StateColumns,
    TypedColumns,
    columns_of,
    hashable,
    numbered_table,
    place_of,
)
from keyspread.folding.types import as_stored, comparable_values, stored_schema
from keyspread.operators import Operator

_ROWS = 4096  # states per table, as they may be large
_LOOKED_AT = 4  # states of a batch whose size is measured
# A call of `update` with a slice of a table takes 12 µs, with a frame of pandas 120 µs; to move a row takes 3 µs.
_ROWS_OF_A_CALL = {"arrow": 4, "pandas": 40}


class OperatorStates(KeyedStates):
    """What the executors need of an operator: the number of key columns, the names of the rows' columns, and types.

    `state` has the types of a typed state, None if states are pickled; `result` has those of what `finish` returns.
    """

    def __init__(
        self, operator: Operator[Any], keys: int, columns: Sequence[str], state: pa.Schema | None, result: pa.Schema
    ) -> None:
        self._operator, self._columns = operator, list(columns)
        super().__init__(keys)
        self._result = stored_schema(result)
        self._states: StateColumns = (
            PickledColumn(operator) if state is None else TypedColumns(operator, stored_schema(state))
        )

    @property
    def state_types(self) -> list[pa.DataType]:
        """The types of the columns of a state."""
        return self._states.types

    def new_table(self) -> "OperatorTable":
        """Return a table without states."""
        return OperatorTable(self)

    def update(self, states: dict[Any, Any], head: pa.Table, rows: pa.Table, groups: Groups) -> list[int]:
        """Update the states of all groups with their rows; return the groups that had no state."""
        zero, update = self._operator.zero, self._operator.update
        new: list[int] = []
        rows = rows.select(range(self.width, self.width + len(self._columns))).rename_columns(self._columns)
        parts = _parts(rows, groups, self._operator.batches)
        step, group = "zero", 0
        try:
            for group, (key, part) in enumerate(zip(self._keys(head), parts, strict=True)):
                if key in states:
                    state = states[key]
                else:
                    new.append(group)
                    step = "zero"
                    state = zero()
                step = "update"
                states[key] = update(state, part)
        except Exception as problem:
            raise self._failed(step, self._shown(head)(group), problem) from problem
        return new

    def rows_of_a_call(self) -> int:
        """Return how many rows are moved in the time of one call of `update`, apart from what it computes."""
        return _ROWS_OF_A_CALL[self._operator.batches]

    def table_of(self, head: pa.Table, states: Sequence[Any]) -> pa.Table:
        """Return states as a table, with the hash and the key of each from `head`."""
        return numbered_table([*head.columns, *self._states.write("update", states, self._shown(head))])

    def _merged(self, split: pa.Table, head: pa.Table, sizes: Ints) -> list[pa.Array]:
        merge, values = self._operator.merge, iter(self._states.read(split.columns[self.width :]))
        shown, merged = self._shown(head), list[Any]()
        try:
            for size in sizes.tolist():
                state = next(values)
                for _ in range(size - 1):
                    state = merge(state, next(values))
                merged.append(state)
        except Exception as problem:
            raise self._failed("merge", shown(len(merged)), problem) from problem
        return self._states.write("merge", merged, shown)

    def finish(self, table: pa.Table) -> pa.Table:
        """Turn states into rows of the result: the key and what `finish` returns."""
        table = as_stored(table)
        shown, finish = self._shown(table), self._operator.finish
        results: list[Any] = []
        states = self._states.read(table.columns[self.width :])
        try:
            results.extend(map(finish, states))
        except Exception as problem:  # what was finished before is there, so the next one has failed
            raise self._failed("finish", shown(len(results)), problem) from problem
        columns = columns_of(self._operator, "finish", "schema", results, self._result, shown)
        return numbered_table([*table.columns[1 : self.width], *columns])

    def _failed(self, step: str, key: str, problem: Exception) -> OperatorError:
        name = type(self._operator).__name__
        return OperatorError(f"{place_of(problem)}{name}.{step} failed for key {key}: {problem!r}")

    def _keys(self, head: pa.Table) -> Iterator[Any]:
        """Return the keys as values that can be compared; as in Spark, null equals null and NaN equals NaN."""
        return zip(*([hashable(one) for one in comparable_values(key)] for key in head.columns[1:]), strict=True)


class OperatorTable:
    """The states of an `Operator`, by key."""

    def __init__(self, own: OperatorStates) -> None:
        self._own = own
        self._states = dict[Any, Any]()
        self._heads: list[pa.Table] = []  # hash and key of each state, in the order of the states
        self._bytes_of_a_state = 0.0
        self._bytes_added = 0  # of rows, since all states were measured
        self._has_large_states = False

    @property
    def is_full(self) -> bool:
        """Whether its states should be taken before more rows are added: there are many, or they are large."""
        count = len(self._states)
        return self._has_large_states or count > MOST_STATES or count * self._bytes_of_a_state > MOST_BYTES

    def worth_adding(self, counts: Ints, row_bytes: float, hot: float) -> npt.NDArray[np.bool_]:
        """Tell for each key of a batch whether a call costs less than moving its rows, and its state is smaller."""
        pays = max(self._own.rows_of_a_call(), self._bytes_of_a_state / max(row_bytes, 1.0))
        return np.asarray(counts >= min(pays, hot))

    def add(self, rows: pa.Table, groups: Groups) -> None:
        """Update the state of every group with its rows."""
        own = self._own
        head = as_stored(rows.select(range(own.width)).take(pa.array(groups.first)))
        new = own.update(self._states, head, rows, groups)
        self._heads.append(head.take(pa.array(new, pa.int64())))
        if new:  # as large as the largest of those that were made last
            states = list(self._states.values())[-_LOOKED_AT:]
            made = own.table_of(self._heads[-1].slice(max(0, len(new) - len(states))), states[-len(new) :])
            self._bytes_of_a_state = max(self._bytes_of_a_state, made.nbytes / made.num_rows)
        self._bytes_added += rows.nbytes
        if self._bytes_added > MOST_BYTES / 2:  # states may have grown by as much
            self._bytes_added = 0
            self._has_large_states = sum(table.nbytes for table in self._tables()) > MOST_BYTES / 2

    def taken(self) -> Iterator[pa.Table]:
        """Yield the states, a few thousand at a time, as they may be large."""
        yield from self._tables()
        self._states, self._heads = {}, []
        self._bytes_added, self._has_large_states = 0, False

    def _tables(self) -> Iterator[pa.Table]:
        if not self._states:
            return
        states, head = list(self._states.values()), pa.concat_tables(self._heads)
        for begin in range(0, len(states), _ROWS):
            yield self._own.table_of(head.slice(begin, _ROWS), states[begin : begin + _ROWS])


def _parts(rows: pa.Table, groups: Groups, batches: str) -> Iterator[Any]:
    """Return the rows of each group, in order of the groups, in the form that the operator wants."""
    order, ends = np.argsort(groups.of_row, kind="stable"), np.cumsum(np.bincount(groups.of_row)).tolist()
    # A slice costs a tenth of taking the rows of each group: so they are brought side by side first.
    side_by_side = rows.take(pa.array(order)).combine_chunks()
    if batches == "arrow":
        return (side_by_side.slice(begin, end - begin) for begin, end in pairwise([0, *ends]))
    return _frames(side_by_side, ends)


def _frames(rows: pa.Table, ends: list[int]) -> Iterator[Any]:
    """Return a pandas.DataFrame for each group, which the operator may change."""
    # A null makes pandas turn whole numbers into floats, which have fewer digits, and booleans into objects. So such
    # columns are converted by group: a null of one key must not change the rows of another.
    by_group = [(at, column) for at, column in enumerate(rows.columns) if _is_changed_by_a_null(column)]
    frame = rows.to_pandas()
    for begin, end in pairwise([0, *ends]):
        part = frame.iloc[begin:end].copy()
        part.index = range(end - begin)
        for at, column in by_group:
            # Not a slice: of maps, pyarrow converts the values outside it, too.
            part.isetitem(at, column.take(pa.array(np.arange(begin, end))).to_pandas())
        yield part


def _is_changed_by_a_null(column: pa.ChunkedArray) -> bool:
    return _has_whole_numbers(column.type) and (column.null_count > 0 or pa.types.is_nested(column.type))


def _has_whole_numbers(kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return True
    return any(_has_whole_numbers(kind.field(at).type) for at in range(kind.num_fields))
