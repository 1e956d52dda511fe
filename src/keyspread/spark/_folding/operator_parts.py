"""Event-time windows of an aggregate, tumbling or sliding, equal to those of Spark's `window`."""

import dataclasses
import enum
import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MemberDescriptorType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keyspread.errors import InputError
from keyspread.folding.column_states import ColumnStates
from keyspread.folding.fold import finish_mixed, fold_where_rows_are, runs
from keyspread.folding.operator_states import OperatorStates
from keyspread.folding.states import KeyedStates, OperatorError, numbered
from keyspread.operators import OPERATORS, AnyOperator, ColumnOperator, Operator
from keyspread.spark._engine.capabilities import arrow_schema, quiet_analysis, schema_of_ddl, shipped
from keyspread.spark._engine.failures import why
from keyspread.spark._routing.keys import KeyColumn, column, equal_as_spark_sees, key_hash, type_of

WATERMARK = "spark.watermarkDelayMs"  # Spark marks a column of event time with this key in its metadata


@dataclass(frozen=True)
class Windows:
    """Length, slide and time column of the windows. The result has them in a column `window`, as in Spark."""

    window: str
    slide: str | None
    time: str
    kind: DataType
    name: str = "window"

    @classmethod
    def of(cls, df: DataFrame, window: str | None, slide: str | None, time: str | None) -> "Windows | None":
        """Check the arguments of `aggregate`; return None without `window`."""
        if window is None:
            for option, value in (("slide", slide), ("time", time)):
                if value is not None:
                    raise InputError(f"{option}={value!r} has no effect without window=, such as window='10 minutes'")
            return None
        if time is None:
            time = _watermarked(df)
        if not isinstance(time, str):
            raise InputError(f"time must be the name of a column, got {time!r}")
        kind = type_of(df, time)
        found = cls(window, slide, time, kind)
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise InputError(f"time must be a column of timestamps, {time!r} is {kind.simpleString()}; cast it")
        if "window" in (name.lower() for name in df.columns):
            raise InputError(
                "there is a column 'window', but the result needs this name for its windows; rename the column"
            )
        if df.isStreaming and WATERMARK not in df.select(column(df, time)).schema[0].metadata:
            raise InputError(
                f"windows of a stream need a watermark on {time!r}, otherwise their state would grow forever: "
                f"call .withWatermark({time!r}, '10 minutes') before"
            )
        try:
            with quiet_analysis():
                df.select(found.column(df)).schema  # noqa: B018  (under Connect only this asks Spark)
        except PySparkException as problem:
            raise InputError(f"window={window!r}, slide={slide!r} is not possible: {why(str(problem))}") from None
        return found

    @property
    def bounds(self) -> list[StructField]:
        """Start and end as two columns of our own, which are faster in Python than a struct."""
        return [StructField("keyspread_start", self.kind), StructField("keyspread_end", self.kind)]

    def start_and_end(self) -> list[Column]:
        """Return the columns `bounds` for rows that `on` returned."""
        return [F.col(f"{self.name}.{at}").alias(f"keyspread_{at}") for at in ("start", "end")]

    def on(self, df: DataFrame) -> DataFrame:
        """Return the rows with their window in the last column: one row per window, none if the time is null."""
        return df.select("*", self.column(df).alias(self.name))

    def column(self, df: DataFrame) -> Column:
        """Return Spark's own window of each row."""
        given: list[Any] = [self.window] if self.slide is None else [self.window, self.slide]
        return F.window(column(df, self.time), *given)


def window_of(bounds: Sequence[str]) -> list[Column]:
    """Return the column `window` made from its bounds, in a list; an empty list without bounds."""
    if not bounds:
        return []
    start, end = bounds
    return [F.struct(F.col(start).alias("start"), F.col(end).alias("end")).alias("window")]


def _watermarked(df: DataFrame) -> str:
    found = [field.name for field in df.schema.fields if WATERMARK in field.metadata]
    if len(found) == 1:
        return found[0]
    if df.isStreaming and not found:
        raise InputError("windows of a stream need a watermark: call .withWatermark(column, '10 minutes') before")
    raise InputError("name the column of the event time: time='…'")


# Functions on Arrow tables in the form that Spark's `mapInArrow` needs: batches in, batches out.


Tables = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.Table]]

_ROWS = 4096  # per batch that goes back to Spark, as states may be large


def in_batches(tables: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Wrap a function that yields tables so that it yields batches."""
    return shipped(
        lambda batches: (batch for table in tables(batches) for batch in table.to_batches(max_chunksize=_ROWS))
    )


# The parameters of an operator as text: operators whose parameters differ do not share a state. No engine.


_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, date, datetime, time, timedelta)
_APART = {"schema", "state", "batches"}  # compared on their own, or without effect on a state


def parameters_of(operator: AnyOperator) -> dict[str, str]:
    """Return the attributes of an operator, its own and those of its class, as text that is the same in every run.

    An attribute of a class that is not known here counts by the name of its class only.

    >>> from keyspread import Operator
    >>> class Quantile(Operator):
    ...     digits = 2
    ...     def __init__(self, share): self.share = share
    ...     zero = update = merge = finish = None
    >>> parameters_of(Quantile(0.9))
    {'digits': '2', 'share': '0.9'}
    """
    found: dict[str, Any] = {}
    for one in reversed(type(operator).__mro__):
        if issubclass(one, OPERATORS) and one not in OPERATORS:
            found |= {name: value for name, value in vars(one).items() if _is_value(name, value)}
    found |= {name: getattr(operator, name) for name, value in found.items() if isinstance(value, MemberDescriptorType)}
    found |= getattr(operator, "__dict__", {})
    return {name: _text(value) for name, value in sorted(found.items()) if name not in _APART}


def _is_value(name: str, value: Any) -> bool:
    hidden = (name.startswith("__") and name.endswith("__")) or name == "_abc_impl"
    steps = callable(value) or isinstance(value, (classmethod, staticmethod, property, functools.cached_property))
    return not hidden and not steps and name not in ("zero", "update", "merge", "finish")


def _text(value: Any) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, np.generic):
        plain = value.item()
        return repr(value) if isinstance(plain, np.generic) else _text(plain)  # Python has no long double
    if isinstance(value, (datetime, timedelta)):  # those of pandas
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}, sha256 {_digest(value)}"
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if isinstance(value, re.Pattern):
        return f"re.compile({value.pattern!r}, {value.flags})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ", ".join(f"{one.name}={_text(getattr(value, one.name))}" for one in dataclasses.fields(value))
        return f"{kind.__qualname__}({fields})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{_text(key)}: {_text(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_text, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return f"{kind.__qualname__}(…)"


def _digest(value: Any) -> str:
    if value.dtype.hasobject:
        return hashlib.sha256(_text(value.tolist()).encode()).hexdigest()[:16]
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


# Operators on Spark: each worker makes states from its own rows, then states are merged by key.


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
        return _sorted_by_hash(states).mapInArrow(in_batches(lambda batches: map(fold, runs(batches))), self.schema)

    def result(self, states: DataFrame) -> DataFrame:
        """Merge the states of each key and return the result."""
        own = self.states
        return self.unpacked(
            _sorted_by_hash(states), lambda batches: (own.finish(own.fold(table)) for table in runs(batches))
        )

    def folded(self, df: DataFrame, workers: int) -> DataFrame:
        """Return the result of rows that are folded where they are, before states and other rows move by key."""
        own = self.states
        # A key may have many windows: by the hash of both, they are on all workers.
        window = [] if self._windows is None else [self._windows.name]
        rows = self.rows(df, [*window, *self._names])
        for field in df.schema.fields:
            _check_moves(field)
        kinds = [field.dataType for field in rows.schema.fields]
        mixed = _numbered_schema([*kinds[: own.width], BooleanType(), *self._state, *kinds[own.width :]])
        moved = rows.mapInArrow(in_batches(lambda batches: fold_where_rows_are(own, workers, batches)), mixed)
        by_key = moved.repartition(workers, "_0").sortWithinPartitions("_0")
        return self.unpacked(by_key, lambda batches: finish_mixed(own, runs(batches)))

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


def _check_moves(field: StructField) -> None:
    """Refuse a column that cannot come back from Python, as rows that are not folded do."""
    try:
        arrow_schema(StructType([field]))
    except (PySparkException, pa.ArrowException, TypeError):
        raise InputError(
            f"column {field.name!r} has type {field.dataType.simpleString()}, which does not come back from Python: "
            "drop it or cast it, for example to string"
        ) from None


# Which types a key may have if rows are grouped in Python: those that Python and Spark compare alike.


# Compared with Spark's groupBy in test_operator_parts.py, each of them.
_COMPARED = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.NullType,
)


def check_key_types(names: Sequence[KeyColumn], fields: Sequence[StructField]) -> None:
    """Refuse, before the query starts, keys that would be grouped differently than by Spark, or not at all."""
    for name, field in zip(names, fields, strict=True):
        wrong = _not_compared(field.dataType)
        if wrong is not None:
            remedy = (
                f"pass a key without it, such as F.lower({field.name!r}).cast('string collate UTF8_BINARY')"
                if isinstance(wrong, StringType)
                else "cast it, for example to string"
            )
            raise InputError(
                f"key {name!r} has type {field.dataType.simpleString()}, and an Operator groups rows in Python, which "
                f"compares {wrong.simpleString()} in another way than Spark, or not at all: {remedy}"
            )


def _not_compared(kind: DataType) -> DataType | None:
    if isinstance(kind, ArrayType):
        return _not_compared(kind.elementType)
    if isinstance(kind, StructType):
        return next((wrong for field in kind.fields if (wrong := _not_compared(field.dataType)) is not None), None)
    if isinstance(kind, StringType):
        return None if getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY" else kind
    return None if isinstance(kind, _COMPARED) else kind
