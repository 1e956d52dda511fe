"""The same result computed three ways: plain `groupBy(key).applyInPandas`, salting by hand, keyspread.

Every way spends the same work on every row, and counts the rows of each key and sums up a number that each row has.
So equal results prove that every way has worked on every row once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.job.sources import Source
from keyspread.job.work import Work
from keyspread.operators import Operator
from keyspread.spark.aggregate import aggregate
from keyspread.spark.routing.keys import column
from keyspread.spark.watch import Watch

PLAIN, SALTED, KEYSPREAD = "plain groupBy", "salting by hand", "keyspread"
WAYS = (PLAIN, SALTED, KEYSPREAD)

TEXT, NUMBER = "keyspread_text", "keyspread_number"
_SALT, _ROWS, _SUM = "keyspread_salt", "keyspread_rows", "keyspread_sum"
_RESULT = f"{TEXT} string, {_ROWS} long, {_SUM} long"
_NUMBERS = 1 << 31

Result = dict[str | None, tuple[int, int]]
"""Rows and sum of every key; a key is written as text."""


class CountWithWork(Operator[dict[str, int]]):
    """Counts rows and sums up their numbers, with some work per row, as a model or a remote call would have."""

    state = schema = f"{_ROWS} long, {_SUM} long"

    def __init__(self, work: Work) -> None:
        self.work = work

    def zero(self) -> dict[str, int]:
        """Return the state of a key without rows."""
        return {_ROWS: 0, _SUM: 0}

    def update(self, state: dict[str, int], rows: pd.DataFrame) -> dict[str, int]:
        """Work on the rows and count them."""
        self.work.do(len(rows))
        return {_ROWS: state[_ROWS] + len(rows), _SUM: state[_SUM] + int(rows[NUMBER].sum())}

    def merge(self, state: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        """Add up two states."""
        return {name: state[name] + other[name] for name in state}

    def finish(self, state: dict[str, int]) -> dict[str, Any]:
        """Return the state as it is."""
        return state


def group_function(work: Work) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the same computation as a function of all rows of a key, for `applyInPandas`."""

    def count(group: pd.DataFrame) -> pd.DataFrame:
        work.do(len(group))
        return pd.DataFrame({TEXT: group[TEXT].iloc[:1], _ROWS: [len(group)], _SUM: [int(group[NUMBER].sum())]})

    return count


def key_names(source: Source) -> list[str]:
    """Return the names of the key's columns in `numbered`."""
    return [f"keyspread_key{place}" for place in range(len(source.key))]


def numbered(source: Source) -> DataFrame:
    """Return the columns of the key, the key as text, and a number that depends on the whole row."""
    rows = source.rows
    parts = [column(rows, name).alias(alias) for name, alias in zip(source.key, key_names(source), strict=True)]
    number = F.pmod(F.xxhash64(F.to_json(F.struct("*"))), F.lit(_NUMBERS))
    return rows.select(*parts, number.alias(NUMBER)).withColumn(TEXT, _text(source))


def _text(source: Source) -> Column:
    """Return the key as text, from the columns of `numbered` or of a result: one as it is, several as JSON."""
    names = key_names(source)
    if len(names) == 1:
        return F.col(names[0]).cast("string")
    return F.to_json(F.struct(*(F.col(name).alias(title) for name, title in zip(names, source.key, strict=True))))


def plain(rows: DataFrame, key: Sequence[str], work: Work) -> Result:
    """Compute the result as most people write it."""
    return _collected(rows.groupBy(*key).applyInPandas(group_function(work), _RESULT))


def salted(rows: DataFrame, key: Sequence[str], work: Work, salts: int) -> Result:
    """Compute the result as people do against skew: each key in `salts` parts at random, which are added up."""
    parts = rows.withColumn(_SALT, (F.rand() * salts).cast("int")).groupBy(*key, _SALT)
    counted = parts.applyInPandas(group_function(work), _RESULT)
    together = [F.sum(name).alias(name) for name in (_ROWS, _SUM)]
    return _collected(counted.groupBy(TEXT).agg(*together))


def spread(rows: DataFrame, source: Source, work: Work, workers: int, watch: Watch | None = None) -> Result:
    """Compute the result with keyspread: count the keys, plan, route, merge."""
    counted = aggregate(rows, key_names(source), CountWithWork(work), workers, watch=watch)
    return _collected(counted.select(_text(source).alias(TEXT), _ROWS, _SUM))


def exact(rows: DataFrame, key: Sequence[str], workers: int) -> tuple[Result, list[int]]:
    """Compute the result without any work, by Spark's own aggregates, and the rows of every plain partition."""
    partition = F.pmod(F.hash(*key), F.lit(workers)).alias("partition")
    counted = rows.groupBy(TEXT, partition).agg(F.count("*").alias(_ROWS), F.sum(NUMBER).alias(_SUM)).collect()
    found: Result = {}
    loads = [0] * workers
    for row in counted:  # one per key, unless two keys have the same text
        many, total = found.get(row[TEXT], (0, 0))
        found[row[TEXT]] = (many + row[_ROWS], total + row[_SUM])
        loads[row["partition"]] += row[_ROWS]
    return found, loads


def _collected(result: DataFrame) -> Result:
    found: Result = {}
    for row in result.collect():
        many, total = found.get(row[TEXT], (0, 0))
        found[row[TEXT]] = (many + row[_ROWS], total + row[_SUM])
    return found
