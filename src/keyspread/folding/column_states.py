"""The states of a `ColumnOperator`, which gets and returns whole tables: made from rows, merged, finished. No engine.

What the operator returns is checked: the columns, their types, and that every key is one of those it got.
"""

from collections.abc import Iterator, Sequence
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
    chunks_of,
    groups_of,
    numbered_table,
    place_of,
)
from keyspread.folding.types import as_stored, is_stored_as, stored_schema
from keyspread.operators import ColumnOperator

_SMALLER = 0.7  # keys per row of a batch, up to which it is folded


class ColumnStates(KeyedStates):
    """What the executors need: the names of the key and of all columns, the types of a state and of the result."""

    def __init__(
        self, operator: ColumnOperator, keys: Sequence[str], columns: Sequence[str], state: pa.Schema, result: pa.Schema
    ) -> None:
        super().__init__(len(keys))
        self._operator, self._keys, self._columns = operator, list(keys), list(columns)
        self._state, self._result = stored_schema(state), stored_schema(result)

    @property
    def state_types(self) -> list[pa.DataType]:
        """The types of the columns of a state."""
        return list(self._state.types)

    def new_table(self) -> "ColumnTable":
        """Return a table without states."""
        return ColumnTable(self)

    def partial(self, table: pa.Table) -> pa.Table:
        """Return the states of these rows: the hash, the key, all columns."""
        head = as_stored(table.select(range(self.width)))
        columns = table.columns[self.width :]
        others = [(name, one) for name, one in zip(self._columns, columns, strict=False) if name not in self._keys]
        names, values = [name for name, _ in others], [one for _, one in others]
        rows = pa.table([*head.columns[1:], *values], names=[*self._keys, *names])
        states = self._called("partial", rows, head, self._state)
        places = self._places("partial", head, states)
        return numbered_table([head.column(0).take(pa.array(places)), *states.columns])

    def _merged(self, split: pa.Table, head: pa.Table, sizes: Ints) -> Sequence[Any]:
        states = self._called("merge", self._named(split), head, self._state)
        return self._by_key("merge", head, states)

    def finish(self, table: pa.Table) -> pa.Table:
        """Turn states into rows of the result: the key and what `finish` returns."""
        table = as_stored(table)
        if not table.num_rows:
            kinds = [*table.schema.types[1 : self.width], *self._result.types]
            return numbered_table([pa.array([], kind) for kind in kinds])
        found = self._called("finish", self._named(table), table, self._result)
        return numbered_table([*table.columns[1 : self.width], *self._by_key("finish", table, found)])

    def _named(self, table: pa.Table) -> pa.Table:
        """Return a table of states as the operator knows it: without the hash, with names."""
        return table.select(range(1, table.num_columns)).rename_columns([*self._keys, *self._state.names])

    def _called(self, step: str, given: pa.Table, head: pa.Table, fields: pa.Schema) -> pa.Table:
        """Call a step of the operator; return the key columns and these fields, in the types that are declared."""
        try:
            found = getattr(self._operator, step)(given, list(self._keys))
        except Exception as problem:
            text = f"{type(self._operator).__name__}.{step} failed for {given.num_rows} rows"
            raise OperatorError(f"{place_of(problem)}{text}: {' '.join(repr(problem).split())}") from problem
        kinds = [*head.schema.types[1 : self.width], *fields.types]
        wanted = pa.schema(list(zip([*self._keys, *fields.names], kinds, strict=True)))
        return self._typed(step, found, wanted)

    def _typed(self, step: str, found: Any, wanted: pa.Schema) -> pa.Table:
        declared = "schema" if step == "finish" else "state"
        listed = f"the columns {', '.join(wanted.names)} (the key and its {declared})"
        table = _table(found)
        if table is None:
            raise self._error(f".{step} must return a table with {listed}, got {type(found).__name__}")
        names = table.column_names
        wrong = [f"{name!r} is missing" for name in wanted.names if name not in names]
        wrong += [f"{name!r} is there twice" for name in wanted.names if names.count(name) > 1]
        if step != "finish":
            wrong += [f"{name!r} is not one of them" for name in names if name not in wanted.names]
        if wrong:
            raise self._error(f".{step} must return {listed}, but {', '.join(wrong)}: rename or drop columns")
        columns = [self._cast(step, declared, table.column(field.name), field) for field in wanted]
        return pa.table(columns, names=wanted.names)

    def _cast(self, step: str, declared: str, column: Any, field: pa.Field) -> Any:
        """Return a column in the type in which it is kept; refuse what would be stored as something else."""
        if column.type == field.type:
            return column
        said = "the key is" if field.name in self._keys else f"its {declared} says"
        problem = None
        if is_stored_as(column.type, field.type):
            try:
                return column.cast(field.type)
            except pa.ArrowException as one:
                problem = " ".join(str(one).split())
        reason = f" ({problem})" if problem else ""
        raise self._error(
            f".{step} returned the column {field.name!r} as {column.type}, but {said} {field.type}{reason}: "
            "cast it, or declare another type"
        )

    def _by_key(self, step: str, head: pa.Table, found: pa.Table) -> list[Any]:
        """Return the columns after the key in the order of the keys in `head`; every key must be there once."""
        width, columns = self.width - 1, found.columns
        if all(ours.equals(theirs) for ours, theirs in zip(head.columns[1:], columns[:width], strict=False)):
            return list(columns[width:])
        places = self._places(step, head, found)
        counts = np.bincount(places, minlength=head.num_rows)
        wrong = np.flatnonzero(counts != 1)
        if wrong.size:
            shown = self._shown(head)(int(wrong[0]))
            raise self._error(
                f".{step} must return one row for each key that it got, but returned {counts[wrong[0]]} for key {shown}"
            )
        order = pa.array(np.argsort(places))
        return [column.take(order) for column in columns[width:]]

    def _places(self, step: str, head: pa.Table, found: pa.Table) -> Ints:
        """Return for each row the first row in `head` that has its key."""
        both = [
            pa.chunked_array([*ours.chunks, *chunks_of(theirs)])
            for ours, theirs in zip(head.columns[1 : self.width], found.columns, strict=False)
        ]
        groups = groups_of(both)
        places = groups.first[groups.of_row[head.num_rows :]]
        foreign = np.flatnonzero(places >= head.num_rows)
        if foreign.size:
            keys = [found.column(0), *found.columns[: self.width - 1]]  # in the places that `_shown` looks at
            shown = self._shown(numbered_table(keys))
            raise self._error(f".{step} returned key {shown(int(foreign[0]))}, which is none of the keys that it got")
        return places

    def _error(self, text: str) -> OperatorError:
        return OperatorError(f"{type(self._operator).__name__}{text}")


class ColumnTable:
    """The states of a `ColumnOperator`: those of several batches, which are merged when there are many."""

    def __init__(self, own: ColumnStates) -> None:
        self._own = own
        self._held: list[pa.Table] = []
        self._rows, self._limit = 0, MOST_STATES
        self._bytes, self._bytes_limit = 0, MOST_BYTES
        self.is_full = False
        """Whether its states should be taken before more rows are added: there are many, or they are large."""

    def worth_adding(self, counts: Ints, row_bytes: float, hot: float) -> npt.NDArray[np.bool_]:
        """Tell whether a batch becomes smaller, or has a hot key: if so, it is folded as a whole."""
        pays = counts.size <= _SMALLER * counts.sum() or counts.max() >= hot
        return np.full(counts.size, pays)

    def add(self, rows: pa.Table, groups: Groups) -> None:
        """Make the states of these rows; merge those that are held when there are many."""
        states = self._own.partial(rows)
        self._held.append(states)
        self._rows += states.num_rows
        self._bytes += states.nbytes
        if self._rows > self._limit or self._bytes > self._bytes_limit:
            folded = self._own.fold(pa.concat_tables(self._held))
            self._held, self._rows, self._bytes = [folded], folded.num_rows, folded.nbytes
            self._limit, self._bytes_limit = max(MOST_STATES, 2 * self._rows), max(MOST_BYTES, 2 * self._bytes)
            self.is_full = self._rows > MOST_STATES or self._bytes > MOST_BYTES

    def taken(self) -> Iterator[pa.Table]:
        """Yield the states, one per key, and be empty again."""
        held = self._held
        self.__init__(self._own)  # type: ignore[misc]
        if held:
            states = self._own.fold(pa.concat_tables(held))
            if states.num_rows:
                yield states


def _table(found: Any) -> pa.Table | None:
    """Return what an operator returned as a table, None if it is none."""
    if isinstance(found, pa.Table):
        return found
    if isinstance(found, pa.RecordBatch):
        return pa.Table.from_batches([found])
    if hasattr(found, "__arrow_c_stream__"):  # of Polars, DuckDB, pandas, …
        return pa.table(found)
    return None
