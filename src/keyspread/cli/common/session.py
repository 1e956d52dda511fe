"""Spark for a command: started quietly, always stopped, and its failures reported in one line."""

import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from rich.console import Console

from keyspread.errors import KeyspreadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOCAL = {
    "spark.sql.shuffle.partitions": 16,  # Spark's default of 200 is meant for a cluster
    "spark.python.daemon.module": "keyspread.spark._launch.daemon",
}


@contextmanager
def spark_session(
    master: str | None,
    held: "HeldStderr",
    verbose: bool,
    short: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Iterator["SparkSession"]:
    """Yield the active session of this process if there is one, else a new one that stops at the end of the block.

    `short` jobs end before the JVM's second compiler pays off, so it is switched off. `settings` are Spark settings
    of a new session.
    """
    from pyspark.sql import SparkSession

    from keyspread.spark._launch.master import check_answers, is_local

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    started = _start(master, held, verbose, short, settings or {})
    try:
        with stop_on_ctrl_c(started.stop):
            if not is_local(master):
                with failures_in_one_line(verbose):
                    check_answers(started, str(master))
            yield started
    finally:
        started.stop()


def _start(
    master: str | None, held: "HeldStderr", verbose: bool, short: bool, settings: Mapping[str, Any]
) -> "SparkSession":
    from keyspread.spark import session
    from keyspread.spark._engine.failures import SparkError, why
    from keyspread.spark._launch.java import SHORT_LIVED
    from keyspread.spark._launch.master import is_local

    config: dict[str, Any] = {} if verbose else {"spark.log.level": "OFF"}
    if is_local(master):
        config |= _LOCAL
        if short:
            config["spark.driver.extraJavaOptions"] = SHORT_LIVED
    config |= settings
    try:
        with delay_ctrl_c():  # a JVM whose launch is interrupted would stay alive
            if master is not None and master.startswith("sc://"):
                return session(remote=master)
            return session(master=master, **config)
    except KeyspreadError:
        raise
    except Exception as problem:  # py4j, PySpark and the JVM each raise their own
        if verbose:
            traceback.print_exc()
        errors = [line for line in held.text().splitlines() if re.search(r"(Error|Exception)\b", line)]
        raise SparkError(f"Spark did not start: {why(errors[0] if errors else str(problem))}") from problem


@contextmanager
def failures_in_one_line(verbose: bool) -> Iterator[None]:
    """Turn whatever Spark raises into an error of one line; if `verbose`, print the whole stack trace before it."""
    from keyspread.spark._engine.failures import in_one_line

    with in_one_line():
        try:
            yield
        except KeyspreadError:
            raise
        except Exception:
            if verbose:
                traceback.print_exc()
            raise


# Ctrl-C while Spark runs: it never leaves a JVM behind, and a stream stops between two batches.


@contextmanager
def delay_ctrl_c() -> Iterator[None]:
    """Make the first Ctrl-C wait for the end of the block; the second one does not wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = False

    def wait(*_: object) -> None:
        nonlocal waiting
        if waiting:
            raise KeyboardInterrupt
        waiting = True

    before = signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)  # not the handler that Spark installed, see below
    if waiting:
        raise KeyboardInterrupt


@contextmanager
def stop_on_ctrl_c(stop: Callable[[], None]) -> Iterator[None]:
    """Make Ctrl-C call `stop` and leave the block as KeyboardInterrupt, whatever other errors it causes there.

    Spark's own handler cancels the jobs that it knows; a job that is just being submitted would run to its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping: list[threading.Thread] = []

    def interrupt(*_: object) -> None:
        stopping.append(threading.Thread(target=stop, daemon=True))
        stopping[-1].start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException:
        if stopping:
            stopping[0].join()
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_request() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; the second one does what it did before the block."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def request(*_: object) -> None:
        requested.set()
        restore()

    for number in before:
        signal.signal(number, request)
    try:
        yield requested
    finally:
        restore()


# Standard error while Spark runs: held back, so that a good run prints nothing and a failure is one line.
#
# The file descriptor is held, not `sys.stderr`, because the JVM and its Python workers write to it as well.


class HeldStderr:
    """What was written to standard error meanwhile; `console` still reaches the terminal, if there is one."""

    def __init__(self, console: Console | None, file: BinaryIO | None, real: TextIO | None = None) -> None:
        self.console = console
        self._file, self._real = file, real

    def note(self, message: str) -> None:
        """Print a note on the real standard error at once, watched or not."""
        if self._real is not None:
            print("keyspread: note:", message, file=self._real, flush=True)

    def text(self) -> str:
        """Return everything written so far."""
        if self._file is None:
            return ""
        sys.stderr.flush()
        self._file.seek(0)
        return self._file.read().decode("utf-8", "replace")


@contextmanager
def hold_stderr(active: bool = True) -> Iterator[HeldStderr]:
    """Hold back file descriptor 2 within the block, if `active`. `console` is None if nobody is watching."""
    watched = sys.stderr.isatty()
    try:
        real = os.dup(2)
    except OSError:  # the parent process closed it: there is nothing to hold
        yield HeldStderr(None, None)
        return
    terminal: TextIO = os.fdopen(real, "w", encoding=getattr(sys.stderr, "encoding", None) or "utf-8", errors="replace")
    console = Console(file=terminal, force_terminal=True) if watched else None
    try:
        if not active:
            yield HeldStderr(console, None, terminal)
            return
        with tempfile.TemporaryFile() as file:
            sys.stderr.flush()
            os.dup2(file.fileno(), 2)
            try:
                yield HeldStderr(console, file, terminal)
            finally:
                with suppress(OSError):
                    sys.stderr.flush()
                os.dup2(real, 2)
    finally:
        terminal.close()
