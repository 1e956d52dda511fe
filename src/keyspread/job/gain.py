"""`measure_gain`: run one job three ways in turn, check that the answers are equal, and report the seconds of each.

source → count → sample that plain Spark does in about ten seconds → warm up → rounds of three ways → `Gain`
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.drawing.picture import Bar, Bars, Drawn, Picture, Table, of_loads
from keyspread.errors import KeyspreadError
from keyspread.job import three_ways
from keyspread.job.batch_job import check_rows
from keyspread.job.sources import Malformed, Source
from keyspread.job.three_ways import KEYSPREAD, NUMBER, PLAIN, SALTED, TEXT, WAYS, Result
from keyspread.job.work import Work
from keyspread.spark.capabilities import can_observe, to_arrow
from keyspread.spark.plan import count_rows
from keyspread.spark.routing.keys import key_hash
from keyspread.spark.spread import with_worker
from keyspread.spark.watch import Watch
from keyspread.threshold import checked_threshold, least_hot_count

ROUNDS = 2
SECONDS = 10.0
"""What plain Spark's busiest worker may take per round; of more rows, a random sample is timed."""
_MOST_ROWS = 200_000
"""Of rows without work, at most so many are timed."""
_WARM_UP_ROWS = 2_000
_TOGETHER = 0.3  # seconds that a warm-up task keeps its Python worker, so that the next task needs another one


@dataclass(frozen=True)
class WorkerLoads:
    """Rows of every worker, and those of hot keys among them."""

    rows: npt.NDArray[np.int64]
    hot_rows: npt.NDArray[np.int64]

    @property
    def busiest(self) -> float:
        """The largest load as a multiple of an even share; 1 is perfect."""
        return float(self.rows.max() / self.rows.mean()) if self.rows.sum() else 1.0


@dataclass(frozen=True)
class TimedKey:
    """One of the hottest keys as text, its rows, and the number of workers that worked on it with keyspread."""

    key: str | None
    rows: int
    workers: int


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
    loads: Mapping[str, WorkerLoads]
    """Of plain groupBy and of keyspread."""
    hottest: tuple[TimedKey, ...]
    way: str
    """How keyspread computed the result, and why."""
    malformed: Malformed
    preparation: Mapping[str, float]
    """Seconds of what was not timed: reading and counting, warming up."""

    @property
    def seconds(self) -> dict[str, float]:
        """The median over the rounds."""
        return {way: median(self.rounds[way]) for way in WAYS}

    def gain(self, over: str = PLAIN, of: str = KEYSPREAD) -> float:
        """Return the median over the rounds of another way's time divided by keyspread's, or by that of a third way."""
        return median(other / own for other, own in zip(self.rounds[over], self.rounds[of], strict=True))

    def picture(self) -> Picture:
        """Return the seconds of every way, the rows of every worker, and the hottest keys."""
        seconds, hot = self.seconds, f"{self.hot_keys:,} hot key{'' if self.hot_keys == 1 else 's'}"
        texts = {
            way: f"{value:.1f} s" + ("" if way == PLAIN else f" · {self.gain(of=way):.1f} × as fast")
            for way, value in seconds.items()
        }
        most = float(max(one.rows.max() for one in self.loads.values()))
        return Picture(
            f"{str(self.work).capitalize()}, {self.workers:,} workers: seconds of three ways",
            f"{self.source.title}: {self.timed_rows:,} rows, {hot}. Measured by keyspread run; all answers are equal.",
            [
                Bars("", [Bar(way, value, texts[way], way == KEYSPREAD) for way, value in seconds.items()]),
                *(
                    of_loads(
                        f"{way}: rows per worker",
                        self.loads[way].rows.tolist(),
                        self.loads[way].hot_rows.tolist(),
                        scale=most,
                        half=True,
                    )
                    for way in (PLAIN, KEYSPREAD)
                ),
                Table(
                    ("hottest keys", "rows", "share", "workers"),
                    [
                        (
                            "null" if hot.key is None else hot.key,
                            f"{hot.rows:,}",
                            f"{100 * hot.rows / self.timed_rows:.2f} %",
                            f"{hot.workers:,}",
                        )
                        for hot in self.hottest
                    ],
                ),
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
            "malformed": self.malformed.count,
            "same_answer": True,  # otherwise there is an error instead of a result
            "ways": {
                way: {
                    "seconds": round(self.seconds[way], 3),
                    "rounds": [round(one, 3) for one in self.rounds[way]],
                    "gain_of_keyspread": round(self.gain(way), 3),
                    **_loads(self.loads.get(way)),
                }
                for way in WAYS
            },
            "way": self.way,
            "hottest": [
                {"key": hot.key, "rows": hot.rows, "share": hot.rows / self.timed_rows, "workers": hot.workers}
                for hot in self.hottest
            ],
            "preparation": {name: round(value, 2) for name, value in self.preparation.items()},
        }


def _loads(loads: WorkerLoads | None) -> dict[str, Any]:
    if loads is None:
        return {}
    return {"loads": loads.rows.tolist(), "head_load": loads.hot_rows.tolist(), "busiest": loads.busiest}


def measure_gain(
    source: Source,
    workers: int = 16,
    work: Work | None = None,
    *,
    rows: int | None = None,
    rounds: int = ROUNDS,
    top: int = 10,
    seed: int = 0,
    strict: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Gain:
    """Run the same work per row three ways, taking turns, and return how long each took.

    The answers of all runs are compared with that of Spark's own aggregates; a difference raises `KeyspreadError`.
    `rows` is the number of rows to time; by default as many as plain Spark does in about ten seconds. They are a random
    sample that is persisted, so that every way reads the same rows from memory. keyspread's time includes counting the
    keys and planning. `progress` is called with the name of each step.

    >>> from keyspread.spark import session
    >>> from keyspread.job.sources import zipf_source
    >>> found = measure_gain(zipf_source(session(), keys=50, messages=500), 2, Work.of("none"), rounds=1)
    >>> found.rows, sorted(found.seconds) == sorted(WAYS)
    (500, True)
    """
    workers = checks.whole_number("workers", workers)
    rounds = checks.whole_number("rounds", rounds)
    work = work or Work.of("wait:1ms")
    threshold = checked_threshold(None, workers)
    report, preparation = progress or (lambda step: None), dict[str, float]()
    spark, key = source.rows.sparkSession, three_ways.key_names(source)
    with ExitStack() as kept:
        kept.enter_context(_settings(spark, workers))
        with _step("reading and counting", report, preparation):
            every = _kept(three_ways.numbered(source), kept) if source.keep else three_ways.numbered(source)
            total, malformed = _checked_total(source, every, strict)
            timed, exact = _timed_rows(every, key, total, workers, work, rows, seed, kept)
        counted = sum(many for many, _ in exact.values())
        watches = [Watch(hottest=0) if can_observe(timed) else None for _ in range(2)]

        def run(way: str, rows: DataFrame, work: Work, watch: Watch | None = None) -> Result:
            if way == PLAIN:
                return three_ways.plain(rows, key, work)
            if way == SALTED:
                return three_ways.salted(rows, key, work, salts=workers)
            return three_ways.spread(rows, source, work, workers, watch)

        with _step("warming up", report, preparation):
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
        whole = chosen is not None and chosen.name == "key"
        loads, hot, hottest = _loads_of(timed, key, workers, threshold, top, whole, watch)
    return Gain(
        source=source,
        workers=workers,
        slots=slots_of(spark),
        work=work,
        threshold=threshold,
        rows=total,
        timed_rows=counted,
        keys=len(exact),
        hot_keys=hot,
        rounds=seconds,
        loads=loads,
        hottest=hottest,
        way="planned" if chosen is None else str(chosen),
        malformed=malformed,
        preparation=preparation,
    )


@contextmanager
def _settings(spark: SparkSession, workers: int) -> Iterator[None]:
    """Let every way have as many tasks as workers, and restore what the session had before."""
    wanted = {
        "spark.sql.shuffle.partitions": str(workers),
        # Otherwise adaptive execution makes one partition of so few bytes, and plain Spark is `workers` times as slow.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)


@contextmanager
def _step(name: str, report: Callable[[str], None], seconds: dict[str, float]) -> Iterator[None]:
    report(name)
    begun = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - begun


def _kept(rows: DataFrame, kept: ExitStack) -> DataFrame:
    rows = rows.persist()
    kept.callback(rows.unpersist)
    return rows


def _checked_total(source: Source, rows: DataFrame, strict: bool) -> tuple[int, Malformed]:
    """Count the rows and the malformed lines; refuse an empty source, and with `strict` any malformed line."""
    total = source.facts.get("messages") or rows.count()  # a generated stream knows how many it has
    malformed = source.malformed()
    check_rows(source, total, malformed, strict)
    return int(total), malformed


def _timed_rows(
    rows: DataFrame,
    key: Sequence[str],
    total: int,
    workers: int,
    work: Work,
    wanted: int | None,
    seed: int,
    kept: ExitStack,
) -> tuple[DataFrame, Result]:
    """Return the rows to time, persisted, and their exact result: all rows, or a random sample."""
    most = _MOST_ROWS if wanted is None else checks.whole_number("rows", wanted)
    timed = _kept(_sample(rows, most, total, seed), kept)
    exact, loads = three_ways.exact(timed, key, workers)
    seconds = work.least_seconds(sum(loads), max(loads, default=0), os.cpu_count() or 1)
    if wanted is None and seconds > 1.2 * SECONDS:
        timed = _kept(_sample(timed, int(sum(loads) * SECONDS / seconds), sum(loads), seed), kept)
        exact, _ = three_ways.exact(timed, key, workers)
    return timed, exact


def _sample(rows: DataFrame, wanted: int, total: int, seed: int) -> DataFrame:
    """Return all rows, or about as many as are wanted.

    A sample goes through the driver: its rows must be the same whenever they are computed again, and behind a shuffle
    those of `DataFrame.sample` are not.
    """
    if wanted >= total:
        return rows
    chosen = rows.sample(fraction=max(wanted, 1) / total, seed=seed).collect() or rows.limit(1).collect()
    return rows.sparkSession.createDataFrame(chosen, rows.schema)


def _start_python(spark: SparkSession, workers: int) -> None:
    """Start a Python worker per slot, so that no way pays for it."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(_TOGETHER)
        yield from batches

    spark.range(0, workers, 1, workers).mapInArrow(hold, "id bigint").collect()


def slots_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at once; None over Spark Connect, which does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # PySparkAttributeError or NotImplementedError, depending on the version
        return None


def _check(way: str, answer: Result, exact: Result) -> None:
    """Refuse to report the time of a wrong answer."""
    wrong = [key for key in {**exact, **answer} if answer.get(key) != exact.get(key)]
    if wrong:
        raise KeyspreadError(
            f"{way} has another answer than Spark's own aggregates for {len(wrong):,} keys, such as {wrong[0]!r}: "
            f"{answer.get(wrong[0])} instead of {exact.get(wrong[0])} (rows, sum); do the input files change?"
        )


def _loads_of(
    rows: DataFrame, key: Sequence[str], workers: int, threshold: float, top: int, whole: bool, watch: Watch | None
) -> tuple[dict[str, WorkerLoads], int, tuple[TimedKey, ...]]:
    """Return the load of every worker, the number of hot keys, and the hottest; routes the rows again, untimed.

    The same rows give the same plan, so these are the loads of the timed runs. Those that the watch saw count, unless
    a task ran twice.
    """
    counted = count_rows(rows, list(key), workers)
    plan = counted.plan_of_whole_keys() if whole else counted.plan()
    routed, worker = with_worker(rows, list(key), workers, "planned", plan=plan)
    table = to_arrow(
        routed.select(
            key_hash(rows, list(key)).alias("hash"),
            F.pmod(F.hash(*key), F.lit(workers)).alias("natural"),
            F.col(worker).alias("worker"),
            TEXT,
        )
        .groupBy("hash", "natural", "worker")
        .agg(F.count(F.lit(1)).alias("rows"), F.first(TEXT).alias("text"))
    )
    hashes, natural, planned, many = (
        np.asarray(table[name], np.int64) for name in ("hash", "natural", "worker", "rows")
    )
    keys, first, key_of = np.unique(hashes, return_index=True, return_inverse=True)
    rows_of = np.bincount(key_of, weights=many).astype(np.int64)
    hot = rows_of >= max(least_hot_count(threshold, int(many.sum())), 1)

    def loads(place: npt.NDArray[np.int64]) -> WorkerLoads:
        of_all = np.bincount(place, weights=many, minlength=workers)
        of_hot = np.bincount(place, weights=many * hot[key_of], minlength=workers)
        return WorkerLoads(of_all.astype(np.int64), of_hot.astype(np.int64))

    spread = loads(planned)
    if watch is not None and watch.balance.rows == many.sum():
        seen = watch.balance.loads
        spread = WorkerLoads(seen, np.minimum(spread.hot_rows, seen))
    workers_of = np.bincount(key_of, minlength=keys.size)
    order = np.argsort(-rows_of, kind="stable")[: checks.whole_number("top", top, minimum=0)]
    texts = table["text"]
    hottest = tuple(TimedKey(texts[int(first[one])].as_py(), int(rows_of[one]), int(workers_of[one])) for one in order)
    return {PLAIN: loads(natural), KEYSPREAD: spread}, int(hot.sum()), hottest
