"""`StreamWatch`: what every micro-batch of a running stream did.

Spark's `observe` counts the rows on their way to the workers. When a batch is done, Spark passes the counts to a
listener, a moment later and in another thread. Under Spark Connect the listener runs in the client.
"""

import hashlib
import json
import os
import secrets
import threading
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from keyspread import checks
from keyspread.checks import least_hot_count
from keyspread.drawing.picture import Drawn, Picture, Trend, hottest_table, of_loads
from keyspread.errors import InputError, KeyspreadError
from keyspread.spark._engine.capabilities import can_observe, has_function
from keyspread.spark._routing.keys import KeyColumn, column, free_name, in_sql
from keyspread.spark._routing.options import Routing, Way
from keyspread.spark.watch import (
    TRACKED,
    Balance,
    key_text,
    read_counts,
    read_hottest,
    read_loads,
    top_items,
    worker_loads,
)

if TYPE_CHECKING:
    from keyspread.live_page.history import RunHistory
    from keyspread.live_page.server import LivePage

_ENDED = 100
"""How many ended queries are remembered."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchSeen(Balance):
    """One micro-batch: its loads and hottest keys, and when and how long it ran.

    `query` is the id of the query, `batch` the number of the batch, `time` its start (UTC), `seconds` its duration.
    `head` is the number of hot keys: those with at least the threshold's share of the batch; it is None, and `hottest`
    empty, where Spark has no `approx_top_k` (before 4.1). `malformed` counts rows that could not be read, where the
    source reports them. `by_hash` has the loads that plain hash partitioning would have given, and `workers_of` the
    workers of each of the hottest keys; they are counted for a live page only.

    >>> import numpy as np
    >>> seen = BatchSeen(np.array([6, 4]), (("a", 5),), query="q", batch=3, time="", seconds=0.5, head=1)
    >>> seen.rows, round(seen.imbalance, 2), seen.to_dict()["hottest"]
    (10, 0.1, [{'key': 'a', 'rows': 5, 'share': 0.5}])
    """

    query: str
    batch: int
    time: str
    seconds: float
    head: int | None
    malformed: int = 0
    by_hash: npt.NDArray[np.int64] | None = None
    workers_of: tuple[tuple[int, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for a line of JSON."""
        hottest: list[dict[str, Any]] = [
            {"key": key, "rows": rows, "share": rows / max(1, self.rows)} for key, rows in self.hottest
        ]
        for one, workers in zip(hottest, self.workers_of, strict=False):
            one["workers"] = list(workers)
        plain = {} if self.by_hash is None else {"loads_by_hash": self.by_hash.tolist()}
        return {
            "batch": self.batch,
            "time": self.time,
            "seconds": self.seconds,
            "rows": self.rows,
            "imbalance": self.imbalance,
            "skew_score": self.skew_score,
            "head": self.head,
            "malformed": self.malformed,
            "loads": self.loads.tolist(),
            **plain,
            "hottest": hottest,
            "query": self.query,
        }


class StreamWatch(StreamingQueryListener, Drawn):
    """Sees every micro-batch of a stream: pass it to one `spread` or `aggregate` as `watch=`, then start the query.

    `batches` holds the last `keep` batches, however long the query runs. `then` lists functions that are called with
    each finished batch, such as `JsonLines("batches.jsonl")`. If one fails, it warns once and the query continues.
    Rows that a sink reads twice are counted twice: persist them in `foreachBatch`. `hide_keys` replaces each key by a
    keyed hash wherever this watch shows it, because keys can be personal data; the same key has the same hash until the
    watch is gone. `serve` shows all of it on a live page.

    >>> import tempfile
    >>> from keyspread.spark import StreamWatch, session, spread
    >>> spark, folder = session(), tempfile.mkdtemp()
    >>> rows = spark.range(1000).selectExpr("if(id % 2 = 0, 0, id) AS k")
    >>> rows.write.parquet(f"{folder}/rows")
    >>> stream, watch = spark.readStream.schema("k bigint").parquet(f"{folder}/rows"), StreamWatch()
    >>> writer = spread(stream, "k", workers=4, watch=watch).writeStream.format("noop")
    >>> query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    >>> query.awaitTermination(60) and watch.wait(query)
    True
    >>> [(seen.batch, seen.rows, seen.hottest[0]) for seen in watch.batches]
    [(0, 1000, ('0', 500))]
    >>> watch.close()
    """

    uses_threshold = True

    def __init__(
        self,
        hottest: int = 10,
        keep: int = 1000,
        then: Sequence[Callable[[BatchSeen], object]] = (),
        hide_keys: bool = False,
    ) -> None:
        self._hottest = checks.whole_number("hottest", hottest, minimum=0)
        self._batches: deque[BatchSeen] = deque(maxlen=checks.whole_number("keep", keep))
        self._then = [_Guarded(function) for function in then]
        # Several queries may report to one session: each watch recognises its own counts by this name.
        self._name = f"keyspread_{uuid.uuid4().hex}"
        self._workers, self._threshold = 0, 0.0
        self._session: SparkSession | None = None
        self._malformed: str | None = None
        self._ended: deque[str] = deque(maxlen=_ENDED)
        self._changed = threading.Condition()
        # A hash without a secret could be looked up: whoever guesses a key can hash it.
        self._secret = secrets.token_bytes(16) if hide_keys else None
        self._history: RunHistory | None = None
        self._page: LivePage | None = None
        self._run = ""  # of the query that this watch counts
        self.way: Way | None = None
        """How `aggregate` computes the result, and why; None for `spread`."""

    @property
    def batches(self) -> tuple[BatchSeen, ...]:
        """The last batches, oldest first."""
        self._check_routed()
        with self._changed:
            return tuple(self._batches)

    def picture(self) -> Picture:
        """Return the load of every worker and the hottest keys over the last batches, and the imbalance of each."""
        batches = self.batches if self._workers else ()
        if not batches:
            return Picture("StreamWatch", "no batch has ended yet", [])
        last = batches[-1]
        rows = sum(seen.rows for seen in batches)
        return Picture(
            f"Stream over {self._workers:,} workers, batch {last.batch}",
            f"{rows:,} rows in the last {len(batches):,} batches, imbalance of the last one {last.imbalance:.2g}",
            [
                of_loads("rows", sum((seen.loads for seen in batches), np.zeros(self._workers, np.int64)).tolist()),
                Trend(
                    f"imbalance per batch: {max(seen.imbalance for seen in batches):.2g} at worst",
                    [seen.imbalance for seen in batches],
                ),
                *([hottest_table(last.hottest, last.rows)] if last.hottest else []),
            ],
        )

    def on(self, routed: DataFrame, key: Sequence[KeyColumn], worker: str, routing: Routing) -> DataFrame:
        """Return the same rows, counted by this watch on their way; from now on it listens to the session."""
        if self._workers:
            raise InputError("this StreamWatch is used already; make a new one for every spread")
        _check_stream(routed)
        if not can_observe(routed):
            raise InputError("a StreamWatch over Spark Connect needs Spark 4.0 or newer; leave watch= out")
        self._workers, self._threshold = routing.workers, routing.threshold
        self._session = routed.sparkSession
        self._session.streams.addListener(self)
        seen = [F.count(F.lit(1)).alias("rows"), worker_loads(routed, worker, routing.workers)]
        if has_function(self._session, "approx_top_k"):
            # As many keys as can be hot, so that the number of hot keys is known.
            seen.append(count_hottest(routed, key, max(1, self._hottest, int(1 / self._threshold))).alias("hottest"))
        if self._history is not None:
            return observe_for_page(routed, self._name, seen, key, routing.workers, worker, self._hottest)
        return routed.observe(self._name, *seen)

    def take(self, way: Way, df: DataFrame) -> None:
        """Remember how `aggregate` computes the result."""
        _check_stream(df)
        self.way = way

    def malformed_in(self, observed: str | None) -> None:
        """Read the number of malformed rows from the count `malformed` that is observed under this name."""
        self._malformed = observed

    def wait(self, query: StreamingQuery, seconds: float = 30) -> bool:
        """Wait until all batches of a query that has ended are known; return False if that takes longer."""
        self._check_routed()
        with self._changed:
            return self._changed.wait_for(lambda: str(query.runId) in self._ended, seconds)

    def serve(
        self, host: str = "127.0.0.1", port: int | None = None, token: str | None = None, title: str = "keyspread"
    ) -> "LivePage":
        """Serve a live page of this watch and return it: open its `url`. Call it before `spread`.

        The page shows the load of every worker, imbalance, rows per second and batch durations over time, the hottest
        keys with their workers, and what plain hash partitioning would have done. It needs `keyspread[page]`.

        Parameters: `host` is 127.0.0.1, which only this machine reaches; any other host needs a `token` of at least 8
        characters, which is then part of the address. `port` is the first free one from 4050 on. `title` is shown.

        Raises an InputError if the host needs a token, if the port is taken, or if rows are being counted already.

        >>> from keyspread.spark import StreamWatch
        >>> page = StreamWatch().serve(port=0)
        >>> page.url.startswith("http://127.0.0.1:")
        True
        >>> page.close()
        """
        from keyspread.live_page.server import LivePage

        if self._page is not None:
            raise InputError(f"this StreamWatch has a page already, at {self._page.url}: open that one")
        self._page = LivePage(self.record(title), host, port, token)
        return self._page

    def record(self, title: str = "keyspread") -> "RunHistory":
        """Return the history of this watch, whose `save` writes the page as a file; no server. Call it before `spread`.

        >>> from keyspread.spark import StreamWatch
        >>> StreamWatch().record("clicks").snapshot()["title"]
        'clicks'
        """
        from keyspread.live_page.history import RunHistory

        if self._workers:
            raise InputError("ask for the page before spread: it needs counts that are part of the query")
        if self._history is None:
            self._history = RunHistory(title)
            self._then.append(_Guarded(self._history.add))
        return self._history

    def close(self) -> None:
        """Stop listening, and stop the page if there is one."""
        if self._page is not None:
            self._page.close()
        if self._session is not None:
            self._session.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (Spark's name, as are those below)
        """Do nothing: there is nothing to count yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Take the counts of a batch, if this watch counted it."""
        progress = event.progress
        counted = progress.observedMetrics.get(self._name)
        if counted is None:
            return
        try:
            seen = self._seen(progress, counted)
        except KeyspreadError as problem:
            warnings.warn(f"batch {progress.batchId} is left out: {problem}", stacklevel=2)
            return
        self._run = str(progress.runId)
        with self._changed:
            self._batches.append(seen)
        for function in self._then:
            function(seen)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch, nothing to count. Spark 3.5.0 requires this method."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Remember that the query has ended. Spark reports all queries of the session, so it may be another one."""
        if self._history is not None and str(event.runId) == self._run:
            self._history.end()
        with self._changed:
            self._ended.append(str(event.runId))
            self._changed.notify_all()

    def _check_routed(self) -> None:
        if self.way is not None and not self._workers:
            raise InputError(f"no row was routed, so there are no batches to show ({self.way})")

    def _seen(self, progress: Any, counted: Any) -> BatchSeen:
        seen = counted if isinstance(counted, dict) else counted.asDict()
        loads = read_loads(seen["loads"], self._workers, seen["rows"])
        keys = read_hottest(seen.get("hottest"))
        least = least_hot_count(self._threshold, int(loads.sum()))
        malformed = progress.observedMetrics.get(self._malformed) if self._malformed is not None else None
        shown = keys[: self._hottest]
        pairs = read_pairs(seen.get("pairs"))
        by_hash = seen.get("by_hash")
        return BatchSeen(
            loads,
            tuple((self._shown(key), rows) for key, rows in shown),
            query=str(progress.id),
            batch=int(progress.batchId),
            time=str(progress.timestamp),
            seconds=progress.batchDuration / 1000,
            head=sum(rows >= least for _, rows in keys) if "hottest" in seen else None,
            malformed=int(malformed["malformed"] or 0) if malformed is not None else 0,
            by_hash=None if by_hash is None else read_loads(by_hash, self._workers, seen["rows"]),
            workers_of=tuple(pairs.get(key, ()) for key, _ in shown) if pairs else (),
        )

    def _shown(self, key: str | None) -> str | None:
        """Return the key as it may be shown."""
        if self._secret is None or key is None:
            return key
        return "#" + hashlib.blake2b(key.encode(), digest_size=5, key=self._secret).hexdigest()


def _check_stream(df: DataFrame) -> None:
    if not df.isStreaming:
        raise InputError("a StreamWatch is for streams, got a bounded DataFrame; use a Watch")


class _Guarded:
    """A function that may fail: the first failure is a warning, later ones are silent."""

    def __init__(self, function: Callable[[BatchSeen], object]) -> None:
        self._function, self._warned = function, False

    def __call__(self, seen: BatchSeen) -> None:
        try:
            self._function(seen)
        except Exception as problem:
            if not self._warned:
                self._warned = True
                warnings.warn(f"batch {seen.batch} was not passed on ({problem}): the query continues", stacklevel=2)


# `JsonLines`: every micro-batch as a line of JSON in a file, for tools that read logs.


class JsonLines:
    """Appends one line of JSON per batch: pass it to a `StreamWatch` in `then`.

    The file is opened for every line, so it may be moved away while the query runs.

    >>> import tempfile
    >>> import numpy as np
    >>> path = tempfile.mkstemp(suffix=".jsonl")[1]
    >>> write = JsonLines(path)
    >>> write(BatchSeen(np.array([5, 5]), query="q", batch=0, time="2026-01-01T00:00:00Z", seconds=0.2, head=1))
    >>> json.loads(open(path).read())["loads"]
    [5, 5]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __call__(self, seen: BatchSeen) -> None:
        """Append one line."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(seen.to_dict(), ensure_ascii=False) + "\n")


# What a live page shows beyond a `StreamWatch`: the load by plain hashing, and the workers of the hottest keys.


_MOST_PAIRS = 10_000
"""Most pairs of a hot key and a worker that are counted."""


def observe_for_page(
    routed: DataFrame, name: str, seen: Sequence[Column], key: Sequence[KeyColumn], workers: int, worker: str, many: int
) -> DataFrame:
    """Return the same rows, observed under this name: `seen`, and the counts `by_hash` and `pairs`.

    `by_hash` counts the rows per partition of Spark's own hash partitioning; read it with `read_loads`. `pairs` finds
    the workers of the `many` hottest keys; read it with `read_pairs`. It is left out where Spark has no `approx_top_k`.
    """
    hashed = free_name(routed, "by_hash")
    rows = routed.withColumn(hashed, F.pmod(F.hash(*(column(routed, part) for part in key)), F.lit(workers)))
    counts = [*seen, worker_loads(rows, in_sql(rows, hashed), workers).alias("by_hash")]
    if many and has_function(routed.sparkSession, "approx_top_k"):
        counts.append(_top_pairs(rows, key, worker, min(_MOST_PAIRS, many * workers)).alias("pairs"))
    return rows.observe(name, *counts).drop(hashed)


def _top_pairs(df: DataFrame, key: Sequence[KeyColumn], worker: str, many: int) -> Column:
    text = F.coalesce(F.concat(F.lit("="), key_text(df, key)), F.lit("null"))
    pair = F.concat(F.col(worker).cast("string"), text)
    return top_items(pair, many, max(TRACKED, 2 * many), is_text=True)


def read_pairs(text: str | None) -> dict[str | None, tuple[int, ...]]:
    """Return the workers of each key, from texts such as '3=anna' for a key and '3null' for the null key.

    >>> read_pairs("=[{3=a=b, 7}, {1null, 2}, {0=a=b, 1}]")
    {'a=b': (0, 3), None: (1,)}
    """
    found: dict[str | None, set[int]] = {}
    for pair, _ in read_counts(text):
        worker, mark, key = (pair or "").partition("=")
        found.setdefault(key if mark else None, set()).add(int(worker.removesuffix("null")))
    return {key: tuple(sorted(workers)) for key, workers in found.items()}


# The hottest keys of the rows of a stream: an aggregate that counts them.
#
# Spark's sketch is slower for longer texts, and a key that is a number takes a third of the time of its text. So keys
# of simple types are counted as they are, and all others as text.


_WHOLE_NUMBERS = (LongType, IntegerType, ShortType, ByteType)
_MOST_TRACKED = 1_000_000  # Spark's own limit


def count_hottest(df: DataFrame, key: Sequence[KeyColumn], many: int) -> Column:
    """Return an aggregate that finds the `many` hottest keys; read its value with `read_hottest`.

    Counts are exact while the sketch has room for all keys, and otherwise off by at most rows / 7,500.
    """
    kind = df.select(column(df, key[0])).schema[0].dataType if len(key) == 1 else None
    is_number = isinstance(kind, _WHOLE_NUMBERS)
    counted = column(df, key[0]) if is_number or isinstance(kind, StringType) else key_text(df, key)
    tracked = min(_MOST_TRACKED, max(TRACKED, 8 * many))
    return top_items(counted, min(many, tracked), tracked, is_text=not is_number)
