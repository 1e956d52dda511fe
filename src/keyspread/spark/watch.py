"""`Watch` and `balance`: the load of every worker, the imbalance and the hottest keys of a spread DataFrame.

A `Watch` counts the rows while the job runs (Spark's `observe`). `balance` runs a job of its own. For streams see
`streaming/stream_watch.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.spark.aggregation.way import Way
from keyspread.spark.routing.keys import Key, KeyColumn, column, key_columns

TRACKED = 10_000  # items in the sketch of the hottest keys: a count may be off by rows / 7,500


@dataclass(frozen=True)
class Balance:
    """Rows of every worker, and the hottest keys with their rows (estimated, hottest first).

    >>> found = Balance(np.array([30, 10, 20]), (("a", 12),))
    >>> found.rows, round(found.imbalance, 3), round(found.skew_score, 3)
    (60, 0.167, 0.333)
    """

    loads: npt.NDArray[np.int64]
    hottest: tuple[tuple[str | None, int], ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.loads.sum())

    @property
    def imbalance(self) -> float:
        """The largest share of a worker minus 1/n."""
        return metrics.imbalance(self.loads)

    @property
    def skew_score(self) -> float:
        """The mean absolute deviation of the loads divided by their mean, as Flink shows it."""
        return metrics.skew_score(self.loads)


class Watch:
    """Counts rows on their way to the workers, in the same job: no extra pass over the data.

    Pass it to one `spread` or `aggregate`, run the result, then read `balance`. If Spark re-runs a lost task, its rows
    may be counted twice here; the result itself is not affected.

    >>> from keyspread.spark import Watch, session, spread
    >>> watch = Watch()
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> spread(rows, "k", workers=4, watch=watch).write.format("noop").mode("overwrite").save()
    >>> watch.balance.rows, watch.balance.imbalance < 0.01, watch.balance.hottest[0]
    (1000, True, ('0', 500))
    """

    def __init__(self, hottest: int = 10) -> None:
        self._hottest = checks.whole_number("hottest", hottest, minimum=0)
        self._observation = Observation()
        self._workers = 0
        self.way: Way | None = None
        """How `aggregate` computes the result, and why; None for `spread`."""

    def on(
        self, routed: DataFrame, key: Sequence[KeyColumn], workers: int, worker: str, options: Mapping[str, Any]
    ) -> DataFrame:
        """Return the same rows; when they are computed, this watch counts them."""
        if self._workers:
            raise InputError("this Watch is used already; make a new one for every spread")
        _check_bounded(routed)
        self._workers = workers
        seen = [worker_loads(worker, workers)]
        if self._hottest:
            seen.append(_top(key_text(routed, key), self._hottest).alias("hottest"))
        return routed.observe(self._observation, *seen)

    def take(self, way: Way, df: DataFrame) -> None:
        """Remember how `aggregate` computes the result."""
        _check_bounded(df)
        self.way = way

    @property
    def balance(self) -> Balance:
        """The counts of the first action on the DataFrame; waits until it has run."""
        if not self._workers:
            raise nothing_routed("balance", self.way)
        seen = self._seen()
        loads = np.zeros(self._workers, np.int64)
        for item in seen.get("loads") or ():
            loads[item[0]] = item[1]
        return Balance(loads, _pairs(seen.get("hottest")))

    def _seen(self) -> dict[str, Any]:
        try:
            return self._observation.get
        except Py4JError as error:
            # If Spark knows beforehand that there are no rows, it skips the observation and fails to read it here.
            if "toPyRow" not in str(error):
                raise
            return {}


def nothing_routed(what: str, way: Way | None) -> InputError:
    """Return the error of a watch that has nothing to show."""
    if way is None:
        return InputError(f"this watch has no {what}: pass it to spread or aggregate as watch=, and run the result")
    return InputError(f'no row was routed, so there is no {what} ({way}); pass scheme="planned" to spread the rows')


def _check_bounded(df: DataFrame) -> None:
    if df.isStreaming:
        raise InputError("a Watch is for a bounded DataFrame, got a stream; use a StreamWatch")


def balance(spread: DataFrame, workers: int, key: Key | None = None, hottest: int = 10) -> Balance:
    """Count the rows in each partition of a DataFrame that `spread` returned, and with `key` its hottest keys.

    This runs a job.

    >>> from keyspread.spark import balance, session, spread
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> found = balance(spread(rows, "k", workers=4), workers=4, key="k")
    >>> found.rows, found.imbalance < 0.01, found.hottest[0]
    (1000, True, ('0', 500))
    """
    workers = checks.whole_number("workers", workers)
    hottest = checks.whole_number("hottest", hottest, minimum=1)
    seen: list[Column] = [F.count("*").alias("rows")]
    together: list[Column] = [F.collect_list(F.struct("worker", "rows")).alias("loads")]
    selected = [F.spark_partition_id().alias("worker")]
    if key is not None:
        selected.append(key_text(spread, key_columns(spread, key)).alias("key"))
        seen.append(F.expr(f"approx_top_k_accumulate(key, {TRACKED})").alias("sketch"))
        combined = f"approx_top_k_combine(sketch, {TRACKED})"
        together.append(F.expr(f"approx_top_k_estimate({combined}, {hottest})").alias("hottest"))
    found = spread.select(*selected).groupBy("worker").agg(*seen).agg(*together).collect()[0]
    loads = np.zeros(workers, np.int64)
    for item in found["loads"]:
        if item["worker"] >= workers:
            raise InputError(
                f"the DataFrame has rows in partition {item['worker']}, so it was not spread over {workers} workers"
            )
        loads[item["worker"]] = item["rows"]
    return Balance(loads, _pairs(found["hottest"]) if key is not None else ())


def worker_loads(worker: str, workers: int) -> Column:
    """Return an aggregate that counts the rows per worker. A sketch with room for all workers is exact."""
    return F.expr(f"approx_top_k({worker}, {workers}, {max(TRACKED, 2 * workers)})").alias("loads")


def key_text(df: DataFrame, key: Sequence[KeyColumn]) -> Column:
    """Return the key as text: a single column as it is, several as JSON."""
    columns = [column(df, part) for part in key]
    return columns[0].cast("string") if len(columns) == 1 else F.to_json(F.struct(*columns))


def _top(text: Column, hottest: int) -> Column:
    return F.call_function("approx_top_k", text, F.lit(hottest), F.lit(max(TRACKED, hottest)))


def _pairs(found: Any) -> tuple[tuple[str | None, int], ...]:
    return tuple((item[0], int(item[1])) for item in found or ())
