"""Counting for a plan: the load of every bucket and the hot keys, exactly or from merged summaries."""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.heavy_hitters import SpaceSaving
from keyspread.planned.packing import Counts
from keyspread.planned.plan import buckets_of
from keyspread.spark.capabilities import to_arrow
from keyspread.spark.routing.planned_sql import bucket_of, constant_array, element, slot_of
from keyspread.threshold import least_hot_count

_COUNTERS_PER_HOT_KEY = 10  # counters per key that could be hot: its share is known to a tenth of the threshold
_SCHEMA = ", ".join(f"{name} array<bigint>" for name in ("buckets", "keys", "counts", "errors", "totals"))

CELL_BITS = 7  # hot keys are counted in 128 cells of slots, enough to cut them to well below 1 % of a worker


def count_buckets(rows: DataFrame, buckets: int) -> npt.NDArray[np.int64]:
    """Return the sum of the weights in each bucket."""
    bucket = bucket_of(F.col("hash"), buckets).alias("bucket")
    found = to_arrow(rows.groupBy(bucket).agg(F.sum("weight").alias("load"), F.min("weight").alias("least")))
    if found.num_rows and (least := pc.min(found["least"]).as_py()) < 0:
        raise InputError(f"a weight must not be negative, got {least}; drop such rows, or set their weight to 0")
    loads = np.zeros(buckets, np.int64)
    loads[np.asarray(found["bucket"])] = np.asarray(found["load"])
    return loads


def count_hot(
    rows: DataFrame, bucket_loads: npt.NDArray[np.int64], threshold: float
) -> tuple[tuple[tuple[int, int], ...], dict[int, npt.NDArray[np.int64]]]:
    """Return the hot keys with their rows, and how those rows are spread over the cells of slots.

    A key is in one bucket, so a bucket below the threshold contains no hot key.
    """
    at_least = least_hot_count(threshold, int(bucket_loads.sum()))
    heavy = bucket_loads >= max(at_least, 1)
    if not heavy.any():
        return (), {}
    cell = F.shiftright(slot_of(F.monotonically_increasing_id()), 31 - CELL_BITS)
    found = to_arrow(
        rows.withColumn("cell", cell)
        .where(element(constant_array(heavy.astype(np.int64)), bucket_of(F.col("hash"), heavy.size)) == 1)
        .groupBy("hash", "cell")
        .agg(F.sum("weight").alias("rows"))
        # Only hot keys are collected: a heavy bucket may contain any number of other keys.
        .groupBy("hash")
        .agg(F.sum("rows").alias("messages"), F.collect_list(F.struct("cell", "rows")).alias("cells"))
        .where(F.col("messages") >= at_least)
    )
    hot, cells = [], {}
    for row in found.to_pylist():
        hot.append((row["hash"], row["messages"]))
        counted = cells[row["hash"]] = np.zeros(1 << CELL_BITS, np.int64)
        for cell_rows in row["cells"]:
            counted[cell_rows["cell"]] = cell_rows["rows"]
    return _hottest_first(hot), cells


def count_by_summaries(rows: DataFrame, buckets: int, threshold: float) -> Counts:
    """Count rows in one pass. A key's share is off by at most a tenth of the threshold; buckets are exact."""
    capacity = int(_COUNTERS_PER_HOT_KEY / threshold) + 1
    parts = to_arrow(rows.mapInArrow(_counter(buckets, capacity), _SCHEMA)).to_pylist()
    loads = np.zeros(buckets, np.int64)
    summaries = [SpaceSaving(capacity)]
    for part in parts:
        loads += np.array(part.pop("buckets"), np.int64)
        summaries.append(SpaceSaving.of_counters(capacity, **part))
    at_least = least_hot_count(threshold, int(loads.sum()))
    hot = []
    for key, lower, upper in reduce(SpaceSaving.merge, summaries).head(threshold):
        bucket = int(buckets_of(np.array([key], np.int64), buckets)[0])
        estimate = min((lower + upper) // 2, int(loads[bucket]))  # the middle: off by at most half of the gap
        if estimate >= at_least:
            loads[bucket] -= estimate
            hot.append((key, estimate))
    return Counts(loads, _hottest_first(hot))


def _hottest_first(hot: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(hot, key=lambda counted: (-counted[1], counted[0])))


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
