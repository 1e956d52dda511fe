"""`keyspread run --streaming`: the main job on a stream, seen while it runs, until it is told to stop."""

import json
import os
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyspread import checks
from keyspread.cli.kafka_options import check_kafka, is_kafka, spark_settings
from keyspread.errors import InputError

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession
    from rich.console import Console

    from keyspread.job.sources import Source
    from keyspread.job.stream_job import RunningStream
    from keyspread.spark.streaming.stream_watch import BatchSeen

_ENDLESS = ("zipf", "drift")
_RATE, _TRIGGER = 10_000.0, 1.0
_KEPT = 100
"""Batches kept in memory: each is shown when it comes."""


@dataclass(frozen=True)
class Asked:
    """The options of a streaming run as they were given; None is not given."""

    source: str
    law: Mapping[str, Any]
    format: str | None
    key: tuple[str, ...]
    brokers: str | None
    topic: str | None
    schema: str | None
    partitions: int | None
    workers: int
    scheme: str | None
    seed: int
    options: Mapping[str, Any]
    aggregates: Mapping[str, str]
    out: str | None
    out_format: str | None
    top: int
    rate: float | None
    trigger: float | None
    batches: int | None
    seconds: float | None
    checkpoint: str | None
    live: bool
    as_json: bool
    master: str | None
    jars: str | None
    verbose: bool

    @property
    def interval(self) -> float:
        """Seconds from the beginning of a batch to that of the next."""
        return _TRIGGER if self.trigger is None else self.trigger

    @property
    def rows_a_batch(self) -> int | None:
        """What --rate comes to."""
        return None if self.rate is None else max(1, round(self.rate * self.interval))


def run_streaming(asked: Asked) -> None:
    """Check everything, start the query, show every batch, end it between two of them."""
    from keyspread.cli import engine, interruption
    from keyspread.cli.screens import layout
    from keyspread.job.run_record import RunRecord
    from keyspread.job.stream_job import check_stream_options, find_results, start_stream
    from keyspread.spark.launch.master import check_master
    from keyspread.spark.streaming.stream_watch import StreamWatch

    # Whatever can be refused without Spark is refused before it starts.
    _check(asked)
    settings, read = _source(asked)
    scheme = check_stream_options(asked.scheme, asked.workers, asked.options)
    if asked.master is not None:
        check_master(asked.master)
    seen: queue.SimpleQueue[BatchSeen] = queue.SimpleQueue()
    watch = StreamWatch(hottest=asked.top, keep=_KEPT, then=[seen.put])
    out = layout.console()
    with _checkpoint(asked.checkpoint) as checkpoint:
        settings |= {"aggregate": dict(asked.aggregates) or None, "out": asked.out and _absolute(asked.out)}
        record = RunRecord(checkpoint)
        resumes = record.resumes(settings)
        results = None if asked.out is None else find_results(asked.out, asked.out_format, resumes)
        record.begin(settings)
        with interruption.held(not asked.verbose) as held, ExitStack() as running:
            with layout.steps(held.console, 2) as step:
                step("starting Spark")
                started = engine.spark(
                    asked.master, held, asked.verbose, settings=spark_settings(asked.source, asked.jars)
                )
                spark = running.enter_context(started)
                running.enter_context(engine.told(asked.verbose))
                source = read(spark)
            stop = running.enter_context(interruption.asked_to_stop())
            stream = start_stream(
                source,
                asked.workers,
                scheme,
                checkpoint=checkpoint,
                watch=watch,
                trigger=asked.interval,
                batches=asked.batches,
                aggregates=asked.aggregates,
                results=results,
                seed=asked.seed,
                **asked.options,
            )
            running.callback(watch.close)
            running.callback(stream.query.stop)
            total = _Total(source, scheme, asked)
            title = f"{scheme}, {layout.many(asked.workers, 'worker')}: {source.title}"
            show = running.enter_context(_shown(asked, title, out))
            for batch in _until_stopped(stream, seen, stop, asked.seconds):
                total.add(batch)
                show(batch)
            watch.wait(stream.query)  # the last batches are told a moment after they are done
            while not seen.empty():
                total.add(batch := seen.get())
                show(batch)
    total.tell(stream, out)


def _until_stopped(
    stream: "RunningStream", seen: "queue.SimpleQueue[BatchSeen]", stop: "threading.Event", seconds: float | None
) -> Iterator["BatchSeen"]:
    """Give batches as they are done, until enough of them are, or time is up, or somebody asked to stop."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    while stream.continues() and not stop.is_set() and time.monotonic() < end:
        try:
            yield seen.get(timeout=0.1)
        except queue.Empty:
            continue
    stream.stop()


@contextmanager
def _shown(asked: Asked, title: str, out: "Console") -> Iterator[Callable[["BatchSeen"], None]]:
    """Give what shows a batch: as JSON, in a picture on a terminal, or in a line."""
    from keyspread.cli.screens.live_view import Picture, Plain, drawn

    if asked.as_json:
        yield lambda batch: print(json.dumps(batch.to_dict(), ensure_ascii=False), flush=True)
    elif asked.live and out.is_terminal:
        picture = Picture(title, out)
        with drawn(picture, out):
            yield picture.add
    else:
        out.print(title, style="bold", markup=False)
        yield Plain(out).add


class _Total:
    """What a run comes to."""

    def __init__(self, source: "Source", scheme: str, asked: Asked) -> None:
        self._source, self._scheme, self._asked = source, scheme, asked
        self._begun = time.monotonic()
        self._imbalance, self._worst, self._malformed, self._counted = 0.0, 0.0, 0, 0

    def add(self, batch: "BatchSeen") -> None:
        """Take a batch into account; one without rows is neither even nor uneven."""
        self._malformed += batch.malformed
        if batch.rows:
            self._imbalance += batch.imbalance
            self._worst = max(self._worst, batch.imbalance)
            self._counted += 1

    def tell(self, stream: "RunningStream", out: "Console") -> None:
        """Print it, and how to go on."""
        from keyspread.cli.screens import layout

        asked, seconds = self._asked, time.monotonic() - self._begun
        total = {
            **self._source.facts,
            "key": list(self._source.key),
            "scheme": self._scheme,
            "workers": asked.workers,
            "batches": stream.batches,
            "rows": stream.rows,
            "rows_so_far": stream.rows_so_far,
            "malformed": self._malformed,
            "seconds": round(seconds, 2),
            "mean_imbalance": self._imbalance / max(1, self._counted),
            "worst_imbalance": self._worst,
            "checkpoint": asked.checkpoint,
            "out": asked.out,
        }
        if asked.as_json:
            print(json.dumps({"total": total}, default=str, ensure_ascii=False), flush=True)
        else:
            before = stream.rows_so_far - stream.rows
            more = f", {stream.rows_so_far:,} with those of earlier runs" if before else ""
            counted = f"{layout.many(stream.batches, 'batch')}, {layout.many(stream.rows, 'row')}"
            out.print(f"{counted} in {seconds:.0f} s{more}")
            out.print(f"imbalance {total['mean_imbalance']:.1e} in the mean, {self._worst:.1e} at worst")
        if self._malformed:
            layout.note(f"{self._source.title}: left out {self._malformed:,} malformed")
        if asked.checkpoint is None:
            layout.note("nothing was kept to go on from: name a --checkpoint folder for that")
        else:
            layout.note(f"to go on, give the same command again, with --checkpoint {asked.checkpoint}")


def _check(asked: Asked) -> None:
    from keyspread.job.sources import check_partitions

    for name, value in (("rate", asked.rate), ("trigger", asked.trigger), ("seconds", asked.seconds)):
        if value is not None and not 0 < checks.number(name, value) < 2**31:
            raise InputError(f"--{name} must be above 0, got {value:g}")
    if asked.batches is not None:
        checks.whole_number("batches", asked.batches)
    if asked.live and asked.as_json:
        raise InputError("--live and --json are two ways to see the same: leave one of them out")
    if asked.master is not None and asked.master.startswith("sc://"):
        raise InputError(f"--streaming needs Spark in this process, got --master {asked.master}: use spark://, yarn, …")
    if asked.out_format is not None and asked.out is None:
        raise InputError(f"--out-format {asked.out_format} has nothing to do without --out")
    check_kafka(asked.source, brokers=asked.brokers, topic=asked.topic, schema=asked.schema, format=asked.format)
    check_partitions(asked.partitions)
    if asked.partitions is not None and asked.source.lower() not in _ENDLESS:
        raise InputError(
            f"--partitions is for zipf and drift only with --streaming, got {asked.partitions}: leave it out"
        )


def _source(asked: Asked) -> tuple[dict[str, Any], Callable[["SparkSession"], "Source"]]:
    """Give what decides the stream, as plain values, and what reads it once Spark is there."""
    from keyspread.job.sources import file_source, find_files
    from keyspread.job.stream_sources import endless_source, topic_source
    from keyspread.streams import named_stream
    from keyspread.streams.generated.catalog import NAMES

    name, key = asked.source.lower(), asked.key
    if name in _ENDLESS:
        made = named_stream(name, **asked.law, seed=asked.seed)
        rate = _RATE if asked.rate is None else asked.rate
        rows = max(1, round(rate * asked.interval))
        facts = {part: value for part, value in made.parameters().items() if part != "messages"}
        return facts, lambda spark: endless_source(spark, made, rows, asked.partitions)
    if name in NAMES:
        raise InputError(f"--source {name} has an end: with --streaming it is zipf or drift, files or kafka")
    if is_kafka(name):
        brokers, topic, schema = asked.brokers or "", asked.topic or "", asked.schema
        return {"topic": topic, "schema": schema, "key": list(key) or None}, lambda spark: topic_source(
            spark, brokers, topic, key, schema=schema, max_rows=asked.rows_a_batch
        )
    if asked.rate is not None:
        raise InputError(
            f"--rate is for zipf, drift and kafka only, got {asked.rate:g} with {asked.source}: leave it out"
        )
    if os.path.isfile(asked.source):
        raise InputError(
            f"{asked.source} is one file: with --streaming name a folder, or a pattern, that more may come to"
        )
    files = find_files(asked.source, asked.format)
    facts = {"source": files.address, "format": files.format, "key": list(key) or None}
    return facts, lambda spark: file_source(spark, files, key, streaming=True)


@contextmanager
def _checkpoint(given: str | None) -> Iterator[str]:
    """Give the folder to go on from; without one, a folder that is gone afterwards."""
    if given is not None:
        if os.path.isfile(given):
            raise InputError(f"--checkpoint must be a folder, {given} is a file")
        yield _absolute(given)
        return
    folder = tempfile.mkdtemp(prefix="keyspread-checkpoint-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)
