"""What every micro-batch of a running stream did: `StreamWatch`, the `Watch` of streams.

The rows are counted as they pass (Spark's `observe`), and Spark tells the counts to a listener when a batch is done, a
moment later and in another thread. Under Spark Connect the listener is in the client.
"""

import threading
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from keyspread import checks
from keyspread.errors import InputError, KeyspreadError
from keyspread.planned.look_ahead import Memory, workers_of
from keyspread.spark.routing.hot_keys import HotKeys, count_hottest
from keyspread.spark.streaming.storage import Folder
from keyspread.spark.watch import Balance, worker_loads
from keyspread.threshold import checked_threshold, least_hot_count

_ENDED = 100
"""Queries whose end is remembered."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchSeen(Balance):
    """One micro-batch: besides its loads and hottest keys, what was learned of it.

    `head` is the number of keys with at least the threshold's share of the batch. `choices` are the workers that each
    of the hottest keys had, and `moved` is the share of rows for which the table common to all senders names another
    worker than in the batch before; both are known where look-ahead remembers (`checkpoint=`), else None.
    """

    query: str
    batch: int
    time: str
    seconds: float
    head: int
    choices: tuple[int, ...] | None = None
    moved: float | None = None
    malformed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values, a line of JSON."""
        choices = self.choices or [None] * len(self.hottest)
        return {
            "batch": self.batch,
            "time": self.time,
            "seconds": self.seconds,
            "rows": self.rows,
            "imbalance": self.imbalance,
            "skew_score": self.skew_score,
            "head": self.head,
            "moved": self.moved,
            "malformed": self.malformed,
            "loads": self.loads.tolist(),
            "hottest": [
                {"key": key, "rows": rows, "share": rows / max(1, self.rows), "workers": workers}
                for (key, rows), workers in zip(self.hottest, choices, strict=True)
            ],
            "query": self.query,
        }


class StreamWatch(StreamingQueryListener):
    """Sees every micro-batch of a stream: pass it to one `spread` or `aggregate` as `watch=`, then start the query.

    `batches` are the last `keep` of them, however long the query runs. `then` are functions that get each one when it
    is done, such as `JsonLines("batches.jsonl")`; one that fails is warned of once, and the query goes on. Rows that
    a sink reads twice are counted twice: persist them in `foreachBatch`.
    """

    def __init__(self, hottest: int = 10, keep: int = 1000, then: Sequence[Callable[[BatchSeen], object]] = ()) -> None:
        self._hottest = checks.whole_number("hottest", hottest, minimum=0)
        self._batches: deque[BatchSeen] = deque(maxlen=checks.whole_number("keep", keep))
        self._then = [_Guarded(one) for one in then]
        # Several queries may report to one session: each watch finds its own by this name.
        self._name = f"keyspread_{uuid.uuid4().hex}"
        self._workers, self._threshold = 0, 0.0
        self._session: SparkSession | None = None
        self._read_hottest: Callable[[Any], HotKeys] = lambda found: []
        self._memories: Folder | None = None
        self._malformed: str | None = None
        self._ended: deque[str] = deque(maxlen=_ENDED)
        self._told = threading.Condition()

    @property
    def batches(self) -> tuple[BatchSeen, ...]:
        """The last batches, oldest first."""
        with self._told:
            return tuple(self._batches)

    def on(
        self, routed: DataFrame, names: Sequence[str], workers: int, worker: str, options: Mapping[str, Any]
    ) -> DataFrame:
        """Give the same rows, seen by this watch when they pass; from now on it listens to the session."""
        if self._workers:
            raise InputError("this StreamWatch has been on a spread already; make another one")
        if not routed.isStreaming:
            raise InputError("a StreamWatch is for streams, got a bounded DataFrame; use a Watch")
        threshold = options.get("threshold")
        self._workers = workers
        self._threshold = checked_threshold(threshold, workers)
        checkpoint = options.get("checkpoint")
        self._memories = None if checkpoint is None else Folder(Folder(checkpoint).at("keyspread"))
        self._session = routed.sparkSession
        self._session.streams.addListener(self)
        # All that may be hot, so that their number is known.
        hottest, self._read_hottest = count_hottest(routed, names, max(1, self._hottest, int(1 / self._threshold)))
        return routed.observe(self._name, worker_loads(worker, workers), hottest.alias("hottest"))

    def malformed_in(self, observed: str | None) -> None:
        """Take the number of malformed rows from the count `malformed` that is observed under this name."""
        self._malformed = observed

    def wait(self, query: StreamingQuery, seconds: float = 30) -> bool:
        """Wait until everything is told of a query that has ended; False if that takes longer."""
        with self._told:
            return self._told.wait_for(lambda: str(query.runId) in self._ended, seconds)

    def close(self) -> None:
        """Listen no longer."""
        if self._session is not None:
            self._session.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (Spark's name, and those below)
        """Nothing yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Take what was counted, if it was counted by this watch."""
        progress = event.progress
        counted = progress.observedMetrics.get(self._name)
        if counted is None:
            return
        seen = self._seen(progress, counted)
        with self._told:
            self._batches.append(seen)
        for one in self._then:
            one(seen)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Remember that there is no more to come of this query."""
        with self._told:
            self._ended.append(str(event.runId))
            self._told.notify_all()

    def _seen(self, progress: Any, counted: Any) -> BatchSeen:
        loads = np.zeros(self._workers, np.int64)
        for item in counted["loads"] or ():
            loads[item["item"]] = item["count"]
        keys = self._read_hottest(counted["hottest"])
        shown = keys[: self._hottest]
        choices, moved = self._learned(progress.batchId, [key for key, _, _ in shown])
        least = least_hot_count(self._threshold, int(loads.sum()))
        malformed = progress.observedMetrics.get(self._malformed) if self._malformed is not None else None
        return BatchSeen(
            loads,
            tuple((text, rows) for _, text, rows in shown),
            query=str(progress.id),
            batch=int(progress.batchId),
            time=str(progress.timestamp),
            seconds=progress.batchDuration / 1000,
            head=sum(rows >= least for _, _, rows in keys),
            choices=choices,
            moved=moved,
            malformed=int(malformed["malformed"] or 0) if malformed is not None else 0,
        )

    def _learned(self, batch: int, keys: list[int]) -> tuple[tuple[int, ...] | None, float | None]:
        """Give what the senders' memories of the batch tell: the workers of these keys, and how much moved."""
        if self._memories is None:
            return None, None
        own = f"{batch:012d}"
        try:
            memories = {
                int(source): Memory.from_bytes(self._memories.read(own, source))
                for source in self._memories.names(own)
                if source.isdigit()
            }
        except (OSError, KeyspreadError):  # lost, damaged, or left by another scheme
            return None, None
        if not memories:
            return None, None
        had = workers_of(keys, memories)
        return tuple(had[key] for key in keys), next(iter(memories.values())).common.moved


class _Guarded:
    """A function that may fail: the first time is a warning, all others are silent."""

    def __init__(self, function: Callable[[BatchSeen], object]) -> None:
        self._function, self._warned = function, False

    def __call__(self, seen: BatchSeen) -> None:
        try:
            self._function(seen)
        except Exception as problem:
            if not self._warned:
                self._warned = True
                warnings.warn(f"batch {seen.batch} was not passed on ({problem}): the query goes on", stacklevel=2)
