"""`start_stream`: the job on a stream, which spreads and aggregates every micro-batch.

It returns a `RunningStream`, which reports progress and ends the query. A batch is finished completely, or done again
by the next start: the results of each batch are in their own folder, which is replaced as a whole.
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
from keyspread.job.addresses import for_spark, is_address, local_path
from keyspread.job.batch_job import keywords, routing_of, wanted_aggregates
from keyspread.job.run_record import RunRecord
from keyspread.job.sources import Source
from keyspread.online.settings import SenderSettings
from keyspread.schemes import LOOK_AHEAD, Kind, online_scheme, resolve
from keyspread.spark.routing.keys import column, free_name
from keyspread.spark.spread import spread
from keyspread.spark.streaming.stream_watch import StreamWatch
from keyspread.threshold import checked_threshold

_BATCH = "batch="  # Spark reads a folder batch=7 as a value of the column batch


@dataclass(frozen=True)
class Results:
    """The folder of the results, which has one folder per batch, and their format."""

    path: str
    format: str


def find_results(path: str, format: str | None, resumes: bool) -> Results:
    """Check without Spark that batches can be written to a path: a new or empty folder, or that of a resumed run.

    An address (s3a://…, hdfs:/…) is not checked here.
    """
    format = sinks.result_format(path, format)
    if is_address(path):
        return Results(path, format)
    folder = local_path(path)
    if not os.path.lexists(folder):
        sinks.check_new(folder, overwrite=False)
        return Results(folder, format)
    if not os.path.isdir(folder):
        raise InputError(f"{path} is a file, but results are a folder: choose another name")
    held = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    foreign = [name for name in held if not name.startswith(_BATCH)]
    if foreign:
        raise InputError(f"{path} holds {foreign[0]!r}, which is not a batch: choose another folder")
    if held and not resumes:
        raise InputError(f"{path} holds batches of another run: choose another folder, or resume with its --checkpoint")
    return Results(folder, format)


def check_stream_options(scheme: str | None, workers: int, options: Mapping[str, Any]) -> str:
    """Return the name of the scheme; refuse, without Spark, schemes and options that do not work on a stream."""
    workers = checks.whole_number("workers", workers)
    found = resolve(LOOK_AHEAD if scheme is None else scheme)
    if found.kind is Kind.LOOK_AHEAD:
        for name in options.keys() - {"threshold"}:
            raise InputError(f"{name!r} is for schemes such as d-choices; look-ahead takes threshold")
        checked_threshold(options.get("threshold"), workers)
        return found.name
    if found.kind is Kind.PLANNED:
        raise InputError(
            f"scheme planned needs all rows before it routes the first: use {LOOK_AHEAD} or d-choices on a stream"
        )
    SenderSettings.of(online_scheme(found.name), workers, **found.accept(options, also=("seed",)))
    return found.name


@dataclass(frozen=True)
class Computed:
    """What a query computes: a stream, its output mode, and a function that merges a micro-batch."""

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
    """Define what the query computes per batch and key: the aggregates, and the number of rows in the column `rows`.

    In the stage that reads the spread, partition w is worker w: there Spark computes the partial states. It merges them
    by key in the next stage.
    """
    how = routing_of(scheme, workers, None, 0, options)
    threshold = options.get("threshold")  # the watch uses it with any scheme
    keys = source.key
    spread_rows = spread(source.rows, keys, workers, scheme, watch=watch, **{**keywords(how), "threshold": threshold})

    def merged(batch: DataFrame) -> DataFrame:
        calls = [F.expr(call).alias(name) for name, call in aggregates.items()]
        return batch.groupBy(*(column(batch, name) for name in source.key)).agg(*calls, F.count("*").alias(rows))

    return Computed(spread_rows, "append", merged)


class RunningStream:
    """A running query: `stop` ends it between two batches; `batches` and `rows` are its progress."""

    def __init__(self, query: StreamingQuery, sink: "_Sink") -> None:
        self.query = query
        self._sink = sink

    @property
    def batches(self) -> int:
        """The number of batches of this run."""
        return self._sink.batches

    @property
    def rows(self) -> int:
        """The rows of these batches."""
        return self._sink.rows

    @property
    def rows_so_far(self) -> int:
        """The rows of all batches, including those of earlier runs."""
        return self._sink.rows_so_far

    def continues(self) -> bool:
        """Return whether more batches will come; raise the error of a query that failed."""
        if self.query.isActive:
            return not self._sink.full
        self._raise()
        return False

    def stop(self) -> None:
        """End the query after the current batch, and return when it has ended."""
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
    """Start to spread and aggregate a stream: one micro-batch every `trigger` seconds, at most `batches` of them."""
    wanted = wanted_aggregates(source, aggregates)
    rows = free_name(source.rows, "rows")
    what = computed(source, wanted, rows, workers, scheme, watch, options)
    watch.malformed_in(source.observed)
    sink = _Sink(what.merged, rows, results, RunRecord(checkpoint), batches)
    writer = what.stream.writeStream.foreachBatch(sink).outputMode(what.mode)
    writer = writer.option("checkpointLocation", for_spark(checkpoint))
    return RunningStream(writer.trigger(processingTime=f"{round(trigger * 1000)} milliseconds").start(), sink)


class _Refused(Exception):  # noqa: N818  (not an error: it keeps a batch from starting)
    """The query is to end: the next run does this batch."""


class _Sink:
    """Merges and writes every micro-batch; once `stopping` is set, no further batch starts."""

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
                folder = posixpath.join(for_spark(self._results.path), f"{_BATCH}{number}")
                sinks.save(found.drop(self._rows), folder, self._results.format, "overwrite")
        finally:
            if self._results is not None:
                found.unpersist()
        self.rows_so_far = self._record.add(number, rows)
        self.rows += rows
        self.batches += 1
