"""Aggregates that the user wrote as SQL, as columns: of the parts, of parts merged, of the result.

Columns have our own names from the parts on (of the user's, two may be the same) until the result has the user's.
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
from keyspread.spark.aggregation.folds import fold_table
from keyspread.spark.aggregation.sql_functions import RULES, Aggregate, exact_average, parse
from keyspread.spark.routing.keys import KeyColumn, column, equal_as_spark_sees, key_hash, quoted
from keyspread.spark.streaming.windows import window_of

_SHORT = {"mean": "avg", "average": "avg", "std": "stddev", "size": "count"}  # as DataFrame.agg reads {"amount": …}


class SqlParts:
    """Aggregates by key, taken apart. In a stream the key is led by `first`, columns of ours: a window's bounds."""

    def __init__(
        self,
        df: DataFrame,
        names: Sequence[KeyColumn],
        aggregates: Mapping[str, Any],
        first: Sequence[StructField] = (),
    ) -> None:
        wanted = _parsed(aggregates)
        grouped = df.groupBy(*(column(df, name) for name in names))
        plain = grouped.agg(*(_plain(one) for one in wanted)).schema.fields  # only looked at, never run
        self._names, self._first = list(names), list(first)
        self._keys, self._results = plain[: len(names)], plain[len(names) :]
        self._wanted = [_for_type(one, field.dataType) for one, field in zip(wanted, self._results, strict=True)]
        self._own = [f"keyspread_key_{i}" for i in range(len(names))]
        self._kinds = df.groupBy().agg(*self._parts()).schema.fields
        self.identity: Any = {name: str(what) for name, what in aggregates.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the key's columns: a Column cannot be pickled, and executors do not need it."""
        return {name: value for name, value in vars(self).items() if name != "_names"}

    @property
    def width(self) -> int:
        """Columns of the stream's tables before the parts: the hash and the key."""
        return 1 + len(self._first) + len(self._own)

    @property
    def schema(self) -> StructType:
        """The rows of parts, in a table: the key and the parts."""
        keys = [StructField(own, field.dataType) for own, field in zip(self._own, self._keys, strict=True)]
        return StructType([*self._first, *keys, *self._kinds])

    def partial(self, moved: DataFrame, worker: str) -> DataFrame:
        """Compute the parts of each key on every worker, from rows that lie there."""
        # Grouped by the worker too, Spark sees that the rows already lie right: no further exchange.
        keys = (column(moved, name).alias(own) for name, own in zip(self._names, self._own, strict=True))
        return moved.groupBy(worker, *keys).agg(*self._parts()).drop(worker)

    def merge(self, parts: DataFrame) -> DataFrame:
        """Merge the parts of each key into one."""
        merged = [
            F.expr(merged.format(*one.arguments, **_numbered("p", i, one)))
            for i, one in enumerate(self._wanted)
            for merged in one.rule.merged
        ]
        # A sum of decimals has ten digits more each time: cast back, or it could not be merged again.
        return parts.groupBy(*self._own).agg(
            *(
                (one.cast(kind.dataType) if isinstance(kind.dataType, DecimalType) else one).alias(kind.name)
                for one, kind in zip(merged, self._kinds, strict=True)
            )
        )

    def result(self, parts: DataFrame) -> DataFrame:
        """Merge the parts of each key, and give the result."""
        return self.finished(self.merge(parts))

    def finished(self, merged: DataFrame) -> DataFrame:
        """Give the result, under the names of the plain answer, of merged parts."""
        results = [
            F.expr(one.rule.finished.format(*one.arguments, **_numbered("m", i, one)))
            for i, one in enumerate(self._wanted)
        ]
        kinds = merged.select(*results).schema.fields  # only looked at, never run
        return merged.select(
            *window_of([field.name for field in self._first]),
            *(F.col(own).alias(field.name) for own, field in zip(self._own, self._keys, strict=True)),
            *(
                # Types that differ in whether they hold nulls at most, as after they were stored, cannot be cast.
                (
                    one if kind.dataType.simpleString() == field.dataType.simpleString() else one.cast(field.dataType)
                ).alias(field.name)
                for one, kind, field in zip(results, kinds, self._results, strict=True)
            ),
        )

    def rows(self, df: DataFrame, first: Sequence[Column] = ()) -> DataFrame:
        """Give a stream's rows as its tables have them: every row a part of its own."""
        for one in self._wanted:
            if one.rule.fold is None:
                raise InputError(
                    f"aggregate {one.plain!r} is a sketch of Spark's, which a stream cannot keep: "
                    "collect it in keyspread.spark.Totals through foreachBatch, or pass an Operator"
                )
        parts = [row.format(*one.arguments) for one in self._wanted for row in one.rule.row]
        keys = [equal_as_spark_sees(df, name).alias(own) for name, own in zip(self._names, self._own, strict=True)]
        typed = [
            F.expr(part).cast(kind.dataType).alias(kind.name) for part, kind in zip(parts, self._kinds, strict=True)
        ]
        return df.select(key_hash(df, self._names).alias("keyspread_hash"), *first, *keys, *typed)

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Every row is a part already."""
        return (pa.Table.from_batches([batch]) for batch in batches)

    def fold(self, table: pa.Table) -> pa.Table:
        """Merge the parts of each key into one; keys stay in order of appearance."""
        folds = [(len(one.rule.parts), one.rule.fold) for one in self._wanted if one.rule.fold is not None]
        return fold_table(table, self.width, folds)

    def finish(self, table: pa.Table) -> pa.Table:
        """Leave the rest to SQL: the key and its parts."""
        return table.select(range(1, table.num_columns))

    def unpacked(self, df: DataFrame, finish: Tables) -> DataFrame:
        """Give the result, under the names of the plain answer, of what `finish` makes of each partition."""
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


def _parsed(aggregates: Mapping[str, Any]) -> list[Aggregate]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        remedy = f"; make one: {aggregates.__name__}()" if isinstance(aggregates, type) else ""
        raise InputError(
            f"aggregates must be a dict such as {{'total': 'sum(amount)'}} or an Operator, got {aggregates!r}{remedy}"
        )
    found = []
    for name, what in aggregates.items():
        if not isinstance(what, str):
            raise InputError(f"aggregate {name!r} must be SQL text such as 'sum(amount)', got {what!r}")
        if "(" in what:
            found.append(parse(name, what))
        else:  # Spark's own way: {"amount": "sum"}
            function = _SHORT.get(what.strip().lower(), what)
            found.append(replace(parse(name, f"{function}({'1' if name == '*' else quoted(name)})"), name=None))
    return found


def _plain(one: Aggregate) -> Column:
    return F.expr(one.plain) if one.name is None else F.expr(one.plain).alias(one.name)


def _for_type(one: Aggregate, kind: DataType) -> Aggregate:
    if one.rule is RULES["avg"] and isinstance(kind, DecimalType):
        return replace(one, rule=exact_average(kind.precision, kind.scale))
    return one
