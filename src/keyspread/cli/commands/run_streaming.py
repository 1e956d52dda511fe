"""`keyspread run --streaming`: the pipeline on a stream, shown batch by batch, until it is stopped."""

import os
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keyspread import checks
from keyspread.cli.commands.run import (
    RunInput,
    RunJob,
    RunOutput,
    RunStreaming,
    check_plot,
    checked_files,
    is_generated,
    malformed_lines,
    refuse_for_generated,
    settings_of,
)
from keyspread.cli.common.layout import print_json
from keyspread.errors import InputError

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession
    from rich.console import Console

    from keyspread.run.sources import Source
    from keyspread.run.stream import RunningStream
    from keyspread.spark.stream_watch import BatchSeen, StreamWatch

_ENDLESS = ("zipf", "drift")
_RATE = 10_000.0
"""Rows per second of a generated stream."""
_KEPT_BATCHES = 100
"""Batches that stay in memory; each is shown as soon as it is done."""
_MOST_COUNTED = 100
"""Hottest keys that are counted so that the choice of d is known, at most."""
_TOKEN = "KEYSPREAD_PAGE_TOKEN"

Show = Callable[["BatchSeen", int | None], None]
"""Shows a batch, and the d that D-Choices takes for its hot keys."""


def run_streaming(input: RunInput, job: RunJob, streaming: RunStreaming, output: RunOutput) -> None:
    """Check everything, start the query, show every batch, and stop between two batches."""
    from keyspread.cli.common import layout
    from keyspread.cli.common.session import failures_in_one_line, hold_stderr, spark_session, stop_request
    from keyspread.run.pipeline import TOP
    from keyspread.run.stream import check_same_run, check_stream_scheme, start_stream
    from keyspread.spark._launch.master import check_master
    from keyspread.spark.stream_watch import StreamWatch

    # Check everything that can be checked without Spark before it starts.
    options = job.options()
    scheme, threshold = check_stream_scheme(job.scheme, job.workers, options)
    if streaming.batches is not None:
        checks.whole_number("batches", streaming.batches)
    address = page_address(streaming.page)
    check_plot(output.plot, ending=".html")
    if output.master is not None:
        if output.master.startswith("sc://"):
            raise InputError(
                f"--streaming does not work with Spark Connect, got --master {output.master}: use spark://, yarn, …"
            )
        check_master(output.master)
    identity, read = _source(input)
    hottest = min(int(1 / threshold) + 1, _MOST_COUNTED) if scheme == "d-choices" else TOP
    finished: queue.SimpleQueue[BatchSeen] = queue.SimpleQueue()
    watch = StreamWatch(hottest=hottest, keep=_KEPT_BATCHES, then=[finished.put])
    out = layout.console()
    with _checkpoint(streaming.checkpoint) as checkpoint, ExitStack() as running:
        folder = _results(output.out)
        resumes = check_same_run(checkpoint, identity | {"out": folder})
        if folder is not None and not resumes and os.path.isdir(folder) and os.listdir(folder):
            raise InputError(f"--out {output.out} is not empty: choose another folder, or resume with its --checkpoint")
        held = running.enter_context(hold_stderr(not output.verbose))
        with layout.steps(held.console, 2) as step:
            step("starting Spark")
            session = running.enter_context(
                spark_session(output.master, held, output.verbose, settings=settings_of(input))
            )
            running.enter_context(failures_in_one_line(output.verbose))
            running.enter_context(malformed_lines(input))
            source = read(session)
        stop = running.enter_context(stop_request())
        title = f"{scheme}, {layout.many(job.workers, 'worker')}: {source.title}"
        running.enter_context(_page(address, output.plot, watch, title, held.note))
        stream = start_stream(
            source,
            job.workers,
            scheme,
            checkpoint=checkpoint,
            watch=watch,
            batches=streaming.batches,
            out=folder,
            **options,
        )
        running.callback(watch.close)
        running.callback(stream.query.stop)
        total = _Total(
            {
                **source.facts,
                "key": list(source.key),
                "scheme": scheme,
                "workers": job.workers,
                "checkpoint": streaming.checkpoint,
                "out": output.out,
            }
        )
        show = running.enter_context(_batch_printer(output.as_json, title, out))

        def add(batch: "BatchSeen") -> None:
            total.add(batch)
            choices = _choices_of(scheme, batch, options)
            show(replace(batch, hottest=batch.hottest[:TOP], workers_of=batch.workers_of[:TOP]), choices)

        for batch in _until_stopped(stream, finished, stop):
            add(batch)
        watch.wait(stream.query)  # the last batches are reported a moment after they are done
        while not finished.empty():
            add(finished.get())
    total.print(stream, out, input.input if output.as_json else None)


def _source(input: RunInput) -> tuple[dict[str, Any], Callable[["SparkSession"], "Source"]]:
    """Return the settings that identify the stream, as plain values, and a function that reads it with Spark."""
    from keyspread.run.sources import KAFKA, TABLE, endless_source, file_source
    from keyspread.streams import named_stream

    if is_generated(input):
        name = input.input.lower()
        if name not in _ENDLESS:
            raise InputError(f"--input {name} has an end: with --streaming, use zipf, drift, a folder or a topic")
        refuse_for_generated(input)
        parameters = input.generated()
        if "messages" in parameters:
            raise InputError(
                "--messages is for a run without --streaming: use --batches, and --option rate=… for speed"
            )
        rate, senders = parameters.pop("rate", _RATE), parameters.pop("senders", None)
        rows = checks.whole_number("rate", max(0, round(checks.number("rate", rate))))
        if senders is not None:
            checks.whole_number("senders", senders)
        stream = named_stream(name, **parameters)
        identity = {part: value for part, value in stream.parameters().items() if part != "messages"}
        return {**identity, "seed": stream.seed}, lambda session: endless_source(session, stream, rows, senders)
    files, key = checked_files(input), tuple(input.key or ())
    if files.format not in (KAFKA, TABLE) and os.path.isfile(input.input):
        raise InputError(
            f"{input.input} is a single file: with --streaming, name a folder or a pattern, where new files may appear"
        )
    identity = {"source": files.address, "format": files.format, "key": list(key) or None}
    return identity, lambda session: file_source(session, files, key, streaming=True)


def _results(out: str | None) -> str | None:
    """Return the address of the folder for results, one folder per batch; refuse what is no folder."""
    from keyspread.run.sources import for_spark, is_address, is_table, local_path

    if out is None:
        return None
    if is_table(out):
        raise InputError(f"--out of a stream is a folder for its batches, got a table {out!r}: name a path like {out}/")
    if is_address(out):
        return for_spark(out)
    if os.path.isfile(local_path(out)):
        raise InputError(f"--out {out} is a file, but results are a folder: choose another name")
    return local_path(out)


@contextmanager
def _checkpoint(folder: str | None) -> Iterator[str]:
    """Yield the checkpoint folder; without one, a temporary folder that is removed afterwards."""
    from keyspread.run.sources import is_address, local_path

    if folder is not None:
        if not is_address(folder) and os.path.isfile(folder):
            raise InputError(f"--checkpoint must be a folder, {folder} is a file")
        yield folder if is_address(folder) else local_path(folder)
        return
    temporary = tempfile.mkdtemp(prefix="keyspread-checkpoint-")
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def page_address(text: str | None) -> tuple[str, int] | None:
    """'4050' → ('127.0.0.1', 4050); refuse an address that others could read without a token."""
    if text is None:
        return None
    from keyspread.live_page.server import check_access, check_packages

    check_packages("--page")
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isdecimal() and int(port) < 65536) or text.startswith(":"):
        raise InputError(f"--page must be PORT or HOST:PORT, such as 4050, got {text!r}")
    check_access(host, os.environ.get(_TOKEN) or None)
    return host, int(port)


@contextmanager
def _page(
    address: tuple[str, int] | None, file: str | None, watch: "StreamWatch", title: str, note: Callable[[str], None]
) -> Iterator[None]:
    """Serve the live page if it has an address, and write it to its file when the stream has ended."""
    if address is None and file is None:
        yield
        return
    history = watch.record(title)
    served = None if address is None else watch.serve(*address, os.environ.get(_TOKEN) or None)
    if served is not None:
        note(f"live page: {served.url}")
    try:
        yield
    finally:
        if file is not None:
            history.save(file)
            note(f"the page is in {file}")
        if served is not None:
            served.close()


def _until_stopped(
    stream: "RunningStream", finished: "queue.SimpleQueue[BatchSeen]", stop: "threading.Event"
) -> Iterator["BatchSeen"]:
    """Yield batches as they finish, until there are enough of them or a stop was requested."""
    while stream.continues() and not stop.is_set():
        try:
            yield finished.get(timeout=0.1)
        except queue.Empty:
            continue
    stream.stop()


def _choices_of(scheme: str, batch: "BatchSeen", options: Mapping[str, Any]) -> int | None:
    """Return the d that D-Choices takes for the hot keys of a batch; None if not all of them are known."""
    from keyspread.run.pipeline import choices_of

    if not batch.rows or batch.head is None or batch.head > len(batch.hottest):
        return None
    shares = [rows / batch.rows for _, rows in batch.hottest[: batch.head]]
    return choices_of(scheme, batch.loads.size, shares, options)


@contextmanager
def _batch_printer(as_json: bool, title: str, out: "Console") -> Iterator[Show]:
    """Yield a function that shows a batch: as JSON, in a live picture on a terminal, or as a line of text."""
    from keyspread.cli.screens.run import BatchLines, LivePicture, draw_live

    if as_json:
        yield lambda batch, choices: print_json({**batch.to_dict(), "choices": choices}, type="batch")
    elif out.is_terminal:
        picture = LivePicture(title, out)
        with draw_live(picture, out):
            yield picture.add
    else:
        out.print(title, style="bold", markup=False)
        yield BatchLines(out).add


class _Total:
    """The sums over all batches of a run."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts, self._started = facts, time.monotonic()
        self._imbalance, self._worst, self._batches = 0.0, 0.0, 0

    def add(self, batch: "BatchSeen") -> None:
        """Add a batch; an empty batch has no imbalance and does not count."""
        if batch.rows:
            self._imbalance += batch.imbalance
            self._worst = max(self._worst, batch.imbalance)
            self._batches += 1

    def print(self, stream: "RunningStream", out: "Console", json_of: str | None) -> None:
        """Print the total, and how to resume; as JSON if the name of the input is given for it."""
        from keyspread.cli.common import layout

        seconds, mean = time.monotonic() - self._started, self._imbalance / max(1, self._batches)
        if json_of is not None:
            sums = {"batches": stream.batches, "rows": stream.rows, "seconds": round(seconds, 2)}
            sums |= {"mean_imbalance": mean, "worst_imbalance": self._worst}
            print_json({"input": json_of, "total": self._facts | sums}, type="total")
        else:
            processed = f"{layout.many(stream.batches, 'batch')}, {layout.many(stream.rows, 'row')}"
            out.print(f"{processed} in {seconds:.0f} s")
            out.print(f"imbalance: mean {mean:.1e}, worst {self._worst:.1e}")
        if self._facts["checkpoint"] is None:
            layout.note("this run cannot be resumed: it has no --checkpoint folder")
        else:
            layout.note(f"run the same command again to resume from --checkpoint {self._facts['checkpoint']}")
