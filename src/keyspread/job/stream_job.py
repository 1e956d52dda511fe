"""The main job on a stream: rows → senders → workers → partial states → merge, for every micro-batch.

`start_stream` starts the query, and what it gives back watches and ends it. A batch is done completely or, if the query
ends first, again by the next start: the results of a batch lie in a folder of its own, which is written as a whole.
"""

import os
import posixpath
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from keyspread import checks
from keyspread.errors import InputError
from keyspread.job import sinks
from keyspread.job.batch_job import wanted_aggregates
from keyspread.job.run_record import RunRecord
from keyspread.job.sources import Source
from keyspread.online.settings import Settings
from keyspread.schemes import LOOK_AHEAD, Kind, online_scheme, resolve
from keyspread.spark.routing.keys import column, free_name
from keyspread.spark.spread import spread
from keyspread.spark.streaming.stream_watch import StreamWatch
from keyspread.threshold import checked_threshold

_BATCH = "batch="  # Spark reads a folder batch=7 of results as a column batch


@dataclass(frozen=True)
class Results:
    """Where results go: a folder with a folder for every batch, and their format."""

    path: str
    format: str


def find_results(path: str, format: str | None, goes_on: bool) -> Results:
    """Look, without Spark, whether batches can be written there: a new or empty folder, or that of a run that goes on.

    A path with a scheme (s3a://…, hdfs://…) is left to Spark.
    """
    format = sinks.result_format(path, format)
    if "://" in path and not path.startswith("file:///"):
        return Results(path, format)
    folder = os.path.abspath(path.removeprefix("file://") if path.startswith("file:///") else path)
    if not os.path.lexists(folder):
        sinks.check_new(folder, overwrite=False)
        return Results(folder, format)
    if not os.path.isdir(folder):
        raise InputError(f"{path} is a file, and results are a folder: choose another name")
    held = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    foreign = [name for name in held if not name.startswith(_BATCH)]
    if foreign:
        raise InputError(f"{path} holds {foreign[0]!r}, which is no batch: choose another folder")
    if held and not goes_on:
        raise InputError(f"{path} holds batches of another run: choose another folder, or go on with its --checkpoint")
    return Results(folder, format)


def check_stream_options(scheme: str | None, workers: int, options: Mapping[str, Any]) -> str:
    """Give the scheme's name; refuse, without Spark, what a stream cannot be dealt by."""
    workers = checks.whole_number("workers", workers)
    found = resolve(LOOK_AHEAD if scheme is None else scheme)
    if found.kind is Kind.LOOK_AHEAD:
        for name in options.keys() - {"threshold"}:
            raise InputError(f"{name!r} is for schemes such as d-choices; look-ahead takes threshold")
        checked_threshold(options.get("threshold"), workers)
        return found.name
    if found.kind is Kind.PLANNED:
        raise InputError(
            f"scheme planned needs all rows before it deals one: a stream takes {LOOK_AHEAD}, or d-choices, …"
        )
    Settings.of(online_scheme(found.name), workers, **found.accept(options, also=("seed",)))
    return found.name


@dataclass(frozen=True)
class Computed:
    """What a query computes: a stream, its output mode, and what becomes of a micro-batch of it."""

    stream: DataFrame
    mode: str
    merged: Callable[[DataFrame], DataFrame]


def computed(
    source: Source,
    aggregates: Mapping[str, str],
    rows: str,
    workers: int,
    scheme: str,
    watch: StreamWatch,
    options: Mapping[str, Any],
) -> Computed:
    """Decide what the query computes: for every batch and key the aggregates, and in the column `rows` its rows.

    Partition = worker in the stage that reads the spread: there Spark computes the partial states, and merges them by
    key behind it.
    """
    dealt = spread(source.rows, source.key, workers, scheme, watch=watch, **options)

    def merged(batch: DataFrame) -> DataFrame:
        calls = [F.expr(call).alias(name) for name, call in aggregates.items()]
        return batch.groupBy(*(column(batch, name) for name in source.key)).agg(*calls, F.count("*").alias(rows))

    return Computed(dealt, "append", merged)


class RunningStream:
    """A query that runs: `stop` ends it between two batches, `batches` and `rows` say how far it came."""

    def __init__(self, query: StreamingQuery, sink: "_Sink") -> None:
        self.query = query
        self._sink = sink

    @property
    def batches(self) -> int:
        """Batches done in this run."""
        return self._sink.batches

    @property
    def rows(self) -> int:
        """Rows of these batches."""
        return self._sink.rows

    @property
    def rows_so_far(self) -> int:
        """Rows of all batches, those of the runs before this one included."""
        return self._sink.rows_so_far

    def goes_on(self) -> bool:
        """Whether there is more to come; raises what the query failed with."""
        if self.query.isActive:
            return not self._sink.full
        self._raise()
        return False

    def stop(self) -> None:
        """End after the batch that is under way, and return when it has ended."""
        self._sink.stopping.set()
        while self.query.isActive and self.query.status["isTriggerActive"]:
            time.sleep(0.05)
        self.query.stop()
        self._raise()

    def _raise(self) -> None:
        problem = self.query.exception()
        if problem is not None and not self._sink.refused:
            raise problem


def start_stream(
    source: Source,
    workers: int,
    scheme: str,
    *,
    checkpoint: str,
    watch: StreamWatch,
    trigger: float = 1.0,
    batches: int | None = None,
    aggregates: Mapping[str, str] | None = None,
    results: Results | None = None,
    **options: Any,
) -> RunningStream:
    """Start to spread and aggregate a stream, a micro-batch every `trigger` seconds, `batches` of them at most."""
    wanted = wanted_aggregates(source, aggregates)
    rows = free_name(source.rows, "rows")
    what = computed(source, wanted, rows, workers, scheme, watch, options)
    watch.malformed_in(source.observed)
    sink = _Sink(what.merged, rows, results, RunRecord(checkpoint), batches)
    writer = what.stream.writeStream.foreachBatch(sink).outputMode(what.mode)
    writer = writer.option("checkpointLocation", checkpoint)
    return RunningStream(writer.trigger(processingTime=f"{round(trigger * 1000)} milliseconds").start(), sink)


class _Refused(Exception):  # noqa: N818  (no error: how a batch that must not begin is sent back)
    """The query shall end: this batch is left to the next run."""


class _Sink:
    """What becomes of every micro-batch; once `stopping`, no other batch begins."""

    def __init__(
        self,
        merged: Callable[[DataFrame], DataFrame],
        rows: str,
        results: Results | None,
        record: RunRecord,
        most: int | None,
    ) -> None:
        self._merged, self._rows, self._results, self._record, self._most = merged, rows, results, record, most
        self.stopping = threading.Event()
        self.refused = False
        self.batches, self.rows, self.rows_so_far = 0, 0, record.rows_so_far()

    @property
    def full(self) -> bool:
        return self._most is not None and self.batches >= self._most

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self.full or self.stopping.is_set():
            self.refused = True
            raise _Refused
        found = self._merged(batch)
        if self._results is not None:
            found = found.persist()  # read twice, computed once
        try:
            rows = int(found.agg(F.coalesce(F.sum(self._rows), F.lit(0))).collect()[0][0])
            if self._results is not None and rows:
                folder = posixpath.join(self._results.path, f"{_BATCH}{number}")
                sinks.save(found.drop(self._rows), folder, self._results.format, "overwrite")
        finally:
            if self._results is not None:
                found.unpersist()
        self.rows_so_far = self._record.add(number, rows)
        self.rows += rows
        self.batches += 1
