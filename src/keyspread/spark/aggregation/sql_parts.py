"""SQL aggregates in parts: the columns of the parts, of the merged parts, and of the result.

From the parts on, columns have names of our own, because two names of the user may be equal; the result has the user's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from keyspread.errors import InputError
from keyspread.spark.aggregation.calls import Call, calls_of
from keyspread.spark.aggregation.column_sql import aggregate_sql
from keyspread.spark.aggregation.sql_functions import RULES, Aggregate, exact_average, parse
from keyspread.spark.capabilities import has_function, is_column, quiet_analysis
from keyspread.spark.failures import why
from keyspread.spark.routing.keys import KeyColumn, column


class SqlParts:
    """The parts of SQL aggregates by key."""

    def __init__(self, df: DataFrame, names: Sequence[KeyColumn], aggregates: Any) -> None:
        wanted = [_parsed(df, call) for call in calls_of(aggregates)]
        grouped = df.groupBy(*(column(df, name) for name in names))
        plain = grouped.agg(*(_plain(one) for one in wanted)).schema.fields  # only analysed, never run
        self._names = list(names)
        self._keys, self._results = plain[: len(names)], plain[len(names) :]
        self._wanted = [_for_type(one, field.dataType) for one, field in zip(wanted, self._results, strict=True)]
        self.key_names = [f"keyspread_key_{i}" for i in range(len(names))]
        self._kinds = self._checked_kinds(df)
        self.identity: Any = _identity(aggregates, wanted)

    @property
    def schema(self) -> StructType:
        """The schema of the rows of parts: the key and the parts."""
        keys = [StructField(name, field.dataType) for name, field in zip(self.key_names, self._keys, strict=True)]
        return StructType([*keys, *self._kinds])

    def partial(self, rows: DataFrame, worker: str | None = None) -> DataFrame:
        """Compute the parts per key, by Spark's own `groupBy`; with `worker`, per key and worker.

        Rows are then already on their workers. Because the worker is a grouping column, Spark sees that no further
        exchange is needed.
        """
        return self.grouped(rows) if worker is None else self.grouped(rows, worker).drop(worker)

    def grouped(self, rows: DataFrame, *before: str) -> DataFrame:
        """Compute the parts per key and per value of other columns, which stay in the result before the key."""
        keys = [column(rows, name).alias(alias) for name, alias in zip(self._names, self.key_names, strict=True)]
        return rows.groupBy(*before, *keys).agg(*self._parts())

    def merge(self, parts: DataFrame) -> DataFrame:
        """Merge the parts of each key into one."""
        merged = [
            F.expr(merged.format(*one.arguments, **_numbered("p", i, one)))
            for i, one in enumerate(self._wanted)
            for merged in one.rule.merged
        ]
        # Each sum of decimals adds ten digits to the type: cast back, so that it can be merged again.
        return parts.groupBy(*self.key_names).agg(
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
            *(F.col(name).alias(field.name) for name, field in zip(self.key_names, self._keys, strict=True)),
            *(
                # Stored types may differ in nullability only, and Spark refuses to cast those.
                (
                    one if kind.dataType.simpleString() == field.dataType.simpleString() else one.cast(field.dataType)
                ).alias(field.name)
                for one, kind, field in zip(results, kinds, self._results, strict=True)
            ),
        )

    def _checked_kinds(self, df: DataFrame) -> list[StructField]:
        """Return the fields of the parts; refuse an aggregate whose parts Spark cannot compute for its type."""
        try:
            with quiet_analysis():
                return df.groupBy().agg(*self._parts()).schema.fields
        except AnalysisException as problem:
            wrong = next((one for one in self._wanted if not _is_analysed(df, _parts_of(one, 0))), self._wanted[0])
            raise InputError(
                f"aggregate {wrong.plain!r} cannot be merged from parts: {why(str(problem))}; cast its column to "
                "another type, or use it without scheme= and Totals, where it is Spark's own groupBy"
            ) from None

    def _parts(self) -> list[Column]:
        return [part for i, one in enumerate(self._wanted) for part in _parts_of(one, i)]


def _parts_of(one: Aggregate, number: int) -> list[Column]:
    return [F.expr(part.format(*one.arguments)).alias(_part(number, j)) for j, part in enumerate(one.rule.parts)]


def _is_analysed(df: DataFrame, parts: Sequence[Column]) -> bool:
    try:
        with quiet_analysis():
            return bool(df.groupBy().agg(*parts).schema)
    except AnalysisException:
        return False


def _part(aggregate: int, number: int) -> str:
    return f"keyspread_part_{aggregate}_{number}"


def _numbered(letter: str, aggregate: int, one: Aggregate) -> dict[str, str]:
    return {f"{letter}{j}": _part(aggregate, j) for j in range(len(one.rule.parts))}


def _parsed(df: DataFrame, call: Call) -> Aggregate:
    """Read a call as one that can be merged from parts, by this Spark."""
    name, text = (call.name, call.what) if isinstance(call.what, str) else aggregate_sql(df, call.what)
    name = name if call.name is None else call.name
    found = parse(text if name is None else name, text)
    if found.rule.needs is not None and not has_function(df.sparkSession, found.rule.needs):
        raise InputError(
            f"aggregate {text!r} cannot be merged from parts, because this Spark has no {found.rule.needs}: leave "
            "scheme= out, so that it is Spark's own groupBy, or use a newer Spark"
        )
    return replace(found, name=name)


def _identity(aggregates: Any, wanted: Sequence[Aggregate]) -> Any:
    """Return what a stream stores to recognise its aggregates after a restart."""
    if not isinstance(aggregates, Mapping):
        return [f"{one.plain} AS {one.name}" for one in wanted]
    return {
        name: one.plain if is_column(what) else what
        for (name, what), one in zip(aggregates.items(), wanted, strict=True)
    }


def _plain(one: Aggregate) -> Column:
    return F.expr(one.plain) if one.name is None else F.expr(one.plain).alias(one.name)


def _for_type(one: Aggregate, kind: DataType) -> Aggregate:
    if one.rule is RULES["avg"] and isinstance(kind, DecimalType):
        return replace(one, rule=exact_average(kind.precision, kind.scale))
    return one
