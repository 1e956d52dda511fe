"""Ctrl-C while Spark runs: it never leaves a JVM behind, and a stream stops between two batches."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
