"""An `Operator` on Spark: states made by every worker from its own rows, then merged by key."""

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from keyspread.errors import InputError, KeyspreadError
from keyspread.operators import Operator
from keyspread.spark.keys import column, free_name, quoted

_ROWS = 4096  # of states in a batch: they may be large


class OperatorError(KeyspreadError):
    """An operator of the user's failed; the message names the step and the key."""


def run_operator(spread: DataFrame, names: Sequence[str], operator: Operator[Any]) -> DataFrame:
    """Run an operator on rows that lie with their workers; a row a key comes out."""
    keys = spread.select(*(column(spread, name) for name in names)).schema
    result = _result_schema(spread, operator, keys)
    hash_, state = free_name(spread, "hash"), free_name(spread, "state")
    states = StructType([StructField(hash_, LongType()), *keys.fields, StructField(state, BinaryType())])
    width = len(keys)
    hashed = spread.select(
        F.xxhash64(*(column(spread, name) for name in names)).alias(hash_), *_key(spread, names), "*"
    )
    made = hashed.mapInArrow(_maker(operator, width, to_arrow_schema(states)), states)
    # States of one key must meet. Sorted by hash, those of one hash lie together, so few are in memory at a time.
    met = made.repartition(quoted(hash_)).sortWithinPartitions(quoted(hash_))
    final = StructType([*keys.fields, *result.fields])
    return met.mapInArrow(_merger(operator, width, to_arrow_schema(final)), final)


def _key(df: DataFrame, names: Sequence[str]) -> list[Any]:
    return [column(df, name).alias(f"keyspread_key_{number}") for number, name in enumerate(names)]


def _result_schema(df: DataFrame, operator: Operator[Any], keys: StructType) -> StructType:
    declared = getattr(operator, "schema", None)
    if not declared:
        raise InputError(
            f"{type(operator).__name__} has no schema; say what finish returns, as in schema = 'total double'"
        )
    schema = cast(StructType, StructType.fromDDL(declared))
    taken = {field.name.lower() for field in keys.fields}
    for field in schema.fields:
        if field.name.lower() in taken:
            raise InputError(
                f"{type(operator).__name__} returns {field.name!r}, which is a column of the key; rename it"
            )
    return schema


def _maker(operator: Operator[Any], width: int, schema: pa.Schema) -> Any:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        states: dict[Any, Any] = {}
        heads: list[pa.Table] = []  # hash and key of each state, in the same order
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows_of = _rows_by_key(table.select(range(1, 1 + width)))
            new = [rows[0] for key, rows in rows_of.items() if key not in states]
            heads.append(table.select(range(1 + width)).take(new))
            frame = table.select(range(1 + width, table.num_columns))
            if operator.batches == "pandas":
                frame = frame.to_pandas()
            for key, rows in rows_of.items():
                own = frame.take(rows)
                if operator.batches == "pandas":
                    own = own.reset_index(drop=True)
                known = states[key] if key in states else operator.zero()
                states[key] = _step(operator, "update", key, known, own)
        if states:
            pickled = pa.array([pickle.dumps(state) for state in states.values()], pa.large_binary()).cast(pa.binary())
            head = pa.concat_tables(heads)
            yield from _batches([*head.columns, pickled], schema)

    return make


def _merger(operator: Operator[Any], width: int, schema: pa.Schema) -> Any:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for same_hash in _runs(batches):
            table = pa.concat_tables(same_hash)
            rows_of = _rows_by_key(table.select(range(1, 1 + width)))
            pickled = table.column(1 + width)
            results = []
            for key, rows in rows_of.items():
                state = pickle.loads(pickled[rows[0]].as_py())
                for row in rows[1:]:
                    state = _step(operator, "merge", key, state, pickle.loads(pickled[row].as_py()))
                results.append(_fields(operator, key, _step(operator, "finish", key, state), schema.names[width:]))
            heads = table.select(range(1, 1 + width)).take([rows[0] for rows in rows_of.values()])
            columns = [
                pa.array([result[name] for result in results], schema.field(name).type) for name in schema.names[width:]
            ]
            yield from _batches([*heads.columns, *columns], schema)

    return merge


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


def _batches(columns: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    table = pa.table(list(columns), names=schema.names).cast(schema)
    yield from table.to_batches(max_chunksize=_ROWS)
