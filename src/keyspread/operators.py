"""Operators of one's own: anything that can be computed in parts and merged. Plain Python, no engine."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

State = TypeVar("State")


class Operator(ABC, Generic[State]):
    """A partial state per key: rows in any cut, states merged in any order, give the same result.

    Every worker makes a state for each key it meets, from `zero` and `update`; states of one key are then merged
    and `finish` turns the last one into the row of the result. States travel pickled.

    `schema` names and types what `finish` returns, as Spark writes it. `batches` says what `update` is given: rows
    of one key, all columns, as a `pandas.DataFrame` or as a `pyarrow.Table`.

    >>> class Longest(Operator[str]):
    ...     schema = "longest string"
    ...     def zero(self): return ""
    ...     def update(self, state, rows): return max(state, *rows["text"], key=len)
    ...     def merge(self, state, other): return max(state, other, key=len)
    ...     def finish(self, state): return {"longest": state}
    >>> Longest().finish(Longest().merge("ab", "abc"))
    {'longest': 'abc'}
    """

    schema: ClassVar[str]
    batches: ClassVar[Literal["pandas", "arrow"]] = "pandas"

    @abstractmethod
    def zero(self) -> State:
        """Give the state of a key of which nothing was seen."""

    @abstractmethod
    def update(self, state: State, rows: Any) -> State:
        """Give the state after these rows, all of one key; never empty."""

    @abstractmethod
    def merge(self, state: State, other: State) -> State:
        """Give the state that all rows behind the two would have made."""

    @abstractmethod
    def finish(self, state: State) -> dict[str, Any]:
        """Give the result: a value for each field of `schema`."""
