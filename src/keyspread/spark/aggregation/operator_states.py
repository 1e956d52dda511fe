"""The states of an operator in Arrow tables: made from rows, merged by key, finished. No engine.

A table of states has these columns: the hash of the key, start and end of the window if there are windows, the key, and
the state. They are named by number, because Spark's mapInArrow accepts neither dots in a name nor a name twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from keyspread.operators import Operator
from keyspread.spark.aggregation.groups import Groups, Ints, groups_of, hashable
from keyspread.spark.aggregation.state_columns import (
    KeyOf,
    OperatorError,
    PickledColumn,
    StateColumns,
    TypedColumns,
    columns_of,
)
from keyspread.spark.aggregation.stored_types import as_stored, comparable_values, stored_schema

_ROWS = 4096  # states per table, as they may be large


class OperatorStates:
    """What the executors need of an operator: the number of key columns, the names of the rows' columns, and types.

    `state` has the types of a typed state, None if states are pickled; `result` has those of what `finish` returns.
    """

    def __init__(
        self, operator: Operator[Any], keys: int, columns: Sequence[str], state: pa.Schema | None, result: pa.Schema
    ) -> None:
        self._operator, self._columns = operator, list(columns)
        self.width = 1 + keys
        """The number of columns before the state: the hash and the key."""
        self._result = stored_schema(result)
        self._states: StateColumns = (
            PickledColumn(operator) if state is None else TypedColumns(operator, stored_schema(state))
        )

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Make one state per key from all rows of a worker: the hash, the key, all columns of the rows."""
        states = dict[Any, Any]()
        heads: list[pa.Table] = []  # hash and key of each state, in the order of `states`
        for batch in batches:
            table = pa.Table.from_batches([batch])
            head = as_stored(table.select(range(self.width)))
            groups = groups_of(head.columns[1:])
            head = head.take(pa.array(groups.first))
            rows = table.select(range(self.width, self.width + len(self._columns))).rename_columns(self._columns)
            heads.append(head.take(pa.array(self._update(states, head, rows, groups), pa.int64())))
        if not states:
            return
        head, made = pa.concat_tables(heads), list(states.values())
        for begin in range(0, len(made), _ROWS):
            part = head.slice(begin, _ROWS)
            columns = self._states.write("update", made[begin : begin + _ROWS], self._shown(part))
            yield _numbered_table([*part.columns, *columns])

    def _update(self, states: dict[Any, Any], head: pa.Table, rows: pa.Table, groups: Groups) -> list[int]:
        """Update the states of all groups with their rows; return the groups that had no state."""
        zero, update = self._operator.zero, self._operator.update
        new: list[int] = []
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

    def fold(self, table: pa.Table) -> pa.Table:
        """Merge the states of each key into one; keys stay in order of appearance."""
        table = as_stored(table)
        groups = groups_of(table.columns[1 : self.width])
        if groups.count == table.num_rows:
            return table
        sizes = np.bincount(groups.of_row)
        several = np.flatnonzero(sizes > 1)
        order = np.argsort(groups.of_row, kind="stable")
        split = table.take(pa.array(order[sizes[groups.of_row[order]] > 1]))  # states of one key are side by side
        head = table.select(range(self.width)).take(pa.array(groups.first))
        shown = self._shown(head)
        merged = self._merged(split, several, sizes, shown)
        new = self._states.write("merge", merged, lambda at: shown(int(several[at])))
        # A state that had nothing to merge with is taken as it is.
        rows = groups.first.copy()
        rows[several] = table.num_rows + np.arange(several.size)
        columns = [
            pa.chunked_array([*old.chunks, merged_column]).take(pa.array(rows))
            for old, merged_column in zip(table.columns[self.width :], new, strict=True)
        ]
        return _numbered_table([*head.columns, *columns])

    def _merged(self, split: pa.Table, several: Ints, sizes: Ints, shown: KeyOf) -> list[Any]:
        """Return one state for each group in `several`, whose states are side by side in `split`."""
        merge, values = self._operator.merge, iter(self._states.read(split.columns[self.width :]))
        merged, group = [], 0
        try:
            for group in several.tolist():
                state = next(values)
                for _ in range(sizes[group] - 1):
                    state = merge(state, next(values))
                merged.append(state)
        except Exception as problem:
            raise self._failed("merge", shown(group), problem) from problem
        return merged

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
        return _numbered_table([*table.columns[1 : self.width], *columns])

    def _failed(self, step: str, key: str, problem: Exception) -> OperatorError:
        return OperatorError(f"{type(self._operator).__name__}.{step} failed for key {key}: {problem!r}")

    def _keys(self, head: pa.Table) -> Iterator[Any]:
        """Return the keys as values that can be compared; as in Spark, null equals null and NaN equals NaN."""
        return zip(*([hashable(one) for one in comparable_values(key)] for key in head.columns[1:]), strict=True)

    def _shown(self, table: pa.Table) -> KeyOf:
        """Return a function that shows the key in a row; only an error needs it."""
        columns = table.columns[1 : self.width]

        def shown(row: int) -> str:
            try:
                key = tuple(column[row].as_py() for column in columns)
            except (ValueError, OverflowError):  # a time that Python does not have
                return str([str(column[row]) for column in columns])
            return repr(key[0] if len(key) == 1 else key)

        return shown


def _parts(rows: pa.Table, groups: Groups, batches: str) -> Iterator[Any]:
    """Return the rows of each group, in order of the groups, in the form that the operator wants."""
    order, ends = np.argsort(groups.of_row, kind="stable"), np.cumsum(np.bincount(groups.of_row)).tolist()
    # A slice costs a tenth of taking the rows of each group: so they are brought side by side first.
    side_by_side = rows.take(pa.array(order)).combine_chunks()
    if batches == "arrow":
        return (side_by_side.slice(begin, end - begin) for begin, end in pairwise([0, *ends]))
    return _frames(side_by_side.to_pandas(), ends)


def _frames(rows: Any, ends: list[int]) -> Iterator[Any]:
    """Return a pandas.DataFrame for each group, which the operator may change."""
    for begin, end in pairwise([0, *ends]):
        part = rows.iloc[begin:end].copy()
        part.index = range(end - begin)
        yield part


def numbered(count: int) -> list[str]:
    """Return the names of this many columns."""
    return [f"_{number}" for number in range(count)]


def _numbered_table(columns: Sequence[Any]) -> pa.Table:
    return pa.table(list(columns), names=numbered(len(columns)))
