"""The same work per row three ways: plain `groupBy(key).applyInPandas`, salting by hand, keyspread; and that work."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.operators import Operator
from keyspread.run.sources import Source
from keyspread.spark._routing.keys import column
from keyspread.spark.aggregate import aggregate
from keyspread.spark.watch import Watch

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_TEXT = re.compile(r"(wait|cpu):(\d+(?:\.\d+)?)(us|µs|ms|s)\Z")


@dataclass(frozen=True)
class Work:
    """Time that an operator spends per row: `kind` is wait, cpu or none. It runs inside Spark's Python workers."""

    kind: str
    seconds: float = 0.0

    @classmethod
    def of(cls, text: str) -> "Work":
        """Read a text such as wait:1ms, cpu:200us or none.

        >>> Work.of("wait:1ms")
        Work(kind='wait', seconds=0.001)
        >>> Work.of("1ms")
        Traceback (most recent call last):
        keyspread.errors.InputError: --work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got '1ms'
        """
        if text == "none":
            return cls("none")
        found = _TEXT.match(text)
        if found is None:
            raise InputError(f"--work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got {text!r}")
        seconds = float(found[2]) * _UNITS[found[3]]
        if not 0 < seconds <= 10:
            raise InputError(
                f"--work must take more than 0 and at most 10 s per row, got {text!r}: use none for no work"
            )
        return cls(found[1], seconds)

    def do(self, rows: int) -> None:
        """Work on this many rows."""
        if self.kind == "wait":
            time.sleep(self.seconds * rows)
        elif self.kind == "cpu":
            until = time.thread_time() + self.seconds * rows
            while time.thread_time() < until:
                pass

    def least_seconds(self, rows: int, busiest: int, cores: int) -> float:
        """Return how long the work takes at least if the busiest worker has so many of the rows."""
        computed = rows / cores if self.kind == "cpu" else 0
        return self.seconds * max(busiest, computed)

    def __str__(self) -> str:
        """Return it in words."""
        if self.kind == "none":
            return "no work per row"
        time = f"{self.seconds * 1e3:g} ms" if self.seconds >= 1e-3 else f"{self.seconds * 1e6:g} µs"
        return f"{time} of {'waiting' if self.kind == 'wait' else 'computing'} per row"


# The same result computed three ways: plain `groupBy(key).applyInPandas`, salting by hand, keyspread.
#
# Every way spends the same work on every row, and counts the rows of each key and sums up a number that each row has.
# So equal results prove that every way has worked on every row once.


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
    """Compute the result with keyspread: fold rows into states, merge the states."""
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
