"""Groups: the rows of a table that have the same key, as numbers. No engine."""

import math
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.errors import KeyspreadError
from keyspread.folding.types import as_stored, comparable_values, to_array, to_python
from keyspread.operators import Operator

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


# State columns: the states of an operator as Arrow columns, typed by its `state`, or pickled. No engine.
#
# Pickled states run code when they are read. So whoever can write into the checkpoint of a stream, or into a folder of
# totals, runs code on the executors. Typed states are only data.


KeyOf = Callable[[int], str]
"""Returns the key of a state by its number, as text for an error."""


class OperatorError(KeyspreadError):
    """A user's operator failed; the message names the step and the key."""


_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def place_of(problem: BaseException) -> str:
    """Return the file and line in the user's code where it failed, to begin a message with; nothing if not there.

    Spark drops the traceback of a cause, so the message is all that the user sees.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(problem.__traceback__)][1:]
    if not frames or frames[0][0].startswith(_PACKAGE):
        return ""
    file = frames[0][0]
    return f"{file}, line {[line for name, line in frames if name == file][-1]}: "


class StateColumns(Protocol):
    """Writes states as columns and reads them back."""

    @property
    def types(self) -> list[pa.DataType]:
        """The types of the columns."""

    def write(self, step: str, states: Sequence[Any], key_of: KeyOf) -> list[pa.Array]:
        """Return the columns of states that a step of the operator returned."""

    def read(self, columns: Sequence[Any]) -> list[Any]:
        """Return the states in these columns."""


class TypedColumns:
    """States that are dicts with the fields of the operator's `state`: one column per field."""

    def __init__(self, operator: Operator[Any], fields: pa.Schema) -> None:
        self._operator, self._fields = operator, fields

    @property
    def types(self) -> list[pa.DataType]:
        """The declared types."""
        return list(self._fields.types)

    def write(self, step: str, states: Sequence[Any], key_of: KeyOf) -> list[pa.Array]:
        """Return one column per field."""
        return columns_of(self._operator, step, "state", states, self._fields, key_of)

    def read(self, columns: Sequence[Any]) -> list[Any]:
        """Return the states as dicts."""
        names = self._fields.names
        return [dict(zip(names, row, strict=True)) for row in zip(*map(to_python, columns), strict=True)]


class PickledColumn:
    """States of any kind, in one column of bytes."""

    def __init__(self, operator: Operator[Any]) -> None:
        self._operator = operator

    @property
    def types(self) -> list[pa.DataType]:
        """Bytes."""
        return [pa.binary()]

    def write(self, step: str, states: Sequence[Any], key_of: KeyOf) -> list[pa.Array]:
        """Return one column of bytes."""
        return [pa.array([self._pickled(state, key_of, at) for at, state in enumerate(states)], pa.binary())]

    def read(self, columns: Sequence[Any]) -> list[Any]:
        """Return the states; this runs whatever code the bytes name."""
        return [pickle.loads(state) for state in columns[0].to_pylist()]

    def _pickled(self, state: Any, key_of: KeyOf, at: int) -> bytes:
        try:
            return pickle.dumps(state)
        except Exception:  # cloudpickle also pickles the class, for example one of the user's script
            from pyspark import cloudpickle

            try:
                return bytes(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
            except Exception as problem:
                raise OperatorError(
                    f"{type(self._operator).__name__}: the state of key {key_of(at)} cannot be pickled ({problem!r}): "
                    "use plain values, or declare their types in `state`"
                ) from problem


def columns_of(
    operator: Operator[Any], step: str, declared: str, rows: Sequence[Any], fields: pa.Schema, key_of: KeyOf
) -> list[pa.Array]:
    """Return dicts that a step of the operator returned as columns; refuse other fields and other types."""
    names = set(fields.names)
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != names:
            raise OperatorError(
                f"{type(operator).__name__}.{step} must return a dict of {', '.join(fields.names)} (its {declared}), "
                f"for key {key_of(at)} it returned {row!r}"
            )
    return [_column(operator, step, rows, field, key_of) for field in fields]


def _column(operator: Operator[Any], step: str, rows: Sequence[Any], field: pa.Field, key_of: KeyOf) -> pa.Array:
    values = [row[field.name] for row in rows]
    try:
        return to_array(values, field.type)
    except Exception:
        for at, value in enumerate(values):  # find the one that failed, to name its key
            try:
                to_array([value], field.type)
            except Exception as problem:
                raise OperatorError(
                    f"{type(operator).__name__}.{step} returned {value!r} as {field.name} "
                    f"for key {key_of(at)}, which is not of type {field.type}: {problem}"
                ) from problem
        raise


# Tables of states, one row per key: what both kinds of operators have in common. No engine.
#
# A table of states has these columns: the hash of the key, start and end of the window if there are windows, the key,
# and the state. They are named by number, because Spark's mapInArrow accepts neither dots in a name nor a name twice.


MOST_STATES, MOST_BYTES = 50_000, 64 << 20
"""The size up to which a task collects states before it merges them, or sends them on."""


class StateTable(Protocol):
    """The states of keys whose rows a task has read so far."""

    @property
    def is_full(self) -> bool:
        """Whether its states should be taken before more rows are added: there are many, or they are large."""

    def worth_adding(self, counts: Ints, row_bytes: float, hot: float) -> npt.NDArray[np.bool_]:
        """Tell for each key of a batch, by its rows, whether its state should move instead of its rows.

        It should for a key with at least `hot` rows, which could make its worker uneven.
        """

    def add(self, rows: pa.Table, groups: Groups) -> None:
        """Update the states with rows (the hash, the key, all columns), which these are the groups of."""

    def taken(self) -> Iterator[pa.Table]:
        """Yield the states, one per key, and be empty again."""


class KeyedStates(ABC):
    """What the executors need of an operator: make states from rows, fold those of a key into one, finish them."""

    def __init__(self, keys: int) -> None:
        self.width = 1 + keys
        """The number of columns before the state: the hash and the key."""

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Make one state per key from all rows of a worker: the hash, the key, all columns of the rows."""
        table = self.new_table()
        for batch in batches:
            if batch.num_rows:
                rows = pa.Table.from_batches([batch])
                table.add(rows, self.groups(rows))
        yield from table.taken()

    def groups(self, rows: pa.Table) -> Groups:
        """Group rows by their key."""
        return groups_of(as_stored(rows.select(range(1, self.width))).columns)

    @property
    @abstractmethod
    def state_types(self) -> list[pa.DataType]:
        """The types of the columns of a state."""

    @abstractmethod
    def new_table(self) -> StateTable:
        """Return a table without states."""

    @abstractmethod
    def finish(self, table: pa.Table) -> pa.Table:
        """Turn states into rows of the result: the key and what `finish` returns."""

    @abstractmethod
    def _merged(self, split: pa.Table, head: pa.Table, sizes: Ints) -> Sequence[Any]:
        """Return the state columns of the keys in `head`: each has so many states, side by side in `split`."""

    def fold(self, table: pa.Table) -> pa.Table:
        """Merge the states of each key into one; keys stay in order of appearance."""
        table = as_stored(table)
        groups = groups_of(table.columns[1 : self.width])
        if groups.count == table.num_rows:
            return table
        sizes = np.bincount(groups.of_row)
        several = np.flatnonzero(sizes > 1)
        order = np.argsort(groups.of_row, kind="stable")
        split = table.take(pa.array(order[sizes[groups.of_row[order]] > 1]))
        head = table.select(range(self.width)).take(pa.array(groups.first))
        merged = self._merged(split, head.take(pa.array(several)), sizes[several])
        # A state that had nothing to merge with is taken as it is.
        rows = groups.first.copy()
        rows[several] = table.num_rows + np.arange(several.size)
        columns = [
            pa.chunked_array([*old.chunks, *chunks_of(new)]).take(pa.array(rows))
            for old, new in zip(table.columns[self.width :], merged, strict=True)
        ]
        return numbered_table([*head.columns, *columns])

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


def fold_all(tables: Iterable[pa.Table], fold: Callable[[pa.Table], pa.Table]) -> pa.Table | None:
    """Fold tables as they arrive, so that memory is proportional to the keys; return None if there are no rows."""
    held: list[pa.Table] = []
    rows, limit = 0, MOST_STATES
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows > limit:
            held = [fold(pa.concat_tables(held))]
            rows = held[0].num_rows
            limit = max(MOST_STATES, 2 * rows)
    return fold(pa.concat_tables(held)) if rows else None


def chunks_of(column: Any) -> list[pa.Array]:
    """Return the arrays of a column."""
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def numbered(count: int) -> list[str]:
    """Return the names of this many columns."""
    return [f"_{number}" for number in range(count)]


def numbered_table(columns: Sequence[Any]) -> pa.Table:
    """Return a table of these columns, named by number."""
    return pa.table(list(columns), names=numbered(len(columns)))
