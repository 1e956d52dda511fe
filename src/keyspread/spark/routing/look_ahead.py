"""Looking ahead on Spark: the function reads its whole partition (8 bytes a row) before it answers, then plans it.

In a stream with a checkpoint the partitions plan around what all of them saw in the batch before.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column

from keyspread import checks
from keyspread.planned.look_ahead import Memory, common_plan, deal
from keyspread.planned.plan import Plan
from keyspread.schemes import LOOK_AHEAD, resolve
from keyspread.spark.routing.worker_udf import Columns, Route, arrays, worker_column
from keyspread.spark.streaming.remembered import Remembered, this_task
from keyspread.threshold import checked_threshold

_NOTHING = np.empty(0, np.int64)


def look_ahead_worker(
    key_hash: Column,
    workers: int,
    weight: Column | None = None,
    checkpoint: str | None = None,
    threshold: float | None = None,
    capacities: Sequence[float] | None = None,
    **options: Any,
) -> Column:
    """Give the worker of each row, planned by its partition; `source` is the partition's number.

    It depends on the rows of the partition and on what the batch before left under the checkpoint, nothing else.
    """
    resolve(LOOK_AHEAD).accept(options, also=("seed",))
    checked_threshold(threshold, workers)
    checks.capacities(capacities, workers)
    told = None if capacities is None else tuple(capacities)
    remembered = None if checkpoint is None else Remembered.under(checkpoint)
    return worker_column(_router(workers, remembered, threshold, told), key_hash, weight)


def _router(
    workers: int, remembered: Remembered | None, threshold: float | None, capacities: tuple[float, ...] | None
) -> Route:
    def route(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        source, batch = this_task()
        parts = [arrays(columns) for columns in batches]
        hashes, *weights = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else [_NOTHING]
        common = _common(workers, remembered, batch, threshold, capacities)
        own = weights[0] if weights else None
        routed, memory = deal(hashes, common, source=source, threshold=threshold, weights=own)
        if remembered is not None and batch is not None and hashes.size:
            remembered.write(batch, source, memory.to_bytes())
        begin = 0
        for part, *_ in parts:
            yield pa.array(routed[begin : begin + part.size])
            begin += part.size

    return route


@lru_cache(maxsize=4)
def _common(
    workers: int,
    remembered: Remembered | None,
    batch: int | None,
    threshold: float | None,
    capacities: tuple[float, ...] | None,
) -> Plan:
    """Make the common plan once a Python worker and batch: what the batch before left does not change any more."""
    memories = [] if remembered is None or batch is None else remembered.before(batch, Memory.from_bytes)
    return common_plan(memories, workers, threshold, capacities)
