"""`start_stream`: the pipeline on a stream: every micro-batch is routed by the scheme, counted by key and merged.

A batch is finished completely, or done again by the next start: the counts of each batch are in a folder of their own,
which Spark replaces as a whole.
"""

import json
import posixpath
import threading
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from keyspread import checks
from keyspread.errors import InputError
from keyspread.job.batch_job import only_threshold
from keyspread.job.sources import Source, format_of, is_address, local_path
from keyspread.online.settings import Settings
from keyspread.schemes import LOOK_AHEAD, Kind, online_scheme, resolve
from keyspread.spark.routing.keys import column, free_name
from keyspread.spark.spread import spread
from keyspread.spark.streaming.storage import Folder
from keyspread.spark.streaming.stream_watch import StreamWatch

TRIGGER = "1 second"
_SETTINGS = "settings.json"


def check_stream_scheme(scheme: str | None, workers: int, options: Mapping[str, Any]) -> tuple[str, float]:
    """Return the name of a scheme for a stream and the share from which a key is hot; refuse others, without Spark."""
    workers = checks.whole_number("workers", workers)
    descriptor = resolve(LOOK_AHEAD if scheme is None else scheme)
    if descriptor.kind is Kind.PLANNED:
        raise InputError(
            f"scheme planned needs all rows before it routes the first: use {LOOK_AHEAD} or d-choices on a stream"
        )
    if descriptor.kind is Kind.LOOK_AHEAD:
        return descriptor.name, only_threshold(descriptor.name, workers, options)
    rule = online_scheme(descriptor.name)
    return descriptor.name, Settings.of(rule, workers, **descriptor.accept(options, also=("seed",))).threshold


def check_same_run(checkpoint: str, settings: Mapping[str, Any]) -> None:
    """Store the settings that identify the stream in the checkpoint; refuse a checkpoint with others.

    A run that resumes must read the same stream, because Spark's offsets mean nothing in another one.
    """
    folder, now = Folder(checkpoint), json.loads(json.dumps(settings))
    try:
        before = json.loads(folder.read("keyspread", _SETTINGS)) if folder.has("keyspread", _SETTINGS) else None
        if before is None and folder.has("offsets"):
            raise InputError(f"--checkpoint {checkpoint} belongs to a query of another program: choose another folder")
        for name in sorted({*before, *now}) if before is not None and folder.has("offsets") else ():
            if before.get(name) != now.get(name):
                was, given = (json.dumps(found.get(name), ensure_ascii=False) for found in (before, now))
                raise InputError(
                    f"--checkpoint {checkpoint} belongs to another run ({name} was {was}, got {given}): "
                    "use that, or another folder"
                )
        folder.write(json.dumps(now).encode(), "keyspread", _SETTINGS)
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"--checkpoint {checkpoint} cannot be used ({problem}): use a folder on this machine, or an address that "
            "pyarrow knows (s3a://, gs://, hdfs://)"
        ) from None


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
    batches: int | None = None,
    out: str | None = None,
    **options: Any,
) -> RunningStream:
    """Start to route and count a stream: one micro-batch per second, at most `batches` of them.

    With `out`, the counts of each batch are written there, into a folder of their own. `options` are those of the
    scheme.
    """
    routed = spread(source.rows, source.key, workers, scheme, watch=watch, **options)
    sink = _Sink(source, out, batches)
    writer = routed.writeStream.foreachBatch(sink).option(
        "checkpointLocation", checkpoint if is_address(checkpoint) else f"file://{local_path(checkpoint)}"
    )
    return RunningStream(writer.trigger(processingTime=TRIGGER).start(), sink)


class _Refused(Exception):  # noqa: N818  (not an error: it keeps a batch from starting)
    """The query is to end: the next run does this batch."""


class _Sink:
    """Counts and writes every micro-batch; once `stopping` is set, no further batch starts."""

    def __init__(self, source: Source, out: str | None, most: int | None) -> None:
        self._key, self._out, self._most = source.key, out, most
        self._count = free_name(source.rows, "count")
        self.stopping = threading.Event()
        self.refused = False
        self.batches, self.rows = 0, 0

    @property
    def full(self) -> bool:
        return self._most is not None and self.batches >= self._most

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self.full or self.stopping.is_set():
            self.refused = True
            raise _Refused
        # In the stage that reads the exchange, partition w is worker w: there Spark counts the worker's rows of a key.
        # It merges these counts in the next stage.
        key = [column(batch, name) for name in self._key]
        counted = batch.groupBy(*key).agg(F.count(F.lit(1)).alias(self._count))
        if self._out is not None:
            counted = counted.persist()  # read twice, computed once
        try:
            rows = int(counted.agg(F.coalesce(F.sum(self._count), F.lit(0))).collect()[0][0])
            if self._out is not None and rows:
                # Spark reads a folder batch=7 as a value of the column batch. A batch that is retried replaces its own.
                folder = posixpath.join(self._out, f"batch={number}")
                counted.write.format(format_of(self._out) or "parquet").mode("overwrite").save(folder)
        finally:
            if self._out is not None:
                counted.unpersist()
        self.rows += rows
        self.batches += 1
