"""Rows and states in one table, because an exchange of Spark has one schema. No engine.

The columns: the hash of the key, the key, whether it is a row, the state, the columns of the row. What a row of this
table is not is null. They are named by number, as those of all tables of states are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keyspread.spark.aggregation.keyed_states import numbered_table


@dataclass(frozen=True)
class MixedRows:
    """How many columns the hash and the key have, and the types of a state."""

    width: int
    states: Sequence[pa.DataType]

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows (the hash, the key, all columns) as mixed rows."""
        count = rows.num_rows
        nothing = [pa.nulls(count, kind) for kind in self.states]
        return numbered_table([*rows.columns[: self.width], _flags(count, True), *nothing, *rows.columns[self.width :]])

    def of_states(self, states: pa.Table, rows: Sequence[pa.DataType]) -> pa.Table:
        """Return states (the hash, the key, the state) as mixed rows, with these types of the columns of rows."""
        count = states.num_rows
        nothing = [pa.nulls(count, kind) for kind in rows]
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
