"""`run_job`: the paper's pipeline on bounded rows: sources → senders → workers → merged counts per key.

The job reads the rows once to plan (only for scheme "planned"), once to route, count and merge, and once to compare
with key grouping and partial key grouping on the same rows.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.choices import find_choices
from keyspread.drawing.picture import Drawn, Picture, Table, of_loads
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.operators import Count
from keyspread.planned.plan import Plan
from keyspread.run.sources import Source
from keyspread.sender.registry import PLANNED, Kind, resolve
from keyspread.sender.settings import Settings
from keyspread.spark._routing.keys import KeyColumn, key_columns, key_hash, quoted
from keyspread.spark._routing.options import Routing
from keyspread.spark._routing.senders import python_worker
from keyspread.spark.aggregate import aggregate
from keyspread.spark.plan import plan as plan_rows
from keyspread.spark.spread import with_worker
from keyspread.spark.watch import Watch

COMPARED = ("key", "partial-key")
"""The schemes to compare with: the usual way, and the usual remedy."""
TOP = 10
"""Hottest keys in a report."""
_HASH = "keyspread_hash"
_IN_WORDS = {"key": "key grouping", "partial-key": "partial key grouping", "shuffle": "shuffling"}


@dataclass(frozen=True)
class Outcome:
    """What a scheme did to the rows: the load of every worker, the part of it from hot keys, and the replicas."""

    scheme: str
    loads: npt.NDArray[np.int64]
    hot_loads: npt.NDArray[np.int64]
    replicas: int

    @property
    def imbalance(self) -> float:
        """The largest share of a worker - 1/n."""
        return metrics.imbalance(self.loads)

    @property
    def busiest(self) -> float:
        """The largest load as a multiple of an even share; 1 is perfect."""
        return float(self.loads.max() / self.loads.mean()) if self.loads.sum() else 1.0


@dataclass(frozen=True)
class HotKey:
    """One of the hottest keys: its columns, its rows, and the number of workers that got them."""

    key: dict[str, Any]
    rows: int
    workers: int

    @property
    def value(self) -> Any:
        """The value of the key; of several columns, by their names."""
        return next(iter(self.key.values())) if len(self.key) == 1 else self.key


def hottest_table(hottest: Sequence[HotKey], total: int) -> Table:
    """Return a table of the hottest keys with their rows, shares and workers."""
    rows = [
        (
            ", ".join("null" if part is None else str(part) for part in hot.key.values()),
            f"{hot.rows:,}",
            f"{100 * hot.rows / total:.2f} %",
            f"{hot.workers:,}",
        )
        for hot in hottest
    ]
    return Table(("hottest keys", "rows", "share", "workers"), rows)


@dataclass(frozen=True)
class JobResult(Drawn):
    """The result of `run_job`. `merged` has one row per key and stays persisted in Spark until `release`."""

    source: Source
    scheme: str
    workers: int
    threshold: float
    rows: int
    keys: int
    hot_keys: int
    choices: int | None
    """The d of D-Choices: how many workers a hot key may use. None for schemes without one d."""
    outcomes: tuple[Outcome, ...]
    """The chosen scheme comes first."""
    hottest: tuple[HotKey, ...]
    plan: Plan | None
    seconds: dict[str, float]
    merged: DataFrame = field(repr=False)
    _kept: ExitStack = field(default_factory=ExitStack, repr=False)

    def release(self) -> None:
        """Unpersist all DataFrames of this job."""
        self._kept.close()

    def outcome(self, scheme: str) -> Outcome | None:
        """Return what a scheme did to the rows, if it was compared."""
        return next((outcome for outcome in self.outcomes if outcome.scheme == scheme), None)

    def picture(self) -> Picture:
        """Return the schemes, the rows of every worker beside those under key grouping, and the hottest keys."""
        hot = f"{self.hot_keys:,} of them hot (at least {100 * self.threshold:.2g} % of the rows)"
        choices = "" if self.choices is None else f"; they need d = {self.choices:,} of {self.workers:,} workers"
        most = float(max(outcome.loads.max() for outcome in self.outcomes))
        halves = [self.outcomes[0], *(outcome for outcome in self.outcomes[1:] if outcome.scheme == "key")]
        return Picture(
            f"{self.scheme}, {self.workers:,} worker{'' if self.workers == 1 else 's'}: {self.source.title}",
            f"{self.rows:,} rows, {self.keys:,} keys, {hot}{choices}",
            [
                Table(
                    ("scheme", "busiest worker", "imbalance", "replicas", "per key"),
                    [
                        (
                            in_words(outcome.scheme),
                            f"{outcome.busiest:.2f} × even share",
                            f"{outcome.imbalance:.1e}",
                            f"{outcome.replicas:,}",
                            f"{outcome.replicas / self.keys:.2f}",
                        )
                        for outcome in self.outcomes
                    ],
                    strong=True,
                ),
                *(
                    of_loads(
                        in_words(outcome.scheme),
                        outcome.loads.tolist(),
                        outcome.hot_loads.tolist(),
                        scale=most,
                        half=len(halves) > 1,
                    )
                    for outcome in halves
                ),
                hottest_table(self.hottest, self.rows),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all but the merged rows as plain values for JSON (use `default=str` for types such as dates)."""
        return {
            **self.source.facts,
            "key": list(self.source.key),
            "scheme": self.scheme,
            "workers": self.workers,
            "threshold": self.threshold,
            "rows": self.rows,
            "keys": self.keys,
            "hot_keys": self.hot_keys,
            "choices": self.choices,
            "schemes": {
                outcome.scheme: {
                    "loads": outcome.loads.tolist(),
                    "head_load": outcome.hot_loads.tolist(),
                    "imbalance": outcome.imbalance,
                    "skew_score": metrics.skew_score(outcome.loads),
                    "busiest": outcome.busiest,
                    "replicas": outcome.replicas,
                    "replicas_per_key": outcome.replicas / self.keys,
                }
                for outcome in self.outcomes
            },
            "hottest": [
                {
                    "key": hot.value,
                    "rows": hot.rows,
                    "share": hot.rows / self.rows,
                    "workers": hot.workers,
                }
                for hot in self.hottest
            ],
            "plan": None
            if self.plan is None
            else {"buckets": int(self.plan.buckets.size), "hot_keys": len(self.plan.head)},
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
        }


def in_words(scheme: str) -> str:
    """Return the name of a scheme in words."""
    return _IN_WORDS.get(scheme, scheme)


def check_scheme(scheme: str, workers: int, options: Mapping[str, Any]) -> tuple[str, float]:
    """Return the name of a scheme for bounded rows and the share from which a key is hot; refuse wrong options."""
    routing = Routing.of(workers, scheme, PLANNED, **keywords(scheme, options))
    return routing.scheme, routing.threshold


def keywords(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `spread` for options by name; a seed that the scheme does not use is left out."""
    of_sender = {name: value for name, value in options.items() if name in Settings.__dataclass_fields__}
    others = {name: value for name, value in options.items() if name not in of_sender}
    described = resolve(scheme)
    if described.is_online:
        described.require({name: value for name, value in of_sender.items() if name != "seed"})
    if described.is_online or of_sender.keys() - {"seed"}:
        others["sender"] = Settings(**of_sender)
    return others


def run_job(
    source: Source,
    workers: int = 16,
    scheme: str = PLANNED,
    *,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> JobResult:
    """Route a source by a scheme, count the rows of each key on each worker, and merge the counts.

    The merged counts equal those of `groupBy(key).count()`, whatever the scheme. `options` are those of the scheme and
    `seed`. `progress` is called with the name of each step. Nothing is written.

    >>> from keyspread.run.sources import made_source
    >>> from keyspread.spark import session
    >>> from keyspread.streams import ZipfStream
    >>> result = run_job(made_source(session(), ZipfStream(1.4, keys=100, messages=2000)), workers=4)
    >>> result.rows, result.outcomes[0].busiest < 1.1 < result.outcomes[1].busiest
    (2000, True)
    """
    name, threshold = check_scheme(scheme, workers, options)
    clock, plan = _Clock(progress), None
    with ExitStack() as kept:  # unpersisted here if a step fails, otherwise by `release`
        rows = source.rows.select(*_needed_columns(source))
        if source.keep:
            rows = _keep(rows, kept)
        if resolve(name).kind is Kind.PLANNED:
            with clock.step("counting keys"):
                plan = plan_rows(rows, source.key, workers, threshold=threshold)
        how = {"plan": plan} if plan is not None else keywords(name, options)
        watch = Watch(hottest=0)
        with clock.step("routing and merging"):
            counts, width = count_column(rows), len(source.key)
            merged = _keep(aggregate(rows, source.key, Count(counts), workers, name, watch=watch, **how), kept)
            hashed = merged.withColumn(_HASH, key_hash(merged, merged.columns[:width]))
            first = hashed.orderBy(F.desc(counts), _HASH).limit(max(TOP, int(1 / threshold) + 1)).collect()
            keys, total = merged.agg(F.count("*"), F.coalesce(F.sum(counts), F.lit(0))).collect()[0]
        check_rows(source, total)
        hot = [row for row in first if row[counts] >= threshold * total]
        with clock.step("comparing schemes"):
            outcomes, workers_of = compare_schemes(
                rows,
                source.key,
                [Routing.of(workers, name, PLANNED, **how), *_others(name, workers, options)],
                hot=[row[_HASH] for row in hot],
                shown=[row[_HASH] for row in first[:TOP]],
            )
        if int(watch.balance.loads.sum()) == total:  # else a task ran twice, and was counted twice
            loads = watch.balance.loads
            outcomes[0] = replace(outcomes[0], loads=loads, hot_loads=np.minimum(outcomes[0].hot_loads, loads))
        return JobResult(
            source=source,
            scheme=name,
            workers=workers,
            threshold=threshold,
            rows=int(total),
            keys=int(keys),
            hot_keys=len(hot),
            choices=choices_of(name, workers, [row[counts] / total for row in hot], options),
            outcomes=tuple(outcomes),
            hottest=tuple(
                HotKey(dict(zip(merged.columns[:width], row, strict=False)), int(row[counts]), workers_of[row[_HASH]])
                for row in first[:TOP]
            ),
            plan=plan,
            seconds=clock.seconds,
            merged=merged,
            _kept=kept.pop_all(),
        )


def choices_of(scheme: str, workers: int, shares: Sequence[float], options: Mapping[str, Any]) -> int | None:
    """Return the d that D-Choices takes for hot keys with these shares (Prop. 4.1); None for other schemes.

    >>> choices_of("d-choices", 50, [0.3, 0.1], {}), choices_of("key", 50, [0.3], {})
    (27, None)
    """
    if scheme != "d-choices":
        return None
    return find_choices(list(shares), workers, **{name: options[name] for name in ("tolerance",) if name in options})


def _others(scheme: str, workers: int, options: Mapping[str, Any]) -> list[Routing]:
    """Return the schemes to compare with, with the same seed."""
    sender = Settings(seed=options.get("seed", 0))
    return [Routing.of(workers, other, other, sender=sender) for other in COMPARED if other != scheme]


def compare_schemes(
    rows: DataFrame, key: Sequence[str], routings: Sequence[Routing], *, hot: Sequence[int], shown: Sequence[int]
) -> tuple[list[Outcome], dict[int, int]]:
    """Route the rows by several schemes and count; no rows are moved.

    Returns their outcomes, and how many workers each of the `shown` keys has under the first.
    """
    workers, schemes = routings[0].workers, [routing.scheme for routing in routings]
    columns: list[KeyColumn] = list(key_columns(rows, key))
    routed, places = rows, dict[str, str]()
    for routing in routings:
        if routing.scheme != "key":
            routed, places[routing.scheme] = with_worker(routed, columns, routing)
    counted = (
        routed.select(key_hash(rows, columns).alias("hash"), *places.values())
        .groupBy("hash", *places.values())
        .agg(F.count("*").alias("rows"))
    )
    # This scheme has one worker per key, so it routes one row per group instead of every row.
    by_key = next(routing for routing in routings if routing.scheme == "key")
    counted = counted.withColumn("keyspread_key", python_worker(F.col("hash"), by_key, None, None))
    places["key"] = "keyspread_key"
    each = F.array(
        *(F.struct(F.lit(i).alias("scheme"), F.col(places[name]).alias("worker")) for i, name in enumerate(schemes))
    )
    pairs = (
        counted.select("hash", "rows", F.inline(each))
        .groupBy("scheme", "worker", "hash")
        .agg(F.sum("rows").alias("rows"))
    )
    is_shown = (F.col("scheme") == 0) & F.col("hash").isin(list(shown))
    per_worker = (
        pairs.groupBy("scheme", "worker")
        .agg(
            F.sum("rows").alias("rows"),
            F.sum(F.when(F.col("hash").isin(list(hot)), F.col("rows")).otherwise(0)).alias("hot"),
            F.count("*").alias("replicas"),
            F.collect_list(F.when(is_shown, F.col("hash"))).alias("shown"),
        )
        .collect()
    )
    loads = np.zeros((3, len(schemes), workers), np.int64)
    workers_of = dict.fromkeys(shown, 0)
    for row in per_worker:
        loads[:, row["scheme"], row["worker"]] = row["rows"], row["hot"], row["replicas"]
        for key_shown in row["shown"]:
            workers_of[key_shown] += 1
    return [
        Outcome(name, loads[0, i], loads[1, i], int(loads[2, i].sum())) for i, name in enumerate(schemes)
    ], workers_of


def check_rows(source: Source, total: int) -> None:
    """Refuse a source without rows."""
    if not total:
        raise InputError(f"{source.title}: no rows")


def _needed_columns(source: Source) -> list[Any]:
    """Return the columns of the key, so that no others are read."""
    roots = {name if name in source.rows.columns else name.partition(".")[0].strip("`") for name in source.key}
    needed = {root.lower() for root in roots}
    return [F.col(quoted(name)) for name in source.rows.columns if name.lower() in needed]


def count_column(rows: DataFrame) -> str:
    """Return a name for the column of counts that no column of the rows has: count, or count_."""
    taken, name = {column.lower() for column in rows.columns}, "count"
    while name in taken:
        name += "_"
    return name


def _keep(rows: DataFrame, kept: ExitStack) -> DataFrame:
    rows = rows.persist()
    kept.callback(rows.unpersist)
    return rows


class _Clock:
    """Report which step begins, and measure how long each takes."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._report = progress or (lambda step: None)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._report(name)
        begun = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begun
