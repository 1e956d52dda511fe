"""What a page shows of a run, in bounded memory: the course of all batches, thinned out, and the last batch in full."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from keyspread.errors import InputError

POINTS = 240
"""Most points of the course. One more, and neighbours are merged: the course always covers the whole run."""

BUSIEST, LEAST_BUSY, BUSIEST_BY_HASH = 24, 8, 16
"""Workers that are shown where there are more than all of these."""


class Batch(Protocol):
    """What the history needs to know of a batch; a `BatchSeen` has it."""

    @property
    def loads(self) -> npt.NDArray[np.int64]:
        """Rows of every worker."""

    @property
    def hottest(self) -> tuple[tuple[str | None, int], ...]:
        """The hottest keys and their rows."""

    @property
    def batch(self) -> int:
        """Its number."""

    @property
    def time(self) -> str:
        """Its start, in ISO format."""

    @property
    def seconds(self) -> float:
        """Its duration."""

    @property
    def head(self) -> int | None:
        """The number of hot keys."""

    @property
    def malformed(self) -> int:
        """Rows that could not be read."""

    @property
    def by_hash(self) -> npt.NDArray[np.int64] | None:
        """Rows of every worker if rows were partitioned by a hash of the key, as Spark does."""

    @property
    def workers_of(self) -> tuple[tuple[int, ...], ...]:
        """The workers of each of the hottest keys."""


@dataclass
class _Point:
    """One or several batches in a row."""

    start: float
    batch: int
    batches: int
    rows: int
    seconds: float
    longest: float
    wall: float
    busiest: float
    by_hash: float | None

    def merged(self, later: "_Point") -> "_Point":
        both = [one for one in (self.by_hash, later.by_hash) if one is not None]
        return _Point(
            self.start,
            self.batch,
            self.batches + later.batches,
            self.rows + later.rows,
            self.seconds + later.seconds,
            max(self.longest, later.longest),
            self.wall + later.wall,
            max(self.busiest, later.busiest),  # a peak stays visible
            max(both) if both else None,
        )

    def to_list(self) -> list[float | int | None]:
        """Return start, first batch, batches, rows per second, mean and longest duration, busiest worker, by hash."""
        rate = self.rows / self.wall if self.wall else 0.0
        by_hash = None if self.by_hash is None else round(self.by_hash, 4)
        mean = self.seconds / self.batches
        seconds = (round(mean, 3), round(self.longest, 3))
        return [
            round(self.start, 3),
            self.batch,
            self.batches,
            round(rate, 2),
            *seconds,
            round(self.busiest, 4),
            by_hash,
        ]


class RunHistory:
    """Takes every batch and returns what the page shows; never larger, however long the stream runs.

    `add` takes a few microseconds and waits for no one but another call.

    >>> history = RunHistory("clicks")
    >>> history.snapshot()["points"], history.version
    ([], 0)
    """

    def __init__(self, title: str, points: int = POINTS) -> None:
        self._title, self._most = title, points
        self._points: list[_Point] = []
        self._last: Batch | None = None
        self._start: float | None = None
        self._rows = self._malformed = self._batches = 0
        self._sum, self._worst, self._filled = 0.0, 0.0, 0
        self._worst_by_hash: float | None = None
        self._running, self._version = True, 0
        self._ended: float | None = None
        self._lock = threading.Lock()

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._version

    def add(self, seen: Batch) -> None:
        """Take a batch that is done."""
        start = _seconds(seen.time)
        busiest = busiest_of(seen.loads)
        by_hash = None if seen.by_hash is None else busiest_of(seen.by_hash)
        rows = int(seen.loads.sum())
        with self._lock:
            # The rows of a batch arrived since the one before it started. Of the first one, only the duration is known.
            wall = seen.seconds if self._start is None else max(start - self._start, 0.001)
            self._start = start
            self._points.append(_Point(start, seen.batch, 1, rows, seen.seconds, seen.seconds, wall, busiest, by_hash))
            if len(self._points) > self._most:
                self._points = _halved(self._points)
            self._last = seen
            self._rows += rows
            self._batches += 1
            self._malformed += seen.malformed
            if rows:  # an empty batch has no imbalance
                self._filled += 1
                self._sum += busiest
                self._worst = max(self._worst, busiest)
                if by_hash is not None:
                    self._worst_by_hash = max(self._worst_by_hash or 0.0, by_hash)
            self._running = True
            self._version += 1

    def end(self) -> None:
        """Say that the stream has ended."""
        with self._lock:
            self._running, self._ended = False, time.time()
            self._version += 1

    def save(self, path: str) -> None:
        """Write the page as it is now to a file: the report of the run."""
        from keyspread.live_page.server import render

        try:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(render(self.snapshot()))
        except OSError as problem:
            raise InputError(f"the page cannot be written to {path} ({problem.strerror}): name another file") from None

    def snapshot(self) -> dict[str, Any]:
        """Return all that the page shows, as plain values."""
        with self._lock:
            points = [point.to_list() for point in self._points]
            last = self._last
            found: dict[str, Any] = {
                "title": self._title,
                "version": self._version,
                "running": self._running,
                "ended": self._ended,
                "batches": self._batches,
                "rows": self._rows,
                "malformed": self._malformed,
                "mean_busiest": self._sum / self._filled if self._filled else None,
                "worst_busiest": self._worst if self._filled else None,
                "worst_by_hash": self._worst_by_hash,
                "points": points,
            }
        found["last"] = None if last is None else _last(last)
        return found


def busiest_of(loads: npt.NDArray[np.int64]) -> float:
    """Return the rows of the busiest worker as a multiple of the even share; 1 without rows.

    >>> busiest_of(np.array([30, 10, 20]))
    1.5
    """
    rows = int(loads.sum())
    return float(loads.max()) * loads.size / rows if rows else 1.0


def _halved(points: list[_Point]) -> list[_Point]:
    """Merge neighbours two by two; the last point stays alone if their number is odd."""
    pairs = zip(points[::2], points[1::2], strict=False)
    merged = [one.merged(other) for one, other in pairs]
    return merged + (points[-1:] if len(points) % 2 else [])


def _last(seen: Batch) -> dict[str, Any]:
    rows, n = int(seen.loads.sum()), seen.loads.size
    workers_of: Sequence[Sequence[int] | None] = seen.workers_of or [None] * len(seen.hottest)
    shown = _shown(seen.loads, seen.by_hash)
    return {
        "batch": seen.batch,
        "time": seen.time,
        "seconds": round(seen.seconds, 3),
        "rows": rows,
        "workers": n,
        "imbalance": float(seen.loads.max()) / rows - 1 / n if rows else 0.0,
        "busiest": busiest_of(seen.loads),
        "by_hash": None if seen.by_hash is None else busiest_of(seen.by_hash),
        "head": seen.head,
        "loads": [
            [worker, int(seen.loads[worker]), None if seen.by_hash is None else int(seen.by_hash[worker])]
            for worker in shown
        ],
        "hottest": [
            {"key": key, "rows": found, "workers": None if on is None else list(on)}
            for (key, found), on in zip(seen.hottest, workers_of, strict=False)
        ],
    }


def _shown(loads: npt.NDArray[np.int64], by_hash: npt.NDArray[np.int64] | None) -> list[int]:
    """Return the workers to show: all of them, or the busiest, the least busy, and the busiest by hash."""
    if loads.size <= BUSIEST + LEAST_BUSY + BUSIEST_BY_HASH:
        return list(range(loads.size))
    order = np.argsort(-loads, kind="stable")
    chosen = {*order[:BUSIEST].tolist(), *order[-LEAST_BUSY:].tolist()}
    if by_hash is not None:
        chosen |= set(np.argsort(-by_hash, kind="stable")[:BUSIEST_BY_HASH].tolist())
    return sorted(chosen)


def _seconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # a batch without a time, as in examples
        return time.time()
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
