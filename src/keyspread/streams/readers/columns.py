"""Columns by name: formats with a header or a schema check here that the key and time columns exist."""

from collections.abc import Sequence

from keyspread.errors import InputError

_SHOWN = 20
"""Number of column names that an error message lists."""


def check_column(path: str, role: str, name: str | None, columns: Sequence[str]) -> None:
    """Raise an InputError if the column for this role (key or time) is not given, missing or ambiguous."""
    listed = ", ".join(map(repr, columns[:_SHOWN])) or "none"
    if len(columns) > _SHOWN:
        listed += f" and {len(columns) - _SHOWN} more"
    if name is None:
        raise InputError(f"{path}: no {role} column given: pass {role}=, the columns are {listed}")
    if name not in columns:
        raise InputError(f"{path}: no column {name!r} for {role}=: the columns are {listed}")
    if columns.count(name) > 1:
        raise InputError(f"{path}: {columns.count(name)} columns are called {name!r}: rename all but one of them")
