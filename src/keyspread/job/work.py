"""The work per row that `keyspread run` times: waiting as for a call to a service, computing, or none."""

import re
import time
from dataclasses import dataclass

from keyspread.errors import InputError

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_TEXT = re.compile(r"(wait|cpu):(\d+(?:\.\d+)?)(us|µs|ms|s)\Z")


@dataclass(frozen=True)
class Work:
    """Time that an operator spends per row: `kind` is wait, cpu or none. It runs inside Spark's Python workers."""

    kind: str
    seconds: float = 0.0

    @classmethod
    def of(cls, text: str) -> "Work":
        """Read a text such as wait:1ms, cpu:200us or none.

        >>> Work.of("wait:1ms")
        Work(kind='wait', seconds=0.001)
        >>> Work.of("1ms")
        Traceback (most recent call last):
        keyspread.errors.InputError: --work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got '1ms'
        """
        if text == "none":
            return cls("none")
        found = _TEXT.match(text)
        if found is None:
            raise InputError(f"--work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got {text!r}")
        seconds = float(found[2]) * _UNITS[found[3]]
        if not 0 < seconds <= 10:
            raise InputError(
                f"--work must take more than 0 and at most 10 s per row, got {text!r}: use none for no work"
            )
        return cls(found[1], seconds)

    def do(self, rows: int) -> None:
        """Work on this many rows."""
        if self.kind == "wait":
            time.sleep(self.seconds * rows)
        elif self.kind == "cpu":
            until = time.thread_time() + self.seconds * rows
            while time.thread_time() < until:
                pass

    def least_seconds(self, rows: int, busiest: int, cores: int) -> float:
        """Return how long the work takes at least if the busiest worker has so many of the rows."""
        computed = rows / cores if self.kind == "cpu" else 0
        return self.seconds * max(busiest, computed)

    def __str__(self) -> str:
        """Return it in words."""
        if self.kind == "none":
            return "no work per row"
        time = f"{self.seconds * 1e3:g} ms" if self.seconds >= 1e-3 else f"{self.seconds * 1e6:g} µs"
        return f"{time} of {'waiting' if self.kind == 'wait' else 'computing'} per row"
