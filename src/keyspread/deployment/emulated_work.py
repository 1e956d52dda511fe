"""Emulated work per message: a fixed time, spent asleep or busy. Runs inside Spark's Python workers."""

import time
from typing import Protocol

_GRAIN = 0.002
"""Seconds ahead of the clock from which a sleep is worthwhile: shorter ones overshoot, and waking costs CPU."""


class Work(Protocol):
    """Work on one message after the other."""

    def do(self, not_before: float = 0.0) -> float:
        """Work on the next message, not before it is sent at `not_before`; return the time when it was finished."""

    def end(self) -> float:
        """Wait until all work is done; return the time."""


class Sleep:
    """Work by sleeping: m messages take m times `seconds`, however much a single sleep overshoots."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.time()

    def do(self, not_before: float = 0.0) -> float:
        """Add the time of one message to the time owed, and sleep once that is long enough."""
        self._until = max(self._until, not_before) + self._seconds
        now = time.time()
        if self._until - now > _GRAIN:
            time.sleep(self._until - now)
            now = time.time()
        return max(self._until, now)

    def end(self) -> float:
        """Sleep for the time still owed."""
        time.sleep(max(0.0, self._until - time.time()))
        return time.time()


class Burn:
    """Work that keeps a core busy for the time of each message."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def do(self, not_before: float = 0.0) -> float:
        """Wait for the message, then keep the core busy."""
        time.sleep(max(0.0, not_before - time.time()))
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        return time.time()

    def end(self) -> float:
        """Return the time: all work is done."""
        return time.time()


def begin_work(kind: str, seconds: float) -> Work:
    """Start the work of a worker now; `kind` is sleep or cpu."""
    return Sleep(seconds) if kind == "sleep" else Burn(seconds)
