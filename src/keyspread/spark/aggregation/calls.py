"""The SQL aggregates that the user passed to `aggregate`, in every form that it takes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.spark.capabilities import is_column
from keyspread.spark.routing.keys import quoted

# As DataFrame.agg reads {"amount": "mean"}.
_SHORT = {"mean": "avg", "average": "avg", "std": "stddev", "size": "count"}


@dataclass(frozen=True)
class Call:
    """One aggregate: SQL text or a Column, and its name in the result (None: the name that Spark gives to it)."""

    name: str | None
    what: str | Column

    def column(self) -> Column:
        """Return it as a Column for `groupBy().agg()`. Spark may refuse the text."""
        call = F.expr(self.what) if isinstance(self.what, str) else self.what
        return call if self.name is None else call.alias(self.name)

    def __str__(self) -> str:
        """Return what errors call it."""
        return repr(self.what if self.name is None else self.name)


def calls_of(aggregates: Any) -> list[Call]:
    """Read a dict, a Column, or a list of Columns; refuse anything else."""
    if is_column(aggregates):
        aggregates = [aggregates]
    if isinstance(aggregates, Mapping) and aggregates:
        return [_of_item(name, what) for name, what in aggregates.items()]
    if isinstance(aggregates, (list, tuple)) and aggregates and all(map(is_column, aggregates)):
        return [Call(None, one) for one in aggregates]
    remedy = f": make one with {aggregates.__name__}()" if isinstance(aggregates, type) else ""
    raise InputError(
        "aggregates must be a dict such as {'total': 'sum(amount)'}, a list of Columns such as [F.sum('amount')] or an "
        f"Operator, got {aggregates!r}{remedy}"
    )


def _of_item(name: Any, what: Any) -> Call:
    if not isinstance(name, str):
        raise InputError(f"the name of an aggregate must be text, got {name!r}")
    if is_column(what) or (isinstance(what, str) and "(" in what):
        return Call(name, what)
    if not isinstance(what, str) or not re.fullmatch(r"\s*[\w.`]+\s*", what):
        raise InputError(f"aggregate {name!r} must be SQL text such as 'sum(amount)' or a Column, got {what!r}")
    # Spark's form: {"amount": "sum"}
    function = _SHORT.get(what.strip().lower(), what.strip())
    return Call(None, f"{function}({'1' if name == '*' else quoted(name)})")
