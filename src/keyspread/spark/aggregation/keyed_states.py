"""Tables of states, one row per key: what both kinds of operators have in common. No engine.

A table of states has these columns: the hash of the key, start and end of the window if there are windows, the key, and
the state. They are named by number, because Spark's mapInArrow accepts neither dots in a name nor a name twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.spark.aggregation.groups import Groups, Ints, groups_of
from keyspread.spark.aggregation.state_columns import KeyOf
from keyspread.spark.aggregation.stored_types import as_stored

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
