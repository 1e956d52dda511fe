"""The messages of a live benchmark: Zipf keys, sent at one rate after the other."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keyspread.hashing import hash_keys
from keyspread.streams import ZipfStream

_FIRST, _LATER = 6.0, 2.0  # tasks start and the JVM compiles; later on, queues fill


@dataclass(frozen=True)
class Step:
    """Messages begin … end - 1, at one rate; those before `counted` do not count."""

    rate: float
    begin: int
    counted: int
    end: int


@dataclass(frozen=True)
class Load:
    """Messages at rising rates; the work on each of them takes the same time."""

    skew: float
    rates: tuple[float, ...]
    """Messages per second. All messages of a rate are finished before the next one starts."""
    seconds: float
    """Seconds per rate that count, after a few that do not."""
    milliseconds: float
    """Work per message."""
    sources: int = 4
    keys: int = 10_000
    text: bool = False
    """Keys are strings instead of numbers, which changes their hashes and so their workers."""

    @property
    def work(self) -> float:
        """Seconds of work per message."""
        return self.milliseconds / 1000

    def steps(self) -> Iterator[Step]:
        """Return the messages of each rate.

        >>> [(step.begin, step.counted, step.end) for step in Load(2.0, (10, 20), 5, 1).steps()]
        [(0, 60, 110), (110, 150, 250)]
        """
        begin = 0
        for rate in self.rates:
            counted = begin + math.ceil(rate * (_LATER if begin else _FIRST))
            end = counted + max(1, round(rate * self.seconds))
            yield Step(rate, begin, counted, end)
            begin = end

    def drawn(self) -> npt.NDArray[np.int32]:
        """Return the keys of all messages."""
        messages = list(self.steps())[-1].end
        return ZipfStream(self.skew, self.keys, messages).law().draw(0, messages)

    def hashes(self) -> npt.NDArray[np.int64]:
        """Return the hashes of the keys of all messages."""
        keys = self.drawn()
        return hash_keys([str(key) for key in keys.tolist()] if self.text else keys.astype(np.int64))
