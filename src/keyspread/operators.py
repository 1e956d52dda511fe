"""User-defined operators: anything that can be computed in parts and merged. Plain Python, no engine."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

State = TypeVar("State")


class Operator(ABC, Generic[State]):
    """An aggregate with a partial state per key. A correct operator returns the same result for any partial states.

    Rows may be split between workers in any way, and states merged in any order. Every worker keeps one state for each
    of its keys, from `zero` and `update`. The states of one key are then merged, and `finish` turns the merged state
    into the row of the result.

    `schema` has the names and types of what `finish` returns, as Spark writes them. `state` has those of a state, which
    is then a dict with these fields. They are stored as typed columns, any of them may be None, and a field may be an
    array, a map (a dict) or a struct (a dict). `batches` is the type of the rows that `update` gets, with all columns:
    "pandas" for a `pandas.DataFrame`, "arrow" for a `pyarrow.Table`.

    Without `state`, a state may be any object. It is stored pickled, and reading it runs code: whoever can write into
    the checkpoint of the stream, or into the folder of `Totals`, runs code on the executors.

    The attributes of an operator belong to the identity of its states: Quantile(0.9) does not resume from the
    checkpoint of Quantile(0.5). Attributes that are objects of other classes count by their class only.

    >>> class Mean(Operator):
    ...     state = "n long, total double"
    ...     schema = "mean double"
    ...     def zero(self): return {"n": 0, "total": 0.0}
    ...     def update(self, state, rows):
    ...         return {"n": state["n"] + len(rows), "total": state["total"] + rows["amount"].sum()}
    ...     def merge(self, state, other):
    ...         return {"n": state["n"] + other["n"], "total": state["total"] + other["total"]}
    ...     def finish(self, state): return {"mean": state["total"] / state["n"]}
    >>> Mean().finish(Mean().merge({"n": 1, "total": 2.0}, {"n": 3, "total": 8.0}))
    {'mean': 2.5}
    """

    schema: ClassVar[str]
    state: ClassVar[str | None] = None
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
