"""Throughput: a batch from the first send to the last merged result, by the clocks of the driver and the workers.

The clocks of several machines are assumed to agree within the accuracy of network time: milliseconds.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.deployment.emulated_work import Work
from keyspread.deployment.measurements import ThroughputRun
from keyspread.deployment.setup import Setup
from keyspread.deployment.source_messages import check_exact
from keyspread.spark.spread import spread

_REPORT = "worker int, began double, ended double, messages bigint, keys bigint, bytes bigint"
_REPORT_TYPE = pa.struct(
    [("worker", pa.int32()), ("began", pa.float64()), ("ended", pa.float64())]
    + [(name, pa.int64()) for name in ("messages", "keys", "bytes")]
)


def measure_throughput(
    rows: DataFrame, setup: Setup, skew: float, scheme: str, messages: int, repetition: int
) -> ThroughputRun:
    """Send the first `messages` of the rows that wait at their sources (source_messages.py), once."""
    sent = rows.where(F.col("id") < messages).select("key")
    begin = time.time()
    merged = _merged(spread(sent, "key", setup.workers, scheme), setup).collect()
    end = time.time()
    check_exact(setup.stream(skew, messages), {row.key: row.messages for row in merged})
    reports = [report for row in merged for report in row.report]
    first, last = min(report.began for report in reports), max(report.ended for report in reports)
    busy = np.zeros(setup.workers)
    busy[[report.worker for report in reports]] = [report.ended - report.began for report in reports]
    return ThroughputRun(
        skew=skew,
        scheme=scheme,
        repetition=repetition,
        messages=messages,
        seconds=end - begin,
        sending=first - begin,
        working=last - first,
        merging=end - last,
        late=max(report.began for report in reports) - first,
        busiest=float(busy.max()),
        median_busy=float(np.median(busy)),
        longest_queue=max(report.messages for report in reports),
        replicas=sum(report["keys"] for report in reports),
        state_bytes=sum(report.bytes for report in reports),
    )


def _merged(routed: DataFrame, setup: Setup) -> DataFrame:
    """Count on the workers and merge by key; the report of a worker travels with the first of its keys."""
    parts = routed.mapInArrow(
        _counting(setup.work_seconds), f"key bigint, messages bigint, report struct<{_columns(_REPORT)}>"
    )
    # `collect_list` ignores nulls.
    return parts.groupBy("key").agg(F.sum("messages").alias("messages"), F.collect_list("report").alias("report"))


def _columns(schema: str) -> str:
    return schema.replace(" ", ":").replace(",:", ",")


def _counting(seconds: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the worker: it works on one message at a time, and its state is a count per key."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        began = time.time()
        work = Work(seconds)
        state: Counter[int] = Counter()
        for batch in batches:
            for key in batch.column(0).to_pylist():
                state[key] += 1
                work.do()
        ended = work.end()
        if not state:
            return
        keys, counts = pa.array(list(state), pa.int64()), pa.array(list(state.values()), pa.int64())
        report: dict[str, Any] = {"worker": task.partitionId(), "began": began, "ended": ended}
        report |= {"messages": state.total(), "keys": len(state), "bytes": keys.nbytes + counts.nbytes}
        yield pa.record_batch(
            {"key": keys, "messages": counts, "report": pa.array([report] + [None] * (len(state) - 1), _REPORT_TYPE)}
        )

    return count
