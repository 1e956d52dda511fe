"""Numbers by which the rows of a hot key are cut: a row has the same number on every attempt.

- The position of a row, if rows have a fixed order, or if Spark re-runs all that depends on a changed order.
- Its position in an order of our own, if any attempt computes the same rows.
- A hash of the columns that any attempt computes alike, if others may differ: averages of floating-point numbers, or
  what `dropDuplicates` keeps. A stream has no positions, so its rows are numbered in this way too.

If no column but the keys is sure, the rows of a key cannot be told apart, and that side is not cut. If not even the
keys are sure (a `limit` behind a shuffle), it is not copied either: pieces might get copies of different rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from keyspread.errors import InputError
from keyspread.spark._routing.keys import quoted
from keyspread.spark._routing.plan_text import has_fixed_order, operators_of, physical_plan
from keyspread.spark._routing.planned_sql import POSITION
from keyspread.spark._routing.repeatable import PROTECTION, fingerprint, is_protected, unrepeatable


@dataclass(frozen=True)
class Numbers:
    """The number of a row, which is a position `by` SQL or a hash; `order`: the order that positions are counted in.

    `missing_because` tells why the rows have none, `rows_may_change` whether the rows themselves may be others.
    """

    by: Column | str = POSITION
    order: Column | None = None
    missing_because: str | None = None
    rows_may_change: bool = False

    @property
    def are_positions(self) -> bool:
        """Whether numbers are positions, so that parts have the sizes that were counted."""
        return isinstance(self.by, str)


def numbers_of(df: DataFrame, keys: Sequence[str]) -> Numbers:
    """Return the numbers of the rows of one side; `keys` are the columns that it is joined on."""
    if not df.isStreaming and is_protected(df.sparkSession):
        return Numbers()
    try:
        if not df.isStreaming and has_fixed_order(operators_of(physical_plan(df))):
            return Numbers()
        unsure = None if df.isStreaming else unrepeatable(df)
        sure = df.columns if unsure is None else _sure_columns(df)
    except InputError as problem:
        return Numbers(missing_because=str(problem), rows_may_change=True)
    if unsure is not None and {name.lower() for name in sure} <= {name.lower() for name in keys}:
        return Numbers(
            missing_because=f"a retried task may compute other rows ({unsure} behind a shuffle): set {PROTECTION[0]} "
            f"and {PROTECTION[1]} to true (Spark 4.1 and newer), or write the rows to files and join those",
            rows_may_change=not sure,
        )
    try:
        whole = fingerprint(df if unsure is None else df.select(*map(quoted, sure)))
    except InputError as problem:
        return Numbers(missing_because=str(problem))
    return Numbers(order=whole) if unsure is None and not df.isStreaming else Numbers(whole)


def _sure_columns(df: DataFrame) -> list[str]:
    """Return the columns that any attempt computes alike: Spark leaves out of their plan what they do not need."""
    lower = [name.lower() for name in df.columns]
    found = _sure_among(df, [name for name in df.columns if lower.count(name.lower()) == 1])
    return found if _sure_among(df, found) == found else []


def _sure_among(df: DataFrame, names: list[str]) -> list[str]:
    """Look at the plan of all these columns; if it is not sure, at those of either half."""
    if not names or unrepeatable(df.select(*map(quoted, names))) is None:
        return names
    half = len(names) // 2
    return [] if half == 0 else [*_sure_among(df, names[:half]), *_sure_among(df, names[half:])]
