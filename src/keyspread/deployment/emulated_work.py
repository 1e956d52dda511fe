"""A worker's work on a message, emulated: a fixed time, slept or burnt. Runs inside Spark's Python workers."""

import time
from typing import Protocol

_GRAIN = 0.002
"""Seconds ahead of the clock from which on a sleep pays: shorter ones overshoot, and waking costs a core."""


class Work(Protocol):
    """Does one message after the other."""

    def do(self, not_before: float = 0.0) -> float:
        """Do the next message, which is there from `not_before` on; give the time at which it was finished."""

    def end(self) -> float:
        """Wait until all of it is really done; give the time."""


class Sleep:
    """Keeps a clock of what is owed: m messages take m times the seconds, whatever a single sleep overshoots."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.time()

    def do(self, not_before: float = 0.0) -> float:
        """Owe the time of one message, and sleep it off once it is worth a sleep."""
        self._until = max(self._until, not_before) + self._seconds
        now = time.time()
        if self._until - now > _GRAIN:
            time.sleep(self._until - now)
            now = time.time()
        return max(self._until, now)

    def end(self) -> float:
        """Sleep off the rest."""
        time.sleep(max(0.0, self._until - time.time()))
        return time.time()


class Burn:
    """Uses a core for the time of each message."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def do(self, not_before: float = 0.0) -> float:
        """Wait for the message, then burn."""
        time.sleep(max(0.0, not_before - time.time()))
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        return time.time()

    def end(self) -> float:
        """All of it is done."""
        return time.time()


def begin_work(kind: str, seconds: float) -> Work:
    """Begin now."""
    return Sleep(seconds) if kind == "sleep" else Burn(seconds)
