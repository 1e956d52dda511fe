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

from keyspread.errors import InputError
from keyspread.run.pipeline import check_scheme, count_column, keywords
from keyspread.run.sources import Folder, Source, for_spark, writer
from keyspread.sender.registry import LOOK_AHEAD, Kind, resolve
from keyspread.spark._routing.keys import column
from keyspread.spark.spread import spread
from keyspread.spark.stream_watch import StreamWatch

TRIGGER = "1 second"
_SETTINGS = "settings.json"


def check_stream_scheme(scheme: str | None, workers: int, options: Mapping[str, Any]) -> tuple[str, float]:
    """Return the name of a scheme for a stream and the share from which a key is hot; refuse others, without Spark."""
    name = LOOK_AHEAD if scheme is None else scheme
    if resolve(name).kind is Kind.PLANNED:
        raise InputError(
            f"scheme planned needs all rows before it routes the first: use {LOOK_AHEAD} or d-choices on a stream"
        )
    return check_scheme(name, workers, options)


def check_same_run(checkpoint: str, settings: Mapping[str, Any]) -> bool:
    """Store the settings that identify the stream in the checkpoint; return whether the run resumes.

    A run that resumes must read the same stream, because Spark's offsets mean nothing in another one: a checkpoint
    with other settings is refused.
    """
    folder, now = Folder(checkpoint), json.loads(json.dumps(settings))
    try:
        resumes = folder.has("offsets")  # else the first batch never started
        stored = json.loads(folder.read("keyspread", _SETTINGS)) if folder.has("keyspread", _SETTINGS) else None
        if not resumes:
            folder.write(json.dumps(now).encode(), "keyspread", _SETTINGS)
            return False
    except (OSError, ValueError) as problem:
        raise InputError(
            f"--checkpoint {checkpoint} cannot be used ({problem}): use a folder on this machine, or an address that "
            "pyarrow knows (s3a://, gs://, hdfs://)"
        ) from None
    if stored is None:
        raise InputError(f"--checkpoint {checkpoint} belongs to a query of another program: choose another folder")
    for name in sorted({*stored, *now}):
        if stored.get(name) != now.get(name):
            was, given = (json.dumps(found.get(name), ensure_ascii=False) for found in (stored, now))
            raise InputError(
                f"--checkpoint {checkpoint} belongs to another run ({name} was {was}, got {given}): "
                "use that, or another folder"
            )
    return True


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
    routed = spread(source.rows, source.key, workers, scheme, watch=watch, **keywords(scheme, options))
    sink = _Sink(source, out, batches)
    query = routed.writeStream.foreachBatch(sink).option("checkpointLocation", for_spark(checkpoint))
    return RunningStream(query.trigger(processingTime=TRIGGER).start(), sink)


class _Refused(Exception):  # noqa: N818  (not an error: it keeps a batch from starting)
    """The query is to end: the next run does this batch."""


class _Sink:
    """Counts and writes every micro-batch; once `stopping` is set, no further batch starts."""

    def __init__(self, source: Source, out: str | None, most: int | None) -> None:
        self._key, self._out, self._most = source.key, out, most
        self._count = count_column(source.rows)
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
                writer(counted, self._out).mode("overwrite").save(for_spark(folder))
        finally:
            if self._out is not None:
                counted.unpersist()
        self.rows += rows
        self.batches += 1
