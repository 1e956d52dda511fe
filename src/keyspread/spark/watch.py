"""`Watch` and `balance`: the load of every worker, the imbalance and the hottest keys of a spread DataFrame.

A `Watch` counts the rows while the job runs (Spark's `observe`). `balance` runs a job of its own. For streams see
`stream_watch.py`.
"""

import contextlib
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.drawing.picture import Drawn, Picture, hottest_table, of_loads
from keyspread.errors import InputError, KeyspreadError
from keyspread.evaluation import metrics
from keyspread.spark._engine.capabilities import can_observe, has_function
from keyspread.spark._routing.keys import Key, KeyColumn, column, key_columns
from keyspread.spark._routing.options import Routing, Way

_TOP = "approx_top_k"
TRACKED = 10_000  # items in the sketch of the hottest keys: a count may be off by rows / 7,500


@dataclass(frozen=True)
class Balance(Drawn):
    """Rows of every worker, and the hottest keys with their rows (estimated, hottest first).

    A watch finds the hottest keys only where Spark has `approx_top_k` (4.1 and newer); elsewhere there are none.

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

    def picture(self) -> Picture:
        """Return the rows of every worker and the hottest keys."""
        return Picture(
            f"Balance of {self.loads.size:,} workers",
            f"{self.rows:,} rows, imbalance {self.imbalance:.2g}",
            [
                of_loads("rows", self.loads.tolist()),
                *([hottest_table(self.hottest, self.rows)] if self.hottest else []),
            ],
        )


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

    uses_threshold = False

    def __init__(self, hottest: int = 10) -> None:
        self._hottest = checks.whole_number("hottest", hottest, minimum=0)
        self._observed = Observed()
        self._workers = 0
        self.way: Way | None = None
        """How `aggregate` computes the result, and why; None for `spread`."""

    def on(self, routed: DataFrame, key: Sequence[KeyColumn], worker: str, routing: Routing) -> DataFrame:
        """Return the same rows; when they are computed, this watch counts them."""
        if self._workers:
            raise InputError("this Watch is used already; make a new one for every spread")
        _check_bounded(routed)
        if not can_observe(routed):
            raise InputError(
                "a Watch over Spark Connect needs Spark 4.0 or newer; leave watch= out, and count the result with "
                "keyspread.spark.balance"
            )
        self._workers = workers = routing.workers
        seen = [F.count(F.lit(1)).alias("rows"), worker_loads(routed, worker, workers)]
        if self._hottest and has_function(routed.sparkSession, _TOP):
            seen.append(top_items(key_text(routed, key), self._hottest, TRACKED, is_text=True).alias("hottest"))
        return routed.observe(self._observed.observation, *seen)

    def take(self, way: Way, df: DataFrame) -> None:
        """Remember how `aggregate` computes the result."""
        _check_bounded(df)
        self.way = way

    @property
    def balance(self) -> Balance:
        """The counts of the first action on the DataFrame; waits while it runs.

        Raises an `InputError` if no action has run. Over Spark Connect all loads are 0 then.
        """
        if not self._workers:
            raise nothing_routed("balance", self.way)
        seen = self._observed.values()
        loads = read_loads(seen.get("loads"), self._workers, seen.get("rows", 0))
        return Balance(loads, tuple(read_hottest(seen.get("hottest"))))


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

    Args:
        spread: A DataFrame that `spread` returned.
        workers: The number of workers that it was spread over.
        key: The key, to find its hottest values; without it there are none.
        hottest: How many of them.

    Returns:
        The rows of every worker, and the hottest keys.

    Raises:
        InputError: The DataFrame was not spread over so many workers.

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
    by_sketch = key is not None and has_function(spread.sparkSession, _TOP)
    if key is not None:
        selected.append(key_text(spread, key_columns(spread, key)).alias("key"))
    if by_sketch:
        seen.append(F.expr(f"approx_top_k_accumulate(key, {TRACKED})").alias("sketch"))
        combined = f"approx_top_k_combine(sketch, {TRACKED})"
        together.append(F.expr(f"approx_top_k_estimate({combined}, {hottest})").alias("hottest"))
    rows = spread.select(*selected)
    totals = rows.groupBy("worker").agg(*seen).agg(*together).collect()[0]
    loads = np.zeros(workers, np.int64)
    for item in totals["loads"]:
        if item["worker"] >= workers:
            raise InputError(
                f"the DataFrame has rows in partition {item['worker']}, so it was not spread over {workers} workers"
            )
        loads[item["worker"]] = item["rows"]
    if by_sketch:
        return Balance(loads, _pairs(totals["hottest"]))
    return Balance(loads, () if key is None else _pairs(_counted(rows, hottest)))


def worker_loads(df: DataFrame, worker: str, workers: int) -> Column:
    """Return an aggregate that counts the rows per worker; read its value with `read_loads`.

    Either sketch has room for all workers, so it is exact.
    """
    item = F.expr(worker)
    if has_function(df.sparkSession, _TOP):
        return top_items(item, workers, max(TRACKED, 2 * workers), is_text=False).alias("loads")
    return histogram(item, workers).alias("loads")


def read_loads(text: str | None, workers: int, rows: int | None) -> npt.NDArray[np.int64]:
    """Return the rows of every worker, from what `worker_loads` observed of this many rows."""
    loads = np.zeros(workers, np.int64)
    for worker, count in read_counts(text):
        place = round(float(worker or 0))
        if not 0 <= place < workers:
            raise damaged()
        loads[place] += int(count)
    if loads.sum() != (rows or 0):
        raise damaged()
    return loads


def read_hottest(text: str | None) -> list[tuple[str | None, int]]:
    """Return the text and the rows of each key, hottest first, from what `top_items` observed."""
    return [(key, int(rows)) for key, rows in read_counts(text)]


def key_text(df: DataFrame, key: Sequence[KeyColumn]) -> Column:
    """Return the key as text: a single column as it is, several as JSON."""
    columns = [column(df, part) for part in key]
    return columns[0].cast("string") if len(columns) == 1 else F.to_json(F.struct(*columns))


def _counted(rows: DataFrame, hottest: int) -> list[Any]:
    """Count all keys, where Spark has no sketch of the hottest."""
    return rows.groupBy("key").count().orderBy(F.desc("count"), "key").limit(hottest).collect()


def _pairs(counts: Any) -> tuple[tuple[str | None, int], ...]:
    return tuple((item[0], int(item[1])) for item in counts or ())


# What Spark observed of the rows of a DataFrame, without waiting for an action that never comes.


_IDLE = 5.0  # seconds without a job after which nothing will be observed any more


class Observed:
    """The result of one `Observation`."""

    def __init__(self) -> None:
        self.observation = Observation()
        self._reader: threading.Thread | None = None

    def values(self) -> dict[str, Any]:
        """Return what the first action observed, nothing if it had no rows; wait while it runs.

        Raise an `InputError` if no action has run. Over Spark Connect nothing is observed then.
        """
        if isinstance(self.observation, Observation):  # of classic Spark, which waits forever if nothing is observed
            self._wait()
        try:
            return self.observation.get
        except Py4JError as error:
            # If Spark knows beforehand that there are no rows, it skips the observation and fails to read it here.
            if "toPyRow" not in str(error):
                raise
            return {}

    def _wait(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        jobs = SparkSession.active().sparkContext.statusTracker()
        idle_since = time.monotonic()
        while self._reader.is_alive():
            self._reader.join(0.05)
            if jobs.getActiveJobsIds():
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE:
                raise InputError(
                    "this watch has seen nothing: run the DataFrame that spread or aggregate returned, then read the "
                    "watch. (Before Spark 4.1 a DataFrame without rows may not be seen either; keyspread.spark.balance "
                    "counts it.)"
                )

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # whoever asks for the values gets the error
            self.observation.get  # noqa: B018


# Counts per item as an observed value: a text that Spark writes without shared state.
#
# Spark may read one observed value in two threads at once (over Connect: the query's own and a listener's). Its JSON
# writer cannot bear that: with 2,000 workers on Spark 4.0, 68 of 400 queries failed. A cast to text has no state, but
# even then the row that carries it is shared, and 1 of 400 arrived damaged. So a reader checks what it gets.


_NULL = "\\N"
# Spark writes [{item, count}, …], or square brackets for all if it is told to write like its oldest versions.
_ESCAPES = {"\\": "\\\\", "}": "\\)", "]": "\\>"}
_ITEM = r"[{\[]([^}\]]*), ([0-9.E]+)[}\]]"
_ITEMS = re.compile(f"[#=]\\[(?:{_ITEM}(?:, {_ITEM})*)?\\]", re.DOTALL)
_EACH = re.compile(f"{_ITEM}(?:, |$)", re.DOTALL)


def top_items(item: Column, many: int, tracked: int, *, is_text: bool) -> Column:
    """Return an aggregate that counts the `many` most frequent items of a column; read its value with `read_counts`."""
    if is_text:
        for written, escaped in _ESCAPES.items():
            item = F.replace(item, F.lit(written), F.lit(escaped))
        item = F.coalesce(item, F.lit(_NULL))
    counted = F.call_function("approx_top_k", item, F.lit(many), F.lit(max(tracked, many)))
    return F.concat(F.lit("=" if is_text else "#"), counted.cast("string"))


def histogram(item: Column, many: int) -> Column:
    """Return the same of a column with at most `many` different numbers, where Spark has no `approx_top_k`.

    After the merge of two parts, Spark may say 2.9999999999 for 3, and may have a number twice.
    """
    counted = F.call_function("histogram_numeric", item.cast("double"), F.lit(max(many, 2)))  # Spark takes no less
    return F.concat(F.lit("#"), counted.cast("string"))


def read_counts(text: str | None) -> list[tuple[str | None, float]]:
    """Return each item as text and its count, in Spark's order. Raise an error if the text is damaged.

    >>> read_counts("#[{3, 17}, {null, 2}]")
    [('3', 17.0), (None, 2.0)]
    >>> read_counts("=[{a, {b\\\\), 17}, {null, 3}, {\\\\N, 2}]")
    [('a, {b}', 17.0), ('null', 3.0), (None, 2.0)]
    """
    if text is None:
        return []
    if not _ITEMS.fullmatch(text):
        raise damaged()
    read = _number if text[0] == "#" else _text
    return [(read(item), float(count)) for item, count in _EACH.findall(text[2:-1])]


def damaged() -> KeyspreadError:
    """Return the error of a reader that got something else than what Spark counted."""
    return KeyspreadError(
        "Spark returned the counts of this watch damaged, because two of its threads read them at once; the rows "
        "themselves are right. Count them with keyspread.spark.balance, or run them again with a new watch."
    )


def _number(item: str) -> str | None:
    return None if item in ("null", "") else item


def _text(item: str) -> str | None:
    if item == _NULL:
        return None
    return re.sub(r"\\(.)", lambda found: {")": "}", ">": "]"}.get(found[1], found[1]), item)
