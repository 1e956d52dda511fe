"""User-defined operators: anything that can be computed in parts and merged, by key or by column. No engine."""

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


class ColumnOperator(ABC):
    """An aggregate that works on whole tables, without a call per key. A correct one returns the same for any parts.

    Rows may be split between workers in any way, and states merged in any order and number. `partial` turns rows into
    states, `merge` turns the states of each key into one, and `finish` turns states into the result. All tables are
    `pyarrow.Table`s. What you return may be anything that pyarrow.table() accepts as Arrow data, for example a table of
    Polars or DuckDB.

    `key` has the names of the key columns, in a stream with windows those of their bounds first. `rows` has the key
    columns and all columns of the DataFrame; a key column replaces a column of the same name. A table of states has the
    key columns and the fields of `state`, in any order; `state` is written as Spark writes types. `schema` has the
    names and types of the result, which is the state if `finish` is not defined. A value may be null, and so may a key.

    The attributes of an operator belong to the identity of its states, as those of an `Operator` do.

    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> class Mean(ColumnOperator):
    ...     state = "n long, total double"
    ...     schema = "mean double"
    ...     def partial(self, rows, key):
    ...         found = rows.group_by(key).aggregate([("amount", "count"), ("amount", "sum")])
    ...         return found.rename_columns([*key, "n", "total"])
    ...     def merge(self, states, key):
    ...         found = states.group_by(key).aggregate([("n", "sum"), ("total", "sum")])
    ...         return found.rename_columns([*key, "n", "total"])
    ...     def finish(self, states, key):
    ...         return states.append_column("mean", pc.divide(states["total"], states["n"]))
    >>> rows = pa.table({"user": ["a", "b", "a"], "amount": [1.0, 2.0, 4.0]})
    >>> Mean().finish(Mean().partial(rows, ["user"]), ["user"]).select(["user", "mean"]).to_pylist()
    [{'user': 'a', 'mean': 2.5}, {'user': 'b', 'mean': 2.0}]
    """

    schema: ClassVar[str]
    state: ClassVar[str]

    @abstractmethod
    def partial(self, rows: Any, key: list[str]) -> Any:
        """Return the states of these rows, at least one. Several states of one key are merged."""

    @abstractmethod
    def merge(self, states: Any, key: list[str]) -> Any:
        """Return one state for each key of these states; every key has several."""

    def finish(self, states: Any, key: list[str]) -> Any:
        """Return the key columns and the fields of `schema`, a row for each key; other columns are dropped."""
        return states


class Count(ColumnOperator):
    """The number of rows of each key, in the column `name`: what a stream processor counts behind its workers.

    `df.groupBy(key).count()` returns the same and is faster, because Spark counts before rows move. A key may not be a
    struct or an array, which Arrow does not group by.

    >>> import pyarrow as pa
    >>> words = pa.table({"word": ["a", "b", "a"]})
    >>> Count().partial(words, ["word"]).to_pylist()
    [{'word': 'a', 'count': 2}, {'word': 'b', 'count': 1}]
    """

    def __init__(self, name: str = "count") -> None:
        self.name = name
        self.schema = self.state = f"`{name.replace('`', '``')}` long"  # type: ignore[misc]

    def partial(self, rows: Any, key: list[str]) -> Any:
        """Return the number of rows of each key."""
        counted = rows.select(key).group_by(key).aggregate([([], "count_all")])
        return counted.rename_columns([*key, self.name])

    def merge(self, states: Any, key: list[str]) -> Any:
        """Return the sum of the numbers of each key."""
        return states.group_by(key).aggregate([(self.name, "sum")]).rename_columns([*key, self.name])


AnyOperator = Operator[Any] | ColumnOperator
OPERATORS = (Operator, ColumnOperator)
"""Both kinds, for isinstance."""
