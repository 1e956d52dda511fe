"""`keyspread run --streaming`: the main job on a stream, shown batch by batch, until it is stopped."""

import os
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from keyspread import checks
from keyspread.cli.json_output import print_json
from keyspread.cli.options.kafka import is_kafka, spark_settings
from keyspread.cli.options.page import PageOptions
from keyspread.cli.options.run import RunOptions
from keyspread.errors import InputError

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession
    from rich.console import Console

    from keyspread.job.sources import Source
    from keyspread.job.stream_job import RunningStream
    from keyspread.spark.streaming.stream_watch import BatchSeen, StreamWatch

_ENDLESS = ("zipf", "drift")
_DEFAULT_RATE = 10_000.0
_KEPT_BATCHES = 100
"""Batches that stay in memory; each is shown as soon as it is done."""


def run_streaming(options: RunOptions) -> None:
    """Check everything, start the query, show every batch, and stop between two batches."""
    from keyspread.cli.interruption import stop_request
    from keyspread.cli.screens import layout
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.job.run_record import RunRecord
    from keyspread.job.stream_job import check_stream_options, find_results, start_stream
    from keyspread.spark.launch.master import check_master
    from keyspread.spark.streaming.stream_watch import StreamWatch

    # Check everything that can be checked without Spark before it starts.
    routing, streaming, output, spark = options.routing, options.streaming, options.output, options.spark
    aggregates = output.aggregates()
    _check(options)
    identity, read = _source(options)
    scheme_options = routing.options()
    scheme = check_stream_options(routing.scheme, routing.workers, scheme_options)
    if spark.master is not None:
        check_master(spark.master)
    finished: queue.SimpleQueue[BatchSeen] = queue.SimpleQueue()
    watch = StreamWatch(hottest=output.top, keep=_KEPT_BATCHES, then=[finished.put], hide_keys=options.page.hide_keys)
    out = layout.console()
    with _checkpoint(streaming.checkpoint) as checkpoint:
        identity |= {"aggregate": aggregates or None, "out": output.out and _absolute(output.out)}
        record = RunRecord(checkpoint)
        resumes = record.resumes(identity)
        results = None if output.out is None else find_results(output.out, output.out_format, resumes)
        record.begin(identity)
        with hold_stderr(not spark.verbose) as held, ExitStack() as running:
            with layout.steps(held.console, 2) as step:
                step("starting Spark")
                settings = spark_settings(options.input.input, spark.jars)
                session = running.enter_context(spark_session(spark.master, held, spark.verbose, settings=settings))
                running.enter_context(failures_in_one_line(spark.verbose))
                source = read(session)
            stop = running.enter_context(stop_request())
            title = f"{scheme}, {layout.many(routing.workers, 'worker')}: {source.title}"
            running.enter_context(_page(options.page, watch, title, held.note))
            stream = start_stream(
                source,
                routing.workers,
                scheme,
                checkpoint=checkpoint,
                watch=watch,
                trigger=streaming.interval,
                batches=streaming.batches,
                aggregates=aggregates,
                results=results,
                seed=options.input.seed or 0,
                **scheme_options,
            )
            running.callback(watch.close)
            running.callback(stream.query.stop)
            total = _Total(source, scheme, options)
            show = running.enter_context(_batch_printer(options, title, out))
            for batch in _until_stopped(stream, finished, stop, streaming.seconds):
                total.add(batch)
                show(batch)
            watch.wait(stream.query)  # the last batches are reported a moment after they are done
            while not finished.empty():
                total.add(batch := finished.get())
                show(batch)
    total.print(stream, out)


@contextmanager
def _page(page: PageOptions, watch: "StreamWatch", title: str, note: Callable[[str], None]) -> Iterator[None]:
    """Serve the live page if it is wanted, and write it to its file when the stream has ended."""
    if not page.wanted:
        yield
        return
    history = watch.record(title)
    served = watch.serve(page.host, page.port, page.token) if page.page else None
    if served is not None:
        note(f"live page: {served.url}")
    try:
        yield
    finally:
        if page.page_out is not None:
            history.save(page.page_out)
            note(f"the page is in {page.page_out}")
        if served is not None:
            served.close()


def _until_stopped(
    stream: "RunningStream", finished: "queue.SimpleQueue[BatchSeen]", stop: "threading.Event", seconds: float | None
) -> Iterator["BatchSeen"]:
    """Yield batches as they finish, until there are enough of them, time is up, or a stop was requested."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    while stream.continues() and not stop.is_set() and time.monotonic() < end:
        try:
            yield finished.get(timeout=0.1)
        except queue.Empty:
            continue
    stream.stop()


@contextmanager
def _batch_printer(options: RunOptions, title: str, out: "Console") -> Iterator[Callable[["BatchSeen"], None]]:
    """Yield a function that shows a batch: as JSON, in a live picture on a terminal, or as a line of text."""
    from keyspread.cli.screens.live_view import BatchLines, LivePicture, draw_live

    if options.output.as_json:
        yield lambda batch: print_json(batch.to_dict(), type="batch")
    elif options.streaming.live and out.is_terminal:
        picture = LivePicture(title, out)
        with draw_live(picture, out):
            yield picture.add
    else:
        out.print(title, style="bold", markup=False)
        yield BatchLines(out).add


class _Total:
    """The sums over all batches of a run."""

    def __init__(self, source: "Source", scheme: str, options: RunOptions) -> None:
        self._source, self._scheme, self._options = source, scheme, options
        self._started = time.monotonic()
        self._imbalance, self._worst, self._malformed, self._batches = 0.0, 0.0, 0, 0

    def add(self, batch: "BatchSeen") -> None:
        """Add a batch; an empty batch has no imbalance and does not count."""
        self._malformed += batch.malformed
        if batch.rows:
            self._imbalance += batch.imbalance
            self._worst = max(self._worst, batch.imbalance)
            self._batches += 1

    def print(self, stream: "RunningStream", out: "Console") -> None:
        """Print the total, and how to resume."""
        from keyspread.cli.screens import layout

        options, seconds = self._options, time.monotonic() - self._started
        checkpoint = options.streaming.checkpoint
        total = {
            **self._source.facts,
            "key": list(self._source.key),
            "scheme": self._scheme,
            "workers": options.routing.workers,
            "batches": stream.batches,
            "rows": stream.rows,
            "rows_so_far": stream.rows_so_far,
            "malformed": self._malformed,
            "seconds": round(seconds, 2),
            "mean_imbalance": self._imbalance / max(1, self._batches),
            "worst_imbalance": self._worst,
            "checkpoint": checkpoint,
            "out": options.output.out,
        }
        if options.output.as_json:
            print_json({"input": options.input.input, "total": total}, type="total")
        else:
            before = stream.rows_so_far - stream.rows
            earlier = f"; {stream.rows_so_far:,} rows including earlier runs" if before else ""
            processed = f"{layout.many(stream.batches, 'batch')}, {layout.many(stream.rows, 'row')}"
            out.print(f"{processed} in {seconds:.0f} s{earlier}")
            out.print(f"imbalance: mean {total['mean_imbalance']:.1e}, worst {self._worst:.1e}")
        if self._malformed:
            layout.note(f"{self._source.title}: skipped {self._malformed:,} malformed")
        if checkpoint is None:
            layout.note("this run cannot be resumed: it has no --checkpoint folder")
        else:
            layout.note(f"run the same command again to resume from --checkpoint {checkpoint}")


def _check(options: RunOptions) -> None:
    input, streaming, output = options.input, options.streaming, options.output
    options.page.check()
    for name in ("rate", "trigger", "seconds"):
        value = getattr(streaming, name)
        if value is None:
            continue
        if value <= 0:
            raise InputError(f"--{name} must be above 0, got {value:g}")
        checks.not_negative(name, value)  # refuses what is too large, or not a number
    if streaming.batches is not None:
        checks.whole_number("batches", streaming.batches)
    if streaming.live and output.as_json:
        raise InputError("--live and --json show the same in two ways: leave one of them out")
    master = options.spark.master
    if master is not None and master.startswith("sc://"):
        raise InputError(f"--streaming does not work with Spark Connect, got --master {master}: use spark://, yarn, …")
    if output.out_format is not None and output.out is None:
        raise InputError(f"--out-format {output.out_format} has no effect without --out")
    options.kafka.check(input.input, input.format)
    senders = options.routing.senders
    if senders is not None:
        checks.whole_number("senders", senders)
        if input.input.lower() not in _ENDLESS:
            raise InputError(f"--senders is for zipf and drift only with --streaming, got {senders}: leave it out")


def _source(options: RunOptions) -> tuple[dict[str, Any], Callable[["SparkSession"], "Source"]]:
    """Return the settings that identify the stream, as plain values, and a function that reads it with Spark."""
    from keyspread.job.sources import file_source, find_files
    from keyspread.job.stream_sources import endless_source, topic_source
    from keyspread.streams import named_stream
    from keyspread.streams.generated.catalog import NAMES

    input, kafka, streaming = options.input, options.kafka, options.streaming
    name, key = input.input.lower(), input.key_columns
    if name in _ENDLESS:
        generated = named_stream(name, **input.parameters())
        rate = _DEFAULT_RATE if streaming.rate is None else streaming.rate
        rows = max(1, round(rate * streaming.interval))
        identity = {part: value for part, value in generated.parameters().items() if part != "messages"}
        return identity, lambda session: endless_source(session, generated, rows, options.routing.senders)
    if name in NAMES:
        raise InputError(f"--input {name} has an end: with --streaming, use zipf, drift, files or kafka")
    if is_kafka(name):
        identity = {"topic": kafka.topic, "schema": kafka.schema, "key": list(key) or None}
        return identity, lambda session: topic_source(
            session,
            str(kafka.brokers),
            str(kafka.topic),
            key,
            schema=kafka.schema,
            max_rows=streaming.rows_per_batch,
        )
    if streaming.rate is not None:
        raise InputError(
            f"--rate is for zipf, drift and kafka only, got {streaming.rate:g} with {input.input}: leave it out"
        )
    if os.path.isfile(input.input):
        raise InputError(
            f"{input.input} is a single file: with --streaming, name a folder or a pattern, where new files may appear"
        )
    files = find_files(input.input, input.format)
    identity = {"source": files.address, "format": files.format, "key": list(key) or None}
    return identity, lambda session: file_source(session, files, key, streaming=True)


@contextmanager
def _checkpoint(given: str | None) -> Iterator[str]:
    """Yield the checkpoint folder; without one, a temporary folder that is removed afterwards."""
    from keyspread.job.addresses import is_address

    if given is not None:
        if not is_address(given) and os.path.isfile(given):
            raise InputError(f"--checkpoint must be a folder, {given} is a file")
        yield _absolute(given)
        return
    folder = tempfile.mkdtemp(prefix="keyspread-checkpoint-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _absolute(path: str) -> str:
    from keyspread.job.addresses import is_address, local_path

    return path if is_address(path) else local_path(path)
