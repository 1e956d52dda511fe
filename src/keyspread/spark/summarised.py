"""Counting a DataFrame in one pass: buckets exactly, hot keys by summaries of the partitions, merged on the driver."""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from keyspread.heavy_hitters import SpaceSaving
from keyspread.metrics import hot_from
from keyspread.placing import Counts
from keyspread.plans import buckets_of

_SHARPNESS = 10  # counters for each key that could be hot: its share is known to a tenth of the threshold
_SCHEMA = ", ".join(f"{name} array<bigint>" for name in ("buckets", "keys", "counts", "errors", "totals"))


def summarised(rows: DataFrame, buckets: int, threshold: float) -> Counts:
    """Count `hash` and `weight`. A key's share is off by a tenth of the threshold at most; buckets are exact."""
    capacity = int(_SHARPNESS / threshold) + 1
    parts = rows.mapInArrow(_counter(buckets, capacity), _SCHEMA).toArrow().to_pylist()
    loads = np.zeros(buckets, np.int64)
    summaries = [SpaceSaving(capacity)]
    for part in parts:
        loads += np.array(part.pop("buckets"), np.int64)
        summaries.append(SpaceSaving.of_counters(capacity, **part))
    at_least = hot_from(threshold, int(loads.sum()))
    hot = []
    for key, lower, upper in reduce(SpaceSaving.merge, summaries).head(threshold):
        bucket = int(buckets_of(np.array([key], np.int64), buckets)[0])
        own = min((lower + upper) // 2, int(loads[bucket]))  # the middle: off by half of what is not known
        if own >= at_least:
            loads[bucket] -= own
            hot.append((key, own))
    return Counts(loads, tuple(sorted(hot, key=lambda one: (-one[1], one[0]))))


def _counter(buckets: int, capacity: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loads, summary = np.zeros(buckets, np.int64), SpaceSaving(capacity)
        for batch in batches:
            hashes, weights = (column.to_numpy() for column in batch.columns)
            np.add.at(loads, buckets_of(hashes, buckets), weights)
            summary.offer_many(hashes, weights)
        if summary.total:
            counted = {"buckets": loads, **summary.counters()}
            columns = [pa.array([values.tolist()], pa.list_(pa.int64())) for values in counted.values()]
            yield pa.RecordBatch.from_arrays(columns, names=list(counted))

    return count
