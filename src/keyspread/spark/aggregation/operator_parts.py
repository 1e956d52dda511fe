"""An `Operator` on Spark: each worker makes states from its own rows, then states are merged by key."""

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BinaryType, DataType, LongType, StructField, StructType

from keyspread.errors import InputError, KeyspreadError
from keyspread.operators import Operator
from keyspread.spark.aggregation.arrow_functions import Tables, in_batches
from keyspread.spark.aggregation.groups import groups_of, hashable
from keyspread.spark.routing.keys import KeyColumn, column, equal_as_spark_sees, key_hash
from keyspread.spark.streaming.windows import window_of

_ROWS = 4096  # states per table, as they may be large


class OperatorError(KeyspreadError):
    """A user's operator failed; the message names the step and the key."""


class OperatorParts:
    """The partial states of an operator as rows: the hash of the key, the key, the pickled state.

    Columns are named by number, because mapInArrow accepts neither dots in a name nor two columns of the same name. In
    a stream, `first` are columns that precede the key: the bounds of a window.
    """

    def __init__(
        self, df: DataFrame, names: Sequence[KeyColumn], operator: Operator[Any], first: Sequence[StructField] = ()
    ) -> None:
        self._names, self._operator, self._columns = list(names), operator, df.columns
        fields = df.select(*(column(df, name) for name in names)).schema.fields
        self._result = _result_schema(operator, fields)
        self._first, self._keys = list(first), [*first, *fields]
        # How Spark maps its types to Arrow depends on the session's settings, so Spark is asked.
        self._fields = df.sparkSession.createDataFrame([], self._result).toArrow().schema
        self.identity: Any = f"{type(operator).__name__} -> {operator.schema}"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the key's columns: a Column cannot be pickled, and executors do not need it."""
        return {name: value for name, value in vars(self).items() if name != "_names"}

    @property
    def width(self) -> int:
        """The number of columns before the state: the hash and the key."""
        return 1 + len(self._keys)

    @property
    def schema(self) -> StructType:
        """The schema of the rows of states."""
        return _numbered_schema([LongType(), *(field.dataType for field in self._keys), BinaryType()])

    def partial(self, moved: DataFrame, worker: str) -> DataFrame:
        """Make one state per key and worker, from rows that are already on their workers."""
        rows = self.rows(moved.drop(worker))
        return rows.mapInArrow(in_batches(self.make), self.schema)

    def merge(self, states: DataFrame) -> DataFrame:
        """Merge the states of each key into one."""
        return _sorted_by_hash(states).mapInArrow(
            in_batches(lambda batches: map(self.fold, _runs(batches))), self.schema
        )

    def result(self, states: DataFrame) -> DataFrame:
        """Merge the states of each key and return the result."""
        return self.unpacked(
            _sorted_by_hash(states), lambda batches: (self.finish(self.fold(table)) for table in _runs(batches))
        )

    def rows(self, df: DataFrame, first: Sequence[Column] = ()) -> DataFrame:
        """Return the rows in the form that `make` reads: the hash, the key, all columns."""
        keys = [equal_as_spark_sees(df, name) for name in self._names]
        hashed = df.select(key_hash(df, self._names), *first, *keys, "*")
        return hashed.toDF(*_numbered(len(hashed.columns)))

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Make one state per key from all rows of a worker."""
        operator, states = self._operator, dict[Any, Any]()
        heads: list[pa.Table] = []  # hash and key of each state, in the order of `states`
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows_of = _rows_by_key(table.select(range(1, self.width)))
            new = [rows[0] for key, rows in rows_of.items() if key not in states]
            heads.append(table.select(range(self.width)).take(pa.array(new, pa.int64())))
            frame = table.select(range(self.width, self.width + len(self._columns))).rename_columns(self._columns)
            if operator.batches == "pandas":
                frame = frame.to_pandas()
            for key, rows in rows_of.items():
                part = frame.take(rows)
                if operator.batches == "pandas":
                    part = part.reset_index(drop=True)
                state = states[key] if key in states else _step(operator, "zero", key)
                states[key] = _step(operator, "update", key, state, part)
        if not states:
            return
        head, keys = pa.concat_tables(heads), list(states)
        for begin in range(0, len(keys), _ROWS):
            pickled = [_pickled(operator, key, states[key]) for key in keys[begin : begin + _ROWS]]
            yield self._table([*head.slice(begin, _ROWS).columns, pa.array(pickled, pa.binary())])

    def fold(self, table: pa.Table) -> pa.Table:
        """Merge the states of each key into one; keys stay in order of appearance."""
        operator = self._operator
        groups = groups_of(table.columns[1 : self.width])
        if groups.count == table.num_rows:
            return table
        states = table.column(self.width).take(pa.array(groups.first)).to_pylist()
        order = np.argsort(groups.of_row, kind="stable")
        ends = np.cumsum(np.bincount(groups.of_row))
        for group in np.flatnonzero(np.diff(ends, prepend=0) > 1).tolist():
            begin = int(ends[group - 1]) if group else 0
            key = self._key(table, int(groups.first[group]))
            state = pickle.loads(states[group])
            for row in order[begin + 1 : ends[group]].tolist():
                state = _step(operator, "merge", key, state, pickle.loads(table.column(self.width)[row].as_py()))
            states[group] = _pickled(operator, key, state)
        head = table.select(range(self.width)).take(pa.array(groups.first))
        return self._table([*head.columns, pa.array(states, pa.binary())])

    def finish(self, table: pa.Table) -> pa.Table:
        """Turn states into rows of the result: the key and what `finish` returns."""
        results = {}
        for row, state in enumerate(table.column(self.width).to_pylist()):
            key = self._key(table, row)
            finished = _step(self._operator, "finish", key, pickle.loads(state))
            results[row] = (key, _fields(self._operator, key, finished, self._fields.names))
        columns = (_column(self._operator, field, results.values()) for field in self._fields)
        return self._table([*table.columns[1 : self.width], *columns])

    def unpacked(self, df: DataFrame, finish: Tables) -> DataFrame:
        """Apply `finish` to each partition, and return the result with the column names of plain `groupBy().agg()`."""
        fields = [*self._keys, *self._result.fields]
        found = df.mapInArrow(in_batches(finish), _numbered_schema([field.dataType for field in fields]))
        window = window_of(found.columns[: len(self._first)])
        named = [field.name for field in fields[len(self._first) :]]
        return found.select(*window, *found.columns[len(self._first) :]).toDF(*(["window"] if window else []), *named)

    def _key(self, table: pa.Table, row: int) -> tuple[Any, ...]:
        return tuple(column[row].as_py() for column in table.columns[1 : self.width])

    @staticmethod
    def _table(columns: Sequence[Any]) -> pa.Table:
        return pa.table(list(columns), names=_numbered(len(columns)))


def _sorted_by_hash(states: DataFrame) -> DataFrame:
    """Bring the states of a key together. They are sorted by hash, so that few are in memory at a time."""
    return states.repartition("_0").sortWithinPartitions("_0")


def _numbered(count: int) -> list[str]:
    return [f"_{number}" for number in range(count)]


def _numbered_schema(kinds: Sequence[DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in zip(_numbered(len(kinds)), kinds, strict=True)])


def _result_schema(operator: Operator[Any], keys: Sequence[StructField]) -> StructType:
    name, declared = type(operator).__name__, getattr(operator, "schema", None)
    if not declared:
        raise InputError(f"{name} has no schema: declare what finish returns, as in schema = 'total double'")
    if operator.batches not in ("pandas", "arrow"):
        raise InputError(f"batches of {name} must be 'pandas' or 'arrow', got {operator.batches!r}")
    try:
        schema = StructType.fromDDL(declared)
    except ParseException:
        schema = None
    if not isinstance(schema, StructType):
        raise InputError(
            f"schema of {name} must name and type what finish returns, as in 'total double', got {declared!r}"
        )
    taken = {field.name.lower() for field in keys}
    for field in schema.fields:
        if field.name.lower() in taken:
            raise InputError(f"schema of {name} has {field.name!r}, which is a column of the key: rename it")
    return schema


def _pickled(operator: Operator[Any], key: Any, state: Any) -> bytes:
    try:
        return pickle.dumps(state)
    except Exception:  # cloudpickle also pickles the class, for example one of the user's script
        try:
            return bytes(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
        except Exception as problem:
            raise OperatorError(
                f"{type(operator).__name__}: the state of key {_shown(key)} cannot be pickled ({problem!r}): "
                "use plain values"
            ) from problem


def _column(operator: Operator[Any], field: pa.Field, results: Collection[tuple[Any, dict[str, Any]]]) -> pa.Array:
    try:
        return pa.array([result[field.name] for _, result in results], field.type)
    except Exception:
        for key, result in results:  # find the one that failed, to name its key
            try:
                pa.array([result[field.name]], field.type)
            except Exception as problem:
                raise OperatorError(
                    f"{type(operator).__name__}.finish returned {result[field.name]!r} as {field.name} "
                    f"for key {_shown(key)}, which is not of type {field.type}: {problem}"
                ) from problem
        raise


def _fields(operator: Operator[Any], key: Any, result: Any, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(result, dict) or set(result) != set(names):
        raise OperatorError(
            f"{type(operator).__name__}.finish must return a dict of {', '.join(names)} (its schema), "
            f"for key {_shown(key)} it returned {result!r}"
        )
    return result


def _step(operator: Operator[Any], step: str, key: Any, *arguments: Any) -> Any:
    try:
        return getattr(operator, step)(*arguments)
    except Exception as problem:
        raise OperatorError(f"{type(operator).__name__}.{step} failed for key {_shown(key)}: {problem!r}") from problem


def _shown(key: tuple[Any, ...]) -> str:
    return repr(key[0] if len(key) == 1 else key)


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


def _rows_by_key(keys: pa.Table) -> dict[tuple[Any, ...], list[int]]:
    """Return the rows of each key, in order of appearance; as in Spark, null equals null and NaN equals NaN."""
    rows_of: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(_values(values) for values in keys.columns), strict=True)):
        rows_of.setdefault(key, []).append(row)
    return rows_of


def _values(keys: pa.ChunkedArray) -> list[Any]:
    values = keys.to_pylist()
    plain = pa.types.is_integer(keys.type) or pa.types.is_string(keys.type) or pa.types.is_boolean(keys.type)
    return values if plain else [hashable(value) for value in values]
