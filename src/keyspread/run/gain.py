"""`measure_gain`: run one job three ways in turn, check that the answers are equal, and report the seconds of each.

source → count → sample that plain Spark does in about ten seconds → warm up → rounds of three ways → `Gain`
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from keyspread import checks
from keyspread.checks import checked_threshold, least_hot_count
from keyspread.drawing.picture import Bar, Bars, Drawn, Picture, of_loads
from keyspread.errors import KeyspreadError
from keyspread.run import three_ways
from keyspread.run.pipeline import TOP, HotKey, Outcome, check_rows, hottest_table
from keyspread.run.sources import Source
from keyspread.run.three_ways import KEYSPREAD, NUMBER, PLAIN, SALTED, TEXT, WAYS, Result, Work
from keyspread.spark._engine.capabilities import can_observe, to_arrow
from keyspread.spark._folding.input_splits import tasks_of
from keyspread.spark._routing.keys import key_hash
from keyspread.spark.watch import Watch

ROUNDS = 2
SECONDS = 10.0
"""What plain Spark's busiest worker may take per round; of more rows, a random sample is timed."""
_MOST_ROWS = 200_000
"""Of rows without work, at most so many are timed."""
_WARM_UP_ROWS = 2_000
_TOGETHER = 0.3  # seconds that a warm-up task keeps its Python worker, so that the next task needs another one


@dataclass(frozen=True)
class Gain(Drawn):
    """Seconds of each way in every round, measured on this machine, and the load of every worker."""

    source: Source
    workers: int
    slots: int | None
    """Tasks that run at once; None if Spark does not tell, over Connect."""
    work: Work
    threshold: float
    rows: int
    timed_rows: int
    """Those of the sample, or all."""
    keys: int
    hot_keys: int
    rounds: Mapping[str, Sequence[float]]
    loads: Mapping[str, Outcome]
    """Of plain groupBy and of keyspread."""
    hottest: tuple[HotKey, ...]
    way: str
    """How keyspread computed the result, and why."""

    @property
    def seconds(self) -> dict[str, float]:
        """The median over the rounds."""
        return {way: median(self.rounds[way]) for way in WAYS}

    def gain(self, over: str = PLAIN, of: str = KEYSPREAD) -> float:
        """Return the median over the rounds of another way's time divided by keyspread's, or by that of a third way."""
        return median(other / own for other, own in zip(self.rounds[over], self.rounds[of], strict=True))

    def picture(self) -> Picture:
        """Return the seconds of every way, the rows of every worker, and the hottest keys."""
        seconds, timed = self.seconds, f"{self.timed_rows:,} rows"
        if self.timed_rows != self.rows:
            timed += f" (a random sample of {self.rows:,})"
        hot = f"{self.keys:,} keys, {self.hot_keys:,} of them hot"
        texts = {
            way: f"{value:.1f} s" + ("" if way == PLAIN else f" · {self.gain(of=way):.1f} × as fast")
            for way, value in seconds.items()
        }
        workers = f"{self.workers:,} worker{'' if self.workers == 1 else 's'}"
        most = float(max(outcome.loads.max() for outcome in self.loads.values()))
        return Picture(
            f"{str(self.work).capitalize()}, {workers}: seconds of three ways",
            f"{self.source.title}: {timed}, {hot}. Measured by keyspread run; all answers are equal.",
            [
                Bars("", [Bar(way, value, texts[way], way == KEYSPREAD) for way, value in seconds.items()]),
                *(
                    of_loads(
                        f"{way}: rows per worker",
                        self.loads[way].loads.tolist(),
                        self.loads[way].hot_loads.tolist(),
                        scale=most,
                        half=True,
                    )
                    for way in (PLAIN, KEYSPREAD)
                ),
                hottest_table(self.hottest, self.timed_rows),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            **self.source.facts,
            "key": list(self.source.key),
            "workers": self.workers,
            "slots": self.slots,
            "work": self.work.kind,
            "seconds_per_row": self.work.seconds,
            "threshold": self.threshold,
            "rows": self.rows,
            "timed_rows": self.timed_rows,
            "keys": self.keys,
            "hot_keys": self.hot_keys,
            "same_answer": True,  # otherwise there is an error instead of a result
            "ways": {
                way: {
                    "seconds": round(self.seconds[way], 3),
                    "rounds": [round(seconds, 3) for seconds in self.rounds[way]],
                    "gain_of_keyspread": round(self.gain(way), 3),
                    **_loads(self.loads.get(way)),
                }
                for way in WAYS
            },
            "way": self.way,
            "hottest": [
                {"key": hot.value, "rows": hot.rows, "share": hot.rows / self.timed_rows, "workers": hot.workers}
                for hot in self.hottest
            ],
        }


def _loads(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    return {
        "loads": outcome.loads.tolist(),
        "head_load": outcome.hot_loads.tolist(),
        "busiest": outcome.busiest,
    }


def measure_gain(
    source: Source,
    workers: int = 16,
    work: Work | None = None,
    *,
    rounds: int = ROUNDS,
    progress: Callable[[str], None] | None = None,
) -> Gain:
    """Run the same work per row three ways, taking turns, and return how long each took.

    The answers of all runs are compared with that of Spark's own aggregates; a difference raises `KeyspreadError`.
    As many rows are timed as plain Spark does in about ten seconds. They are a random sample that is persisted, so that
    every way reads the same rows from memory. `progress` is called with the name of each step.

    >>> from keyspread.run.sources import made_source
    >>> from keyspread.spark import session
    >>> from keyspread.streams import ZipfStream
    >>> source = made_source(session(), ZipfStream(1.4, keys=50, messages=500))
    >>> gain = measure_gain(source, 2, Work.of("none"), rounds=1)
    >>> gain.rows, sorted(gain.seconds) == sorted(WAYS)
    (500, True)
    """
    workers = checks.whole_number("workers", workers)
    rounds = checks.whole_number("rounds", rounds)
    work = work or Work.of("wait:1ms")
    threshold = checked_threshold(None, workers)
    report = progress or (lambda step: None)
    spark, key = source.rows.sparkSession, three_ways.key_names(source)
    with ExitStack() as kept:
        kept.enter_context(_settings(spark, workers))
        report("reading and counting")
        every = _kept(three_ways.numbered(source), kept) if source.keep else three_ways.numbered(source)
        total = int(source.facts.get("messages") or every.count())  # a generated stream knows how many it has
        check_rows(source, total)
        timed, exact = _timed_rows(every, key, total, workers, work, kept)
        counted = sum(many for many, _ in exact.values())
        watches = [Watch(hottest=0) if can_observe(timed) else None for _ in range(2)]

        def run(way: str, rows: DataFrame, work: Work, watch: Watch | None = None) -> Result:
            if way == PLAIN:
                return three_ways.plain(rows, key, work)
            if way == SALTED:
                return three_ways.salted(rows, key, work, salts=workers)
            return three_ways.spread(rows, source, work, workers, watch)

        report("warming up")
        _start_python(spark, workers)
        few = timed.where(F.pmod(NUMBER, F.lit(max(1, counted // _WARM_UP_ROWS))) == 0)
        for way in WAYS:
            run(way, few, Work.of("none"), watches[0])
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(rounds):
            # Every second round in reverse, so that no way always runs after the same other one.
            for way in WAYS if turn % 2 == 0 else reversed(WAYS):
                report(f"{way}, {turn + 1} of {rounds}")
                begun = time.perf_counter()
                answer = run(way, timed, work, None if turn else watches[1])
                seconds[way].append(time.perf_counter() - begun)
                _check(way, answer, exact)
        watch = watches[1]
        chosen = None if watch is None else watch.way
        loads, hot, hottest = _loads_of(timed, key, workers, threshold, watch)
    return Gain(
        source=source,
        workers=workers,
        slots=_slots_of(spark),
        work=work,
        threshold=threshold,
        rows=total,
        timed_rows=counted,
        keys=len(exact),
        hot_keys=hot,
        rounds=seconds,
        loads=loads,
        hottest=hottest,
        way="fold" if chosen is None else str(chosen),
    )


@contextmanager
def _settings(spark: SparkSession, workers: int) -> Iterator[None]:
    """Let every way have as many tasks as workers, and restore what the session had before."""
    settings = {
        "spark.sql.shuffle.partitions": str(workers),
        # Otherwise adaptive execution makes one partition of so few bytes, and plain Spark is `workers` times as slow.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def _kept(rows: DataFrame, kept: ExitStack) -> DataFrame:
    rows = rows.persist()
    kept.callback(rows.unpersist)
    return rows


def _timed_rows(
    rows: DataFrame, key: Sequence[str], total: int, workers: int, work: Work, kept: ExitStack
) -> tuple[DataFrame, Result]:
    """Return the rows to time, persisted, and their exact result: all rows, or a random sample."""
    timed = _kept(_sample(rows, _MOST_ROWS, total), kept)
    exact, loads = three_ways.exact(timed, key, workers)
    seconds = work.least_seconds(sum(loads), max(loads, default=0), os.cpu_count() or 1)
    if seconds > 1.2 * SECONDS:
        timed = _kept(_sample(timed, int(sum(loads) * SECONDS / seconds), sum(loads)), kept)
        exact, _ = three_ways.exact(timed, key, workers)
    return timed, exact


def _sample(rows: DataFrame, most: int, total: int) -> DataFrame:
    """Return all rows, or about `most` of them.

    A sample goes through the driver: its rows must be the same whenever they are computed again, and behind a shuffle
    those of `DataFrame.sample` are not.
    """
    if most >= total:
        return rows
    chosen = rows.sample(fraction=max(most, 1) / total, seed=0).collect() or rows.limit(1).collect()
    return rows.sparkSession.createDataFrame(chosen, rows.schema)


def _start_python(spark: SparkSession, workers: int) -> None:
    """Start a Python worker per slot, so that no way pays for it."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(_TOGETHER)
        yield from batches

    spark.range(0, workers, 1, workers).mapInArrow(hold, "id bigint").collect()


def _slots_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at once; None over Spark Connect, which does not say."""
    return None if is_remote() else int(spark.sparkContext.defaultParallelism)


def _check(way: str, answer: Result, exact: Result) -> None:
    """Refuse to report the time of a wrong answer."""
    wrong = [key for key in {**exact, **answer} if answer.get(key) != exact.get(key)]
    if wrong:
        raise KeyspreadError(
            f"{way} has another answer than Spark's own aggregates for {len(wrong):,} keys, such as {wrong[0]!r}: "
            f"{answer.get(wrong[0])} instead of {exact.get(wrong[0])} (rows, sum); do the input files change?"
        )


def _loads_of(
    rows: DataFrame, key: Sequence[str], workers: int, threshold: float, watch: Watch | None
) -> tuple[dict[str, Outcome], int, tuple[HotKey, ...]]:
    """Return the load of every worker, the number of hot keys, and the hottest; moves the rows again, untimed.

    keyspread's workers are the tasks that fold. The loads that the watch saw count, unless a task ran twice.
    """
    tasks, uneven = tasks_of(rows, workers)
    placed = rows if uneven is None else rows.repartition(workers)
    table = to_arrow(
        placed.select(
            key_hash(rows, list(key)).alias("hash"),
            F.pmod(F.hash(*key), F.lit(workers)).alias("natural"),
            F.spark_partition_id().alias("worker"),
            TEXT,
        )
        .groupBy("hash", "natural", "worker")
        .agg(F.count(F.lit(1)).alias("rows"), F.first(TEXT).alias("text"))
    )
    hashes, natural, folded, many = (
        np.asarray(table[name], np.int64) for name in ("hash", "natural", "worker", "rows")
    )
    keys, first, key_of = np.unique(hashes, return_index=True, return_inverse=True)
    rows_of = np.bincount(key_of, weights=many).astype(np.int64)
    hot = rows_of >= max(least_hot_count(threshold, int(many.sum())), 1)

    def outcome(way: str, place: npt.NDArray[np.int64], places: int) -> Outcome:
        of_all = np.bincount(place, weights=many, minlength=places).astype(np.int64)
        of_hot = np.bincount(place, weights=many * hot[key_of], minlength=places).astype(np.int64)
        return Outcome(way, of_all, of_hot, np.unique(key_of * places + place).size)

    spread = outcome(KEYSPREAD, folded, tasks)
    if watch is not None and watch.balance.rows == many.sum():
        seen = watch.balance.loads
        spread = replace(spread, loads=seen, hot_loads=np.minimum(spread.hot_loads, seen))
    workers_of = np.bincount(key_of, minlength=keys.size)
    order = np.argsort(-rows_of, kind="stable")[:TOP]
    texts = table["text"]
    hottest = tuple(
        HotKey({"key": texts[int(first[place])].as_py()}, int(rows_of[place]), int(workers_of[place]))
        for place in order
    )
    return {PLAIN: outcome(PLAIN, natural, workers), KEYSPREAD: spread}, int(hot.sum()), hottest
