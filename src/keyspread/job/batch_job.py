"""`run_job`: rows → senders → workers → partial states → merge → result, and a comparison with other schemes.

`keyspread run --scheme` only reads options and shows the result of `run_job`. The job reads the rows once to plan
(twice if a key is hot), once to route and merge, and once to compare.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.job.scheme_comparison import Outcome, compare_schemes
from keyspread.job.sources import Malformed, Source
from keyspread.online.settings import SenderSettings, Settings
from keyspread.planned.plan import Plan
from keyspread.schemes import PLANNED, Kind, online_scheme, resolve
from keyspread.spark.capabilities import quiet_analysis
from keyspread.spark.failures import why
from keyspread.spark.plan import plan as plan_rows
from keyspread.spark.routing.keys import column, key_hash, quoted
from keyspread.spark.routing.options import Routing, has_use
from keyspread.spark.spread import spread
from keyspread.spark.watch import Watch
from keyspread.threshold import checked_threshold

_ROWS = "keyspread_rows"  # the column with the number of rows per key in the merged result
_HASH = "keyspread_hash"
_FOR_PLANNED = {"previous", "sample", "buckets"}


@dataclass(frozen=True)
class HotKey:
    """One of the hottest keys: its columns, its merged values, its rows, and the number of workers that got them."""

    key: dict[str, Any]
    values: dict[str, Any]
    rows: int
    workers: int | None
    """None if the schemes were not compared."""


@dataclass(frozen=True)
class JobResult:
    """The result of `run_job`. `merged` has one row per key and stays persisted in Spark until `release`."""

    source: Source
    scheme: str
    workers: int
    threshold: float
    aggregates: dict[str, str]
    rows: int
    keys: int
    hot_keys: int
    outcomes: tuple[Outcome, ...]
    """The chosen scheme comes first."""
    hottest: tuple[HotKey, ...]
    plan: Plan | None
    malformed: Malformed
    seconds: dict[str, float]
    merged: DataFrame = field(repr=False)
    _kept: ExitStack = field(default_factory=ExitStack, repr=False)

    def release(self) -> None:
        """Unpersist all DataFrames of this job."""
        self._kept.close()

    def to_dict(self) -> dict[str, Any]:
        """Return all but the merged rows as plain values for JSON (use `default=str` for types such as dates)."""
        return {
            **self.source.facts,
            "key": list(self.source.key),
            "scheme": self.scheme,
            "workers": self.workers,
            "threshold": self.threshold,
            "aggregates": self.aggregates,
            "rows": self.rows,
            "keys": self.keys,
            "hot_keys": self.hot_keys,
            "malformed": self.malformed.count,
            "schemes": {
                one.scheme: {
                    "loads": one.loads.tolist(),
                    "head_load": None if one.head_loads is None else one.head_loads.tolist(),
                    "imbalance": one.imbalance,
                    "skew_score": metrics.skew_score(one.loads),
                    "busiest": one.busiest,
                    "replicas": one.replicas,
                    "replicas_per_key": None if one.replicas is None else one.replicas / self.keys,
                }
                for one in self.outcomes
            },
            "hottest": [
                {
                    "key": next(iter(hot.key.values())) if len(hot.key) == 1 else hot.key,
                    "rows": hot.rows,
                    "share": hot.rows / self.rows,
                    "workers": hot.workers,
                    **{name: finite(value) for name, value in hot.values.items()},
                }
                for hot in self.hottest
            ],
            "plan": None if self.plan is None else _of_plan(self.plan),
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
        }


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _of_plan(plan: Plan) -> dict[str, Any]:
    return {
        "buckets": int(plan.buckets.size),
        "hot_keys": len(plan.head),
        "imbalance": plan.imbalance,
        "moved": plan.moved,
    }


def run_job(
    source: Source,
    workers: int = 16,
    scheme: str = PLANNED,
    *,
    aggregates: Mapping[str, str] | None = None,
    top: int = 10,
    seed: int = 0,
    plan: Plan | None = None,
    strict: bool = False,
    compare: bool = True,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> JobResult:
    """Spread and aggregate a source; the merged result equals plain `groupBy(key).agg(…)`, whatever the scheme.

    `aggregates` are those of `keyspread.spark.aggregate`, a count by default. `options` are those of the scheme, for
    "planned" those of `keyspread.spark.plan`; with `plan`, rows are routed by it without counting first. With `strict`,
    malformed lines are an error. Without `compare` the rows are not routed again: the only outcome is that of the
    chosen scheme, and it has loads only. `progress` is called with the name of each step. Nothing is written.

    >>> from keyspread.spark import session
    >>> from keyspread.job.sources import zipf_source
    >>> result = run_job(zipf_source(session(), skew=1.4, keys=100, messages=2000), workers=4)
    >>> result.rows, result.outcomes[0].busiest < 1.1 < result.outcomes[1].busiest
    (2000, True)
    """
    workers = checks.whole_number("workers", workers)
    top = checks.whole_number("top", top, minimum=0)
    name, threshold = check_options(scheme, workers, plan, options)
    is_planned = resolve(name).kind is Kind.PLANNED
    wanted = wanted_aggregates(source, aggregates)
    columns = result_schema(source, wanted).names
    clock = _Clock(progress)
    with ExitStack() as kept:  # unpersisted here if a step fails, otherwise by `release`
        rows = source.rows.select(*needed_columns(source, wanted))
        if source.keep:
            rows = _keep(rows, kept)
        if is_planned and plan is None:
            with clock.step("counting keys"):
                plan = plan_rows(rows, source.key, workers, seed=seed, **options)
                if strict:  # fail before the expensive steps
                    check_rows(source, 1, source.malformed(), strict)
        how = routing_of(name, workers, plan, seed, options)
        watch = Watch(hottest=0)
        with clock.step("routing and merging"):
            moved = spread(rows, source.key, workers, name, watch=watch, **keywords(how))
            merged = _keep(_merged(moved, source.key, {**wanted, _ROWS: "count(*)"}), kept)
            hottest = _hottest(merged, source.key, max(top, int(1 / threshold) + 1))
            keys, total = merged.agg(F.count("*"), F.coalesce(F.sum(_ROWS), F.lit(0))).collect()[0]
        malformed = source.malformed()
        check_rows(source, total, malformed, strict)
        hot = [row[_HASH] for row in hottest if row[_ROWS] >= threshold * total]
        shown = hottest[:top]
        loads = watch.balance.loads
        outcomes, workers_of = [Outcome(name, loads)], dict[int, int]()
        if compare:
            with clock.step("comparing schemes"):
                outcomes, workers_of = compare_schemes(
                    rows, source.key, workers, name, seed, how, hot, [row[_HASH] for row in shown]
                )
            of_hot_keys = outcomes[0].head_loads
            if of_hot_keys is not None and int(loads.sum()) == total:  # else a task ran twice, and was counted twice
                outcomes[0] = replace(outcomes[0], loads=loads, head_loads=np.minimum(of_hot_keys, loads))
        return JobResult(
            source=source,
            scheme=name,
            workers=workers,
            threshold=threshold,
            aggregates=wanted,
            rows=int(total),
            keys=int(keys),
            hot_keys=len(hot),
            outcomes=tuple(outcomes),
            hottest=tuple(_hot_key(row, columns, len(source.key), workers_of) for row in shown),
            plan=plan,
            malformed=malformed,
            seconds=clock.seconds,
            merged=merged.drop(_ROWS),
            _kept=kept.pop_all(),
        )


def _keep(rows: DataFrame, kept: ExitStack) -> DataFrame:
    rows = rows.persist()
    kept.callback(rows.unpersist)
    return rows


def result_schema(source: Source, aggregates: Mapping[str, str] | None = None) -> StructType:
    """Return the columns of the merged result without running a job, to find a misspelt column early."""
    try:
        with quiet_analysis():
            return _merged(source.rows, source.key, wanted_aggregates(source, aggregates)).schema
    except PySparkException as problem:
        raise InputError(f"the aggregates are refused by Spark: {why(str(problem))}") from None


def _merged(rows: DataFrame, key: Sequence[str], aggregates: Mapping[str, str]) -> DataFrame:
    """Return the aggregates by key; behind `spread`, Spark computes partial states on the workers and merges them."""
    calls = [F.expr(call).alias(name) for name, call in aggregates.items()]
    return rows.groupBy(*(column(rows, name) for name in key)).agg(*calls)


def routing_of(scheme: str, workers: int, plan: Plan | None, seed: int, options: Mapping[str, Any]) -> Routing:
    """Return the routing that these options describe; those that the scheme does not use are left out."""
    found = resolve(scheme)
    if plan is not None or found.kind is Kind.PLANNED:
        return Routing.of(workers, scheme, PLANNED, plan=plan)
    of_sender = {name: value for name, value in options.items() if name in Settings.__dataclass_fields__}
    sized = {"tolerance": options.get("tolerance")} if has_use("tolerance", found) else {}
    hot = {"threshold": options.get("threshold")} if has_use("threshold", found) else {}
    sender = Settings(**{"seed": seed, **of_sender}) if found.is_online else None
    return Routing.of(workers, scheme, PLANNED, sender=sender, **hot, **sized)


def keywords(routing: Routing) -> dict[str, Any]:
    """Return the keywords of `spread` for a routing of `routing_of`."""
    found, online = resolve(routing.scheme), resolve(routing.scheme).is_online
    sized = {"tolerance": routing.tolerance} if has_use("tolerance", found) else {}
    hot = {"threshold": routing.threshold} if routing.plan is None and has_use("threshold", found) else {}
    return {"plan": routing.plan, "sender": routing.sender if online else None, **sized, **hot}


def wanted_aggregates(source: Source, aggregates: Mapping[str, str] | None) -> dict[str, str]:
    """Return the given aggregates, or a count by default; refuse two columns of the same name in the result."""
    wanted = dict(aggregates or {_free("count", source.key): "count(*)"})
    taken = {column.lower() for column in source.key}
    for name in wanted:
        if name.lower() in taken:
            raise InputError(f"the result would have two columns {name!r}: give the aggregate another name")
        taken.add(name.lower())
    return wanted


class _Clock:
    """Report which step begins, and measure how long each takes."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._report = progress or (lambda step: None)

    @contextmanager
    def step(self, name: str) -> Any:
        self._report(name)
        begun = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begun


def check_options(scheme: str, workers: int, plan: Plan | None, options: Mapping[str, Any]) -> tuple[str, float]:
    """Return the name of the scheme and the share from which a key is hot; refuse options that conflict."""
    workers = checks.whole_number("workers", workers)
    found = resolve(scheme)
    if found.kind is Kind.PLANNED:
        if plan is not None and plan.workers != workers:
            raise InputError(
                f"the plan is for {plan.workers} workers, got {workers} workers: make a new plan, or use {plan.workers}"
            )
        if plan is not None and options:
            raise InputError(f"a plan is given, so {min(options)!r} has no effect: leave one of them out")
        for wrong in sorted(options.keys() - _FOR_PLANNED - {"threshold"}):
            raise InputError(f"{wrong!r} is for schemes such as d-choices; planned takes threshold, sample, previous")
        return found.name, checked_threshold(options.get("threshold"), workers)
    rule = online_scheme(scheme)
    for wrong in (*(["plan"] if plan is not None else []), *sorted(_FOR_PLANNED & options.keys())):
        raise InputError(f"{wrong!r} is for scheme planned only, got scheme {found.name}")
    return found.name, SenderSettings.of(rule, workers, **found.accept(options, also=("seed",))).threshold


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in (one.lower() for one in taken) else _free(f"{name}_", taken)


def needed_columns(source: Source, aggregates: Mapping[str, str]) -> list[Any]:
    """Return the columns of the key and all that an aggregate may name, so that no others are read."""
    text = " ".join([*aggregates.keys(), *aggregates.values()]).lower()
    roots = {name if name in source.rows.columns else name.partition(".")[0] for name in source.key}
    wanted = {root.lower() for root in roots}
    return [F.col(quoted(one)) for one in source.rows.columns if one.lower() in wanted or one.lower() in text]


def check_rows(source: Source, total: int, malformed: Malformed, strict: bool) -> None:
    """Refuse a source without rows, and with `strict` one with malformed lines."""
    if strict and malformed.count:
        raise InputError(f"{source.title}: {malformed}: fix the file, or read without strict to skip them")
    if not total:
        reason = f" but {malformed}" if malformed.count else ""
        raise InputError(f"{source.title}: no rows{reason}")


def _hottest(merged: DataFrame, key: str | Sequence[str], many: int) -> list[Any]:
    hashed = merged.withColumn(_HASH, key_hash(merged, _result_key(merged, key)))
    return hashed.orderBy(F.desc(_ROWS), _HASH).limit(many).collect()


def _result_key(merged: DataFrame, key: str | Sequence[str]) -> list[str]:
    """Return the names of the key's columns in the result: its first columns; a field of a struct has its last name."""
    return merged.columns[: 1 if isinstance(key, str) else len(key)]


def _hot_key(row: Any, columns: Sequence[str], width: int, workers_of: Mapping[int, int]) -> HotKey:
    values = list(row)
    return HotKey(
        key=dict(zip(columns[:width], values, strict=False)),
        values=dict(zip(columns[width:], values[width : len(columns)], strict=True)),
        rows=int(row[_ROWS]),
        workers=workers_of.get(row[_HASH]),
    )
