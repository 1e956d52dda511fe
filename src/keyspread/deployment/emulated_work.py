"""Emulated work per message: a fixed time, spent asleep, which needs no core. Runs inside Spark's Python workers."""

import time

_GRAIN = 0.002
"""Seconds ahead of the clock from which a sleep is worthwhile: shorter ones overshoot, and waking costs CPU."""


class Work:
    """Work on one message after the other: m messages take m times `seconds`, however much one sleep overshoots."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.time()

    def do(self, not_before: float = 0.0) -> float:
        """Work on the next message, not before it is sent at `not_before`; return the time when it was finished.

        The time of a message is owed, and slept once that is long enough.
        """
        self._until = max(self._until, not_before) + self._seconds
        now = time.time()
        if self._until - now > _GRAIN:
            time.sleep(self._until - now)
            now = time.time()
        return max(self._until, now)

    def end(self) -> float:
        """Sleep for the time still owed, and return the time."""
        time.sleep(max(0.0, self._until - time.time()))
        return time.time()
