"""User-defined operators: anything that can be computed in parts and merged. Plain Python, no engine."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

State = TypeVar("State")


class Operator(ABC, Generic[State]):
    """An aggregate with a partial state per key. A correct operator returns the same result for any partial states.

    Rows may be split between workers in any way, and states merged in any order. Every worker keeps one state for each
    of its keys, from `zero` and `update`. The states of one key are then merged, and `finish` turns the merged state
    into the row of the result. States are sent pickled.

    `schema` has the names and types of what `finish` returns, as Spark writes them. `batches` is the type of the rows
    that `update` gets, with all columns: "pandas" for a `pandas.DataFrame`, "arrow" for a `pyarrow.Table`.

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
        """Return the state of a key without rows."""

    @abstractmethod
    def update(self, state: State, rows: Any) -> State:
        """Return the state after these rows: at least one, all of one key."""

    @abstractmethod
    def merge(self, state: State, other: State) -> State:
        """Return the state of the rows of both states together."""

    @abstractmethod
    def finish(self, state: State) -> dict[str, Any]:
        """Return the result: a value for each field of `schema`."""
