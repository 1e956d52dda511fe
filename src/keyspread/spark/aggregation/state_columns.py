"""State columns: the states of an operator as Arrow columns, typed by its `state`, or pickled. No engine.

Pickled states run code when they are read. So whoever can write into the checkpoint of a stream, or into a folder of
totals, runs code on the executors. Typed states are only data.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from keyspread.errors import KeyspreadError
from keyspread.operators import Operator
from keyspread.spark.aggregation.stored_types import to_array, to_python

KeyOf = Callable[[int], str]
"""Returns the key of a state by its number, as text for an error."""


class OperatorError(KeyspreadError):
    """A user's operator failed; the message names the step and the key."""


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
