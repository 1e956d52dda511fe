"""Throughput: a batch from the first send to the last merged result, by the clocks of the driver and the workers.

The clocks of several machines are taken to agree, within what a network's time gives: milliseconds.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.deployment.answer_check import check_exact
from keyspread.deployment.emulated_work import begin_work
from keyspread.deployment.measurements import ThroughputRun
from keyspread.deployment.setup import Setup
from keyspread.spark.spread import spread

_TOLD = "worker int, began double, ended double, messages bigint, keys bigint, bytes bigint"
_TOLD_TYPE = pa.struct(
    [("worker", pa.int32()), ("began", pa.float64()), ("ended", pa.float64())]
    + [(name, pa.int64()) for name in ("messages", "keys", "bytes")]
)


def measure_throughput(
    rows: DataFrame, setup: Setup, skew: float, scheme: str, messages: int, repetition: int
) -> ThroughputRun:
    """Send so many of the messages that wait at their sources (`arriving.py`), once."""
    own = rows.where(F.col("id") < messages).select("key")
    begin = time.time()
    merged = _merged(spread(own, "key", setup.workers, scheme), setup).collect()
    end = time.time()
    check_exact(setup.stream(skew, messages), {row.key: row.messages for row in merged})
    told = [one for row in merged for one in row.told]
    first, last = min(one.began for one in told), max(one.ended for one in told)
    busy = np.zeros(setup.workers)
    busy[[one.worker for one in told]] = [one.ended - one.began for one in told]
    return ThroughputRun(
        skew=skew,
        scheme=scheme,
        repetition=repetition,
        messages=messages,
        seconds=end - begin,
        sending=first - begin,
        working=last - first,
        merging=end - last,
        late=max(one.began for one in told) - first,
        busiest=float(busy.max()),
        median_busy=float(np.median(busy)),
        idlest=float(busy.min()),
        longest_queue=max(one.messages for one in told),
        replicas=sum(one["keys"] for one in told),
        most_replicas=max(one["keys"] for one in told),
        state_bytes=sum(one.bytes for one in told),
    )


def _merged(dealt: DataFrame, setup: Setup) -> DataFrame:
    """Count on the workers, merge by key; what a worker tells of itself comes along with the first of its keys."""
    parts = dealt.mapInArrow(
        _counting(setup.work, setup.work_seconds), f"key bigint, messages bigint, told struct<{_columns(_TOLD)}>"
    )
    # `collect_list` leaves out nulls.
    return parts.groupBy("key").agg(F.sum("messages").alias("messages"), F.collect_list("told").alias("told"))


def _columns(schema: str) -> str:
    return schema.replace(" ", ":").replace(",:", ",")


def _counting(kind: str, seconds: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the worker: a message at a time, its state a count for each key."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        began = time.time()
        work = begin_work(kind, seconds)
        state: Counter[int] = Counter()
        for batch in batches:
            for key in batch.column(0).to_pylist():
                state[key] += 1
                work.do()
        ended = work.end()
        if not state:
            return
        keys, counts = pa.array(list(state), pa.int64()), pa.array(list(state.values()), pa.int64())
        told: dict[str, Any] = {"worker": task.partitionId(), "began": began, "ended": ended}
        told |= {"messages": state.total(), "keys": len(state), "bytes": keys.nbytes + counts.nbytes}
        yield pa.record_batch(
            {"key": keys, "messages": counts, "told": pa.array([told] + [None] * (len(state) - 1), _TOLD_TYPE)}
        )

    return count
