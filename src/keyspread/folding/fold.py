"""Rows and states in one table, because an exchange of Spark has one schema. No engine.

The columns: the hash of the key, the key, whether it is a row, the state, the columns of the row. What a row of this
table is not is null. They are named by number, as those of all tables of states are. The key has its stored types:
Spark wants all batches of a task to have the same types.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keyspread.folding.states import Groups, Ints, KeyedStates, numbered_table
from keyspread.folding.types import as_stored


@dataclass(frozen=True)
class MixedRows:
    """How many columns the hash and the key have, and the types of a state."""

    width: int
    states: Sequence[pa.DataType]

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows (the hash, the key, all columns) as mixed rows."""
        count = rows.num_rows
        nothing = [pa.nulls(count, kind) for kind in self.states]
        key = as_stored(rows.select(range(self.width))).columns
        return numbered_table([*key, _flags(count, True), *nothing, *rows.columns[self.width :]])

    def of_states(self, states: pa.Table, rows: Sequence[pa.DataType]) -> pa.Table:
        """Return states (the hash, the key, the state) as mixed rows, with these types of the columns of rows."""
        count = states.num_rows
        nothing = [pa.nulls(count, kind) for kind in rows]
        states = as_stored(states)
        key, state = states.columns[: self.width], states.columns[self.width :]
        return numbered_table([*key, _flags(count, False), *state, *nothing])

    def split(self, mixed: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the rows and the states."""
        is_row = mixed.column(self.width)
        state = range(self.width + 1, self.width + 1 + len(self.states))
        key = mixed.columns[: self.width]
        rows = numbered_table([*key, *mixed.columns[state.stop :]])
        states = numbered_table([*key, *mixed.columns[state.start : state.stop]])
        if pc.all(is_row).as_py():
            return rows, states.slice(0, 0)
        if not pc.any(is_row).as_py():
            return rows.slice(0, 0), states
        return rows.filter(is_row), states.filter(pc.invert(is_row))


def _flags(count: int, value: bool) -> pa.Array:
    return pa.array(np.full(count, value))


# Fold first: states are made where the rows are, so that states move instead of rows. No engine.
#
#   task      of every Arrow batch, fold the keys with many rows into a table of states; send other rows on as they are;
#             when the table is full, send its states on and begin a new one
#   exchange  by the hash of the key
#   task      rows → update, states → merge, finish
#
# What a worker gets depends on the key only, so the result is the same however much was folded. What is folded depends
# on the rows of the task alone, never on the time that they take: a task that runs again sends on the same rows and
# states, which spares Spark from running again all that has read them.


_FEWEST_HOT = 8  # rows of a batch; fewer are chance


def fold_where_rows_are(own: KeyedStates, workers: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield mixed rows, from all rows of a task: the states of keys that pay for it, and the rows of the others."""
    mixed, table = MixedRows(own.width, own.state_types), own.new_table()
    kinds: list[pa.DataType] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch])
        kinds = rows.schema.types[own.width :]
        groups = own.groups(rows)
        counts = np.bincount(groups.of_row)
        # A key with a quarter of the even load of a worker would be felt by the one that gets it.
        hot = max(_FEWEST_HOT, rows.num_rows / (4 * workers))
        folded = table.worth_adding(counts, rows.nbytes / rows.num_rows, hot)
        if folded.all():
            table.add(rows, groups)
        elif folded.any():
            places, chosen = _of_groups(groups, folded)
            table.add(rows.take(pa.array(places)), chosen)
            rows = rows.filter(pa.array(~folded[groups.of_row]))
        if not folded.all():
            yield mixed.of_rows(rows)
        if table.is_full:
            for states in table.taken():
                yield mixed.of_states(states, kinds)
    for states in table.taken():
        yield mixed.of_states(states, kinds)


def finish_mixed(own: KeyedStates, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the result, from tables of mixed rows which never split the rows of a key."""
    mixed = MixedRows(own.width, own.state_types)
    for table in tables:
        rows, states = mixed.split(table)
        made = list(own.make(rows.combine_chunks().to_batches()))
        yield own.finish(own.fold(pa.concat_tables([*made, *([as_stored(states)] if states.num_rows else [])])))


def _of_groups(groups: Groups, chosen: np.ndarray) -> tuple[Ints, Groups]:
    """Return the places of the rows of some groups, and these groups of the rows in these places.

    >>> _of_groups(Groups(np.array([0, 1, 0, 2]), np.array([0, 1, 3])), np.array([True, False, True]))
    (array([0, 2, 3]), Groups(of_row=array([0, 0, 1]), first=array([0, 2])))
    """
    places = np.flatnonzero(chosen[groups.of_row])
    number = np.cumsum(chosen) - 1
    return places, Groups(number[groups.of_row[places]], np.searchsorted(places, groups.first[chosen]))


def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows, which are sorted by hash, in tables that never split the rows of one hash."""
    waiting: list[pa.Table] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        table = pa.Table.from_batches([batch])
        hashes = table.column(0).to_numpy()
        last = int((hashes != hashes[-1]).sum())  # where the last hash begins; the next batch may continue it
        if last or (waiting and waiting[-1].column(0)[0].as_py() != hashes[0]):
            yield pa.concat_tables([*waiting, table.slice(0, last)] if last else waiting)
            waiting = []
        waiting.append(table.slice(last))
    if waiting:
        yield pa.concat_tables(waiting)
