"""Tables of whole numbers in Spark SQL: short ones are literals, long ones are data that a plan does not print."""

from typing import Any

import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

LONGEST_LITERAL = 20_000
"""Characters of a table that is part of the text of a plan. A plan has two tables that may be long."""

_ARROW = {"int": pa.int32(), "bigint": pa.int64()}
_HAS_SUBQUERIES = hasattr(DataFrame, "scalar")  # from Spark 4.0 on


def look_up(spark: SparkSession, values: npt.NDArray[Any], index: str, kind: str = "int") -> Column | str:
    """Return the element of a table at `index`, an expression in SQL, or null outside of the table; as text if it can.

    A literal is repeated in every text of the plan, and every action writes several of them to the event log. A
    subquery that reads a local relation is printed as one short line. Spark evaluates it once per action, on the
    driver and without a job. It moves no rows, as a join would, so their order stays. Spark 3.5 has no subqueries for
    DataFrames, there every table is a literal.
    """
    found = whole_table(spark, values, kind)
    return f"get({found}, {index})" if isinstance(found, str) else F.get(found, F.expr(index))


def whole_table(spark: SparkSession, values: npt.NDArray[Any], kind: str = "int") -> Column | str:
    """Return a table as an array; as text if it can. See `look_up`."""
    text = ",".join(map(str, values.tolist()))
    if len(text) <= LONGEST_LITERAL or not _HAS_SUBQUERIES:
        # As one string it is one expression, however long; Spark turns it into an array once.
        return f"CAST(split('{text}', ',') AS ARRAY<{kind}>)"
    whole = pa.array([values], pa.list_(_ARROW[kind]))
    return spark.createDataFrame(pa.table({"table": whole})).scalar()


def as_column(value: Column | str) -> Column:
    """Return an expression as a Column."""
    return F.expr(value) if isinstance(value, str) else value
