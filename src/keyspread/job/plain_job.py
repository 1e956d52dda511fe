"""`run_plain`: SQL aggregates by Spark's own `groupBy`, which folds the rows of a key before they move."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.job.batch_job import HotKey, check_rows, finite, needed_columns, result_schema, wanted_aggregates
from keyspread.job.sources import Malformed, Source
from keyspread.spark.aggregation.way import Way
from keyspread.spark.routing.keys import column

_ROWS = "keyspread_rows"
GROUP_BY = Way("groupBy", "Spark folds SQL aggregates before rows move, so a hot key does no harm")


@dataclass(frozen=True)
class PlainResult:
    """The result of `run_plain`. `merged` has one row per key and stays persisted in Spark until `release`."""

    source: Source
    aggregates: dict[str, str]
    rows: int
    keys: int
    hottest: tuple[HotKey, ...]
    malformed: Malformed
    seconds: float
    merged: DataFrame = field(repr=False)
    _kept: ExitStack = field(default_factory=ExitStack, repr=False)

    def release(self) -> None:
        """Unpersist the result."""
        self._kept.close()

    def to_dict(self) -> dict[str, Any]:
        """Return all but the merged rows as plain values for JSON."""
        return {
            **self.source.facts,
            "key": list(self.source.key),
            "way": str(GROUP_BY),
            "aggregates": self.aggregates,
            "rows": self.rows,
            "keys": self.keys,
            "malformed": self.malformed.count,
            "hottest": [
                {
                    "key": next(iter(hot.key.values())) if len(hot.key) == 1 else hot.key,
                    "rows": hot.rows,
                    "share": hot.rows / self.rows,
                    **{name: finite(value) for name, value in hot.values.items()},
                }
                for hot in self.hottest
            ],
            "seconds": {GROUP_BY.name: round(self.seconds, 2)},
        }


def run_plain(
    source: Source,
    aggregates: Mapping[str, str] | None = None,
    *,
    top: int = 10,
    strict: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PlainResult:
    """Aggregate a source by Spark's own `groupBy(key).agg(…)`, and find its hottest keys; a count by default.

    With `strict`, malformed lines are an error. `progress` is called with the name of the step. Nothing is written.

    >>> from keyspread.spark import session
    >>> from keyspread.job.sources import zipf_source
    >>> result = run_plain(zipf_source(session(), keys=100, messages=2000), {"last": "max(id)"}, top=1)
    >>> result.rows, result.hottest[0].key
    (2000, {'key': 1})
    """
    top = checks.whole_number("top", top, minimum=0)
    wanted = wanted_aggregates(source, aggregates)
    columns, width = result_schema(source, wanted).names, len(source.key)
    (progress or (lambda step: None))(GROUP_BY.name)
    with ExitStack() as kept:
        rows = source.rows.select(*needed_columns(source, wanted))
        begun = time.perf_counter()
        calls = [F.expr(call).alias(name) for name, call in {**wanted, _ROWS: "count(*)"}.items()]
        merged = rows.groupBy(*(column(rows, name) for name in source.key)).agg(*calls).persist()
        kept.callback(merged.unpersist)
        keys, total = merged.agg(F.count("*"), F.coalesce(F.sum(_ROWS), F.lit(0))).collect()[0]
        seconds = time.perf_counter() - begun
        malformed = source.malformed()
        check_rows(source, total, malformed, strict)
        found = merged.orderBy(F.desc(_ROWS), *merged.columns[:width]).limit(top).collect() if top else []
        hottest = tuple(
            HotKey(
                key=dict(zip(columns[:width], row, strict=False)),
                values=dict(zip(columns[width:], list(row)[width : len(columns)], strict=True)),
                rows=int(row[_ROWS]),
                workers=None,
            )
            for row in found
        )
        return PlainResult(
            source=source,
            aggregates=wanted,
            rows=int(total),
            keys=int(keys),
            hottest=hottest,
            malformed=malformed,
            seconds=seconds,
            merged=merged.drop(_ROWS),
            _kept=kept.pop_all(),
        )
