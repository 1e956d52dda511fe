"""SQL aggregates in parts: the columns of the parts, of the merged parts, and of the result.

From the parts on, columns have names of our own, because two names of the user may be equal; the result has the user's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from keyspread.errors import InputError
from keyspread.spark.aggregation.arrow_functions import Tables, in_batches
from keyspread.spark.aggregation.column_sql import aggregate_sql
from keyspread.spark.aggregation.folds import fold_table
from keyspread.spark.aggregation.sql_functions import RULES, Aggregate, exact_average, parse
from keyspread.spark.routing.keys import KeyColumn, column, equal_as_spark_sees, key_hash, quoted
from keyspread.spark.streaming.windows import window_of

# As DataFrame.agg reads {"amount": "mean"}.
_SHORT = {"mean": "avg", "average": "avg", "std": "stddev", "size": "count"}


class SqlParts:
    """The parts of SQL aggregates by key. In a stream, `first` are columns that precede the key: a window's bounds."""

    def __init__(
        self,
        df: DataFrame,
        names: Sequence[KeyColumn],
        aggregates: Any,
        first: Sequence[StructField] = (),
    ) -> None:
        wanted = _parsed(df, aggregates)
        grouped = df.groupBy(*(column(df, name) for name in names))
        plain = grouped.agg(*(_plain(one) for one in wanted)).schema.fields  # only analysed, never run
        self._names, self._first = list(names), list(first)
        self._keys, self._results = plain[: len(names)], plain[len(names) :]
        self._wanted = [_for_type(one, field.dataType) for one, field in zip(wanted, self._results, strict=True)]
        self._key_names = [f"keyspread_key_{i}" for i in range(len(names))]
        self._kinds = df.groupBy().agg(*self._parts()).schema.fields
        self.identity: Any = _identity(aggregates, wanted)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the key's columns: a Column cannot be pickled, and executors do not need it."""
        return {name: value for name, value in vars(self).items() if name != "_names"}

    @property
    def width(self) -> int:
        """The number of columns before the parts in a stream's tables: the hash and the key."""
        return 1 + len(self._first) + len(self._key_names)

    @property
    def schema(self) -> StructType:
        """The schema of the rows of parts: the key and the parts."""
        keys = [StructField(name, field.dataType) for name, field in zip(self._key_names, self._keys, strict=True)]
        return StructType([*self._first, *keys, *self._kinds])

    def partial(self, moved: DataFrame, worker: str) -> DataFrame:
        """Compute the parts per key and worker, from rows that are already on their workers."""
        # Because the worker is a grouping column, Spark sees that no further exchange is needed.
        keys = (column(moved, name).alias(alias) for name, alias in zip(self._names, self._key_names, strict=True))
        return moved.groupBy(worker, *keys).agg(*self._parts()).drop(worker)

    def merge(self, parts: DataFrame) -> DataFrame:
        """Merge the parts of each key into one."""
        merged = [
            F.expr(merged.format(*one.arguments, **_numbered("p", i, one)))
            for i, one in enumerate(self._wanted)
            for merged in one.rule.merged
        ]
        # Each sum of decimals adds ten digits to the type: cast back, so that it can be merged again.
        return parts.groupBy(*self._key_names).agg(
            *(
                (one.cast(kind.dataType) if isinstance(kind.dataType, DecimalType) else one).alias(kind.name)
                for one, kind in zip(merged, self._kinds, strict=True)
            )
        )

    def result(self, parts: DataFrame) -> DataFrame:
        """Merge the parts of each key and return the result."""
        return self.finished(self.merge(parts))

    def finished(self, merged: DataFrame) -> DataFrame:
        """Return the result of merged parts, with the column names of plain `groupBy().agg()`."""
        results = [
            F.expr(one.rule.finished.format(*one.arguments, **_numbered("m", i, one)))
            for i, one in enumerate(self._wanted)
        ]
        kinds = merged.select(*results).schema.fields  # only analysed, never run
        return merged.select(
            *window_of([field.name for field in self._first]),
            *(F.col(name).alias(field.name) for name, field in zip(self._key_names, self._keys, strict=True)),
            *(
                # Stored types may differ in nullability only, and Spark refuses to cast those.
                (
                    one if kind.dataType.simpleString() == field.dataType.simpleString() else one.cast(field.dataType)
                ).alias(field.name)
                for one, kind, field in zip(results, kinds, self._results, strict=True)
            ),
        )

    def rows(self, df: DataFrame, first: Sequence[Column] = ()) -> DataFrame:
        """Return the rows of a stream in the form of its tables: every row is a part."""
        for one in self._wanted:
            if one.rule.fold is None:
                raise InputError(
                    f"aggregate {one.plain!r} is a sketch, which a stream cannot keep as state: "
                    "use keyspread.spark.Totals in foreachBatch, or pass an Operator"
                )
        parts = [row.format(*one.arguments) for one in self._wanted for row in one.rule.row]
        keys = [
            equal_as_spark_sees(df, name).alias(alias) for name, alias in zip(self._names, self._key_names, strict=True)
        ]
        typed = [
            F.expr(part).cast(kind.dataType).alias(kind.name) for part, kind in zip(parts, self._kinds, strict=True)
        ]
        return df.select(key_hash(df, self._names).alias("keyspread_hash"), *first, *keys, *typed)

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Return the batches as tables: every row is already a part."""
        return (pa.Table.from_batches([batch]) for batch in batches)

    def fold(self, table: pa.Table) -> pa.Table:
        """Merge the parts of each key into one; keys stay in order of appearance."""
        folds = [(len(one.rule.parts), one.rule.fold) for one in self._wanted if one.rule.fold is not None]
        return fold_table(table, self.width, folds)

    def finish(self, table: pa.Table) -> pa.Table:
        """Return the key and its parts; SQL computes the result from them."""
        return table.select(range(1, table.num_columns))

    def unpacked(self, df: DataFrame, finish: Tables) -> DataFrame:
        """Apply `finish` to each partition, and return the result with the column names of plain `groupBy().agg()`."""
        return self.finished(df.mapInArrow(in_batches(finish), self.schema))

    def _parts(self) -> list[Column]:
        return [
            F.expr(part.format(*one.arguments)).alias(_part(i, j))
            for i, one in enumerate(self._wanted)
            for j, part in enumerate(one.rule.parts)
        ]


def _part(aggregate: int, number: int) -> str:
    return f"keyspread_part_{aggregate}_{number}"


def _numbered(letter: str, aggregate: int, one: Aggregate) -> dict[str, str]:
    return {f"{letter}{j}": _part(aggregate, j) for j in range(len(one.rule.parts))}


def _parsed(df: DataFrame, aggregates: Any) -> list[Aggregate]:
    """Read aggregates in every form that `aggregate` takes."""
    if isinstance(aggregates, Column):
        aggregates = [aggregates]
    if isinstance(aggregates, Mapping) and aggregates:
        return [_of_item(df, name, what) for name, what in aggregates.items()]
    if isinstance(aggregates, (list, tuple)) and aggregates and all(isinstance(one, Column) for one in aggregates):
        return [parse(*aggregate_sql(df, one)) for one in aggregates]
    remedy = f": make one with {aggregates.__name__}()" if isinstance(aggregates, type) else ""
    raise InputError(
        "aggregates must be a dict such as {'total': 'sum(amount)'}, a list of Columns such as [F.sum('amount')] or an "
        f"Operator, got {aggregates!r}{remedy}"
    )


def _of_item(df: DataFrame, name: str, what: Any) -> Aggregate:
    if isinstance(what, Column):
        return parse(name, aggregate_sql(df, what)[1])
    if not isinstance(what, str):
        raise InputError(f"aggregate {name!r} must be SQL text such as 'sum(amount)' or a Column, got {what!r}")
    if "(" in what:
        return parse(name, what)
    # Spark's form: {"amount": "sum"}
    function = _SHORT.get(what.strip().lower(), what)
    return replace(parse(name, f"{function}({'1' if name == '*' else quoted(name)})"), name=None)


def _identity(aggregates: Any, wanted: Sequence[Aggregate]) -> Any:
    """Return what a stream stores to recognise its aggregates after a restart."""
    if not isinstance(aggregates, Mapping):
        return [f"{one.plain} AS {one.name}" for one in wanted]
    return {
        name: one.plain if isinstance(what, Column) else what
        for (name, what), one in zip(aggregates.items(), wanted, strict=True)
    }


def _plain(one: Aggregate) -> Column:
    return F.expr(one.plain) if one.name is None else F.expr(one.plain).alias(one.name)


def _for_type(one: Aggregate, kind: DataType) -> Aggregate:
    if one.rule is RULES["avg"] and isinstance(kind, DecimalType):
        return replace(one, rule=exact_average(kind.precision, kind.scale))
    return one
