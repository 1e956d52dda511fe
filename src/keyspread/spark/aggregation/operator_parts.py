"""Operators on Spark: each worker makes states from its own rows, then states are merged by key."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, BooleanType, DataType, LongType, StructField, StructType

from keyspread.errors import InputError
from keyspread.operators import AnyOperator, ColumnOperator, Operator
from keyspread.spark.aggregation.arrow_functions import Tables, in_batches
from keyspread.spark.aggregation.column_states import ColumnStates
from keyspread.spark.aggregation.fold import finish_mixed, fold_where_rows_are
from keyspread.spark.aggregation.key_types import check_key_types
from keyspread.spark.aggregation.keyed_states import KeyedStates, numbered
from keyspread.spark.aggregation.operator_states import OperatorStates
from keyspread.spark.aggregation.parameters import parameters_of
from keyspread.spark.aggregation.state_columns import OperatorError
from keyspread.spark.capabilities import arrow_schema, quiet_analysis, schema_of_ddl
from keyspread.spark.failures import why
from keyspread.spark.routing.keys import KeyColumn, column, equal_as_spark_sees, key_hash
from keyspread.spark.streaming.windows import Windows, window_of

__all__ = ["OperatorError", "OperatorParts"]


class OperatorParts:
    """The partial states of an operator as rows: the hash of the key, the key, the state.

    With `windows`, the bounds of the window precede the key.
    """

    def __init__(
        self, df: DataFrame, names: Sequence[KeyColumn], operator: AnyOperator, windows: Windows | None = None
    ) -> None:
        fields = df.select(*(column(df, name) for name in names)).schema.fields
        check_key_types(names, fields)
        self._names, self._windows = list(names), windows
        self._first = [] if windows is None else windows.bounds
        self._keys = [*self._first, *fields]
        self._result = _result_schema(operator, fields, windows)
        state = _state_schema(operator)
        self._state = [BinaryType()] if state is None else [field.dataType for field in state.fields]
        typed = None if state is None else _arrow_schema("state", operator, state)
        result = _arrow_schema("schema", operator, self._result)
        self.states: KeyedStates
        if isinstance(operator, ColumnOperator):
            keys = _key_names(operator, self._keys, typed)
            self.states = ColumnStates(operator, keys, df.columns, typed, result)
        else:
            self.states = OperatorStates(operator, len(self._keys), df.columns, typed, result)
        self.identity: Any = {
            "operator": type(operator).__name__,
            "parameters": parameters_of(operator),
            "state": "pickled" if state is None else state.simpleString(),
            "schema": self._result.simpleString(),
        }

    @property
    def schema(self) -> StructType:
        """The schema of the rows of states."""
        return _numbered_schema([LongType(), *(field.dataType for field in self._keys), *self._state])

    def partial(self, moved: DataFrame, worker: str) -> DataFrame:
        """Make one state per key and worker, from rows that are already on their workers."""
        # A hot key has many windows: by the hash of both, their states are merged on all workers.
        window = [] if self._windows is None else [self._windows.name]
        rows = self.rows(moved.drop(worker), [*window, *self._names])
        return rows.mapInArrow(in_batches(self.states.make), self.schema)

    def merge(self, states: DataFrame) -> DataFrame:
        """Merge the states of each key into one."""
        fold = self.states.fold
        return _sorted_by_hash(states).mapInArrow(in_batches(lambda batches: map(fold, _runs(batches))), self.schema)

    def result(self, states: DataFrame) -> DataFrame:
        """Merge the states of each key and return the result."""
        own = self.states
        return self.unpacked(
            _sorted_by_hash(states), lambda batches: (own.finish(own.fold(table)) for table in _runs(batches))
        )

    def folded(self, df: DataFrame, workers: int) -> DataFrame:
        """Return the result of rows that are folded where they are, before states and other rows move by key."""
        own = self.states
        # A key may have many windows: by the hash of both, they are on all workers.
        window = [] if self._windows is None else [self._windows.name]
        rows = self.rows(df, [*window, *self._names])
        kinds = [field.dataType for field in rows.schema.fields]
        mixed = _numbered_schema([*kinds[: own.width], BooleanType(), *self._state, *kinds[own.width :]])
        moved = rows.mapInArrow(in_batches(lambda batches: fold_where_rows_are(own, workers, batches)), mixed)
        by_key = moved.repartition(workers, "_0").sortWithinPartitions("_0")
        return self.unpacked(by_key, lambda batches: finish_mixed(own, _runs(batches)))

    def rows(self, df: DataFrame, hashed_by: Sequence[KeyColumn] | None = None) -> DataFrame:
        """Return the rows in the form that `KeyedStates.make` reads: the hash, the key, all columns."""
        first = [] if self._windows is None else self._windows.start_and_end()
        keys = [equal_as_spark_sees(df, name) for name in self._names]
        hashed = df.select(key_hash(df, hashed_by or self._names), *first, *keys, "*")
        return hashed.toDF(*numbered(len(hashed.columns)))

    def unpacked(self, df: DataFrame, finish: Tables) -> DataFrame:
        """Apply `finish` to each partition, and return the result with the column names of plain `groupBy().agg()`."""
        fields = [*self._keys, *self._result.fields]
        found = df.mapInArrow(in_batches(finish), _numbered_schema([field.dataType for field in fields]))
        window = window_of(found.columns[: len(self._first)])
        named = [field.name for field in fields[len(self._first) :]]
        return found.select(*window, *found.columns[len(self._first) :]).toDF(*(["window"] if window else []), *named)


def _sorted_by_hash(states: DataFrame) -> DataFrame:
    """Bring the states of a key together. They are sorted by hash, so that few are in memory at a time."""
    return states.repartition("_0").sortWithinPartitions("_0")


def _numbered_schema(kinds: Sequence[DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in zip(numbered(len(kinds)), kinds, strict=True)])


def _key_names(operator: ColumnOperator, keys: Sequence[StructField], state: pa.Schema | None) -> list[str]:
    """Return the names under which a column operator sees the key; refuse one that is ambiguous, or no typed state."""
    name, names = type(operator).__name__, [field.name for field in keys]
    if state is None:
        raise InputError(f"{name} has no state: declare the columns of a state, as in state = 'n long, total double'")
    for one in names:
        if names.count(one) > 1:
            raise InputError(f"{names.count(one)} columns of the key are called {one!r}; rename them with .alias")
        if one in state.names:
            raise InputError(f"state of {name} has {one!r}, which is a column of the key: rename it")
    return names


def _result_schema(operator: AnyOperator, keys: Sequence[StructField], windows: Windows | None) -> StructType:
    name, declared = type(operator).__name__, getattr(operator, "schema", None)
    if not declared:
        raise InputError(f"{name} has no schema: declare what finish returns, as in schema = 'total double'")
    if isinstance(operator, Operator) and operator.batches not in ("pandas", "arrow"):
        raise InputError(f"batches of {name} must be 'pandas' or 'arrow', got {operator.batches!r}")
    schema = _parsed(declared)
    if schema is None:
        raise InputError(
            f"schema of {name} must name and type what finish returns, as in 'total double', got {declared!r}"
        )
    taken = {field.name.lower() for field in keys} | ({windows.name} if windows is not None else set())
    for field in schema.fields:
        if field.name.lower() in taken:
            raise InputError(f"schema of {name} has {field.name!r}, which is a column of the key: rename it")
    return schema


def _state_schema(operator: AnyOperator) -> StructType | None:
    name, declared = type(operator).__name__, getattr(operator, "state", None)
    if declared is None:
        return None
    schema = _parsed(declared) if isinstance(declared, str) and declared.strip() else None
    if schema is None or len({field.name for field in schema.fields}) < len(schema.fields):
        raise InputError(
            f"state of {name} must name and type the fields of a state, as in 'n long, total double', got {declared!r}"
        )
    return schema


def _parsed(declared: str) -> StructType | None:
    try:
        with quiet_analysis():
            schema = schema_of_ddl(declared)
    except ParseException:
        return None
    return schema if isinstance(schema, StructType) else None


def _arrow_schema(what: str, operator: AnyOperator, schema: StructType) -> pa.Schema:
    try:
        return arrow_schema(schema)
    except (PySparkException, pa.ArrowException) as problem:
        name = type(operator).__name__
        raise InputError(
            f"{what} of {name} has a type that Arrow does not have ({schema.simpleString()}): {why(str(problem))}"
        ) from None


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
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
