"""Columns that are computed one from the other, as SQL text, in one `select` if the session allows it.

A call of a function of pyspark takes up to sixteen round trips to the JVM, and an expression of fifty calls took longer
than a small job. Spark parses a text in one.
"""

from typing import Any

import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.spark.capabilities import has_lateral_aliases
from keyspread.spark.routing.keys import free_name, quoted
from keyspread.spark.routing.tables import look_up


class Steps:
    """Steps of a computation for each row. Later ones use the names of earlier ones.

    Spark computes a column once, but an expression wherever it is used. So what is used twice is a step.
    """

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._columns: dict[str, Column | str] = {}

    def add(self, name: str, value: Column | str) -> str:
        """Add a step and return its name, which no column of the DataFrame has."""
        name = free_name(self._df, name)
        self._columns[name] = value
        return name

    def look_up(self, name: str, table: npt.NDArray[Any], index: str, kind: str = "int") -> str:
        """Add a step that is an element of a table, or null outside of it."""
        return self.add(name, look_up(self._df.sparkSession, table, index, kind))

    def result(self, name: str, value: Column | str, **more: Column | str) -> DataFrame:
        """Return the rows with one more column, or several."""
        columns = [_named(*step) for step in [*self._columns.items(), (name, value), *more.items()]]
        found = self._df
        # In one select a step may use another of the same select, unless the session forbids it.
        for together in [columns] if has_lateral_aliases(found.sparkSession) else [[one] for one in columns]:
            found = found.select("*", *together)
        return found.drop(*self._columns)


def _named(name: str, value: Column | str) -> Column:
    return F.expr(f"{value} AS {quoted(name)}") if isinstance(value, str) else value.alias(name)
