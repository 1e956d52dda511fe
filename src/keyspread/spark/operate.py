"""An `Operator` on Spark: states made by every worker from its own rows, then merged by key."""

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, LongType, StructField, StructType

from keyspread.errors import InputError, KeyspreadError
from keyspread.operators import Operator
from keyspread.spark.keys import column, key_hash

_ROWS = 4096  # of states in a batch: they may be large


class OperatorError(KeyspreadError):
    """An operator of the user's failed; the message names the step and the key."""


def run_operator(spread: DataFrame, names: Sequence[str], operator: Operator[Any]) -> DataFrame:
    """Run an operator on rows that lie with their workers; a row a key comes out."""
    keys = spread.select(*(column(spread, name) for name in names)).schema.fields
    result = _result_schema(operator, keys)
    width = len(keys)
    hashed = spread.select(key_hash(spread, names), *(column(spread, name) for name in names), "*")
    # By number from here on: mapInArrow takes neither dots in a name nor two columns of one name.
    hashed = hashed.toDF(*_numbered(1 + width + len(spread.columns)))
    states = _numbered_schema([LongType(), *(field.dataType for field in keys), BinaryType()])
    made = hashed.mapInArrow(_maker(operator, width, spread.columns), states)
    # States of one key must meet. Sorted by hash, those of one hash lie together, so few are in memory at a time.
    met = made.repartition("_0").sortWithinPartitions("_0")
    final = _numbered_schema([field.dataType for field in (*keys, *result.fields)])
    fields = spread.sparkSession.createDataFrame([], result).toArrow().schema
    merged = met.mapInArrow(_merger(operator, width, fields), final)
    return merged.toDF(*(field.name for field in (*keys, *result.fields)))


def _numbered(count: int) -> list[str]:
    return [f"_{number}" for number in range(count)]


def _numbered_schema(kinds: Sequence[DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in zip(_numbered(len(kinds)), kinds, strict=True)])


def _result_schema(operator: Operator[Any], keys: Sequence[StructField]) -> StructType:
    name, declared = type(operator).__name__, getattr(operator, "schema", None)
    if not declared:
        raise InputError(f"{name} has no schema; say what finish returns, as in schema = 'total double'")
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
            raise InputError(f"{name} returns {field.name!r}, which is a column of the key; rename it")
    return schema


def _maker(operator: Operator[Any], width: int, names: Sequence[str]) -> Any:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        states: dict[Any, Any] = {}
        heads: list[pa.Table] = []  # hash and key of each state, in the same order
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows_of = _rows_by_key(table.select(range(1, 1 + width)))
            new = [rows[0] for key, rows in rows_of.items() if key not in states]
            heads.append(table.select(range(1 + width)).take(pa.array(new, pa.int64())))
            frame = table.select(range(1 + width, table.num_columns)).rename_columns(names)
            if operator.batches == "pandas":
                frame = frame.to_pandas()
            for key, rows in rows_of.items():
                own = frame.take(rows)
                if operator.batches == "pandas":
                    own = own.reset_index(drop=True)
                known = states[key] if key in states else _step(operator, "zero", key)
                states[key] = _step(operator, "update", key, known, own)
        if not states:
            return
        head, keys = pa.concat_tables(heads), list(states)
        for begin in range(0, len(keys), _ROWS):
            pickled = [_pickled(operator, key, states[key]) for key in keys[begin : begin + _ROWS]]
            yield from _batches([*head.slice(begin, _ROWS).columns, pa.array(pickled, pa.binary())])

    return make


def _merger(operator: Operator[Any], width: int, fields: pa.Schema) -> Any:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for same_hash in _runs(batches):
            table = pa.concat_tables(same_hash)
            rows_of = _rows_by_key(table.select(range(1, 1 + width)))
            pickled = table.column(1 + width)
            results = {}
            for key, rows in rows_of.items():
                state = pickle.loads(pickled[rows[0]].as_py())
                for row in rows[1:]:
                    state = _step(operator, "merge", key, state, pickle.loads(pickled[row].as_py()))
                results[key] = _fields(operator, key, _step(operator, "finish", key, state), fields.names)
            heads = table.select(range(1, 1 + width)).take([rows[0] for rows in rows_of.values()])
            yield from _batches([*heads.columns, *(_column(operator, field, results) for field in fields)])

    return merge


def _pickled(operator: Operator[Any], key: Any, state: Any) -> bytes:
    try:
        return pickle.dumps(state)
    except Exception:  # a class of the user's own script, say: it travels with the state
        try:
            return bytes(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
        except Exception as problem:
            raise OperatorError(
                f"{type(operator).__name__}: the state of key {_shown(key)} cannot be pickled: {problem!r}"
            ) from problem


def _column(operator: Operator[Any], field: pa.Field, results: dict[Any, dict[str, Any]]) -> pa.Array:
    try:
        return pa.array([result[field.name] for result in results.values()], field.type)
    except Exception:
        for key, result in results.items():  # which one was it?
            try:
                pa.array([result[field.name]], field.type)
            except Exception as problem:
                raise OperatorError(
                    f"{type(operator).__name__}.finish returned {result[field.name]!r} as {field.name} "
                    f"for key {_shown(key)}, which is no {field.type}: {problem}"
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


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.Table]]:
    """Give the rows in runs that never part one hash; batches come sorted by hash."""
    waiting: list[pa.Table] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        table = pa.Table.from_batches([batch])
        hashes = table.column(0).to_numpy()
        last = int((hashes != hashes[-1]).sum())  # from here on it is the last hash, which may go on in the next batch
        if last or (waiting and waiting[-1].column(0)[0].as_py() != hashes[0]):
            done = [*waiting, table.slice(0, last)] if last else waiting
            yield done
            waiting = []
        waiting.append(table.slice(last))
    if waiting:
        yield waiting


def _rows_by_key(keys: pa.Table) -> dict[tuple[Any, ...], list[int]]:
    """Give the rows of each key, keys in order of appearance; equal as Spark sees it: null is null, NaN is NaN."""
    rows_of: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(_values(values) for values in keys.columns), strict=True)):
        rows_of.setdefault(key, []).append(row)
    return rows_of


def _values(keys: pa.ChunkedArray) -> list[Any]:
    values = keys.to_pylist()
    plain = pa.types.is_integer(keys.type) or pa.types.is_string(keys.type) or pa.types.is_boolean(keys.type)
    return values if plain else [_hashable(value) for value in values]


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one and the same object, so that it equals itself in a dict
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, _hashable(one)) for name, one in value.items())
    return value


def _batches(columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    table = pa.table(list(columns), names=_numbered(len(columns)))
    yield from table.to_batches(max_chunksize=_ROWS)
