"""Standard error and Ctrl-C while Spark runs: a failure is one line, a good run says nothing, and Spark is stopped.

It is the descriptor that is held, not `sys.stderr`: the JVM and its Python workers write there as well.
"""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

from rich.console import Console


class Held:
    """What was said on standard error meanwhile; `console` still reaches the terminal."""

    def __init__(self, console: Console | None, file: BinaryIO | None) -> None:
        self.console = console
        self._file = file

    def text(self) -> str:
        """Give all of it so far."""
        if self._file is None:
            return ""
        sys.stderr.flush()
        self._file.seek(0)
        return self._file.read().decode("utf-8", "replace")


@contextmanager
def held(active: bool = True) -> Iterator[Held]:
    """Hold back descriptor 2 within the block, if `active`; a console is there if somebody is watching."""
    watched = sys.stderr.isatty()
    try:
        real = os.dup(2)
    except OSError:  # closed by whoever started us: nothing to hold
        yield Held(None, None)
        return
    terminal: TextIO = os.fdopen(real, "w", encoding=getattr(sys.stderr, "encoding", None) or "utf-8", errors="replace")
    console = Console(file=terminal, force_terminal=True) if watched else None
    try:
        if not active:
            yield Held(console, None)
            return
        with tempfile.TemporaryFile() as file:
            sys.stderr.flush()
            os.dup2(file.fileno(), 2)
            try:
                yield Held(console, file)
            finally:
                with suppress(OSError):
                    sys.stderr.flush()
                os.dup2(real, 2)
    finally:
        terminal.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block; the second one does not wait."""
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
        signal.signal(signal.SIGINT, before)  # not the one that Spark put there, see below
    if waiting:
        raise KeyboardInterrupt


@contextmanager
def stopped_by_ctrl_c(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C call `stop` and come out of the block as KeyboardInterrupt, whatever else it causes there.

    Spark's own handler cancels the jobs it knows of; one that is just being submitted would run to its end.
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
def asked_to_stop() -> Iterator[threading.Event]:
    """Let the first Ctrl-C, or request to end, only set the event; the second does what it did before the block."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        asked.set()
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        restore()
