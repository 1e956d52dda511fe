"""Looking ahead on Spark: the function reads its whole partition (8 bytes a row) before it answers, then plans it.

In a stream with a checkpoint the partitions plan around what all of them saw in the batch before.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from keyspread.look_ahead import Memory, check_options, common_plan, deal
from keyspread.plans import Plan
from keyspread.spark.remembered import Remembered, this_task


def look_ahead_worker(
    key_hash: Column, workers: int, checkpoint: str | None = None, threshold: float | None = None, **options: Any
) -> Column:
    """Give the worker of each row, planned by its partition; `source` is the partition's number.

    It depends on the rows of the partition and on what the batch before left under the checkpoint, nothing else.
    """
    check_options({"threshold": threshold, **options})
    remembered = None if checkpoint is None else Remembered.under(checkpoint)
    router: Any = F.arrow_udf(_router(workers, remembered, threshold), "int")  # type: ignore[attr-defined]
    # Without this the optimizer may evaluate the function twice, each time for other rows.
    worker: Column = router.asNondeterministic()(key_hash)
    return worker


def _router(
    workers: int, remembered: Remembered | None, threshold: float | None
) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        source, batch = this_task()
        parts = [part.to_numpy() for part in batches]
        hashes = np.concatenate([np.empty(0, np.int64), *parts])
        common = _common(workers, remembered, batch, threshold)
        routed, memory = deal(hashes, common, source=source, threshold=threshold)
        if remembered is not None and batch is not None and hashes.size:
            remembered.write(batch, source, memory.to_bytes())
        begin = 0
        for part in parts:
            yield pa.array(routed[begin : begin + part.size])
            begin += part.size

    return route


@lru_cache(maxsize=4)
def _common(workers: int, remembered: Remembered | None, batch: int | None, threshold: float | None) -> Plan:
    """Make the common plan once a Python worker and batch: what the batch before left does not change any more."""
    memories = [] if remembered is None or batch is None else remembered.before(batch, Memory.from_bytes)
    return common_plan(memories, workers, threshold)
