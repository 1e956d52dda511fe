"""A sample of the rows that reads a share of the input splits, not all rows."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

_SPARSEST = 32  # at least one split in so many is read, so that a DataFrame of few splits is not missed for long


def sparsest_step(share: float) -> int:
    """Return the number of splits of which one is read, for a sample of this share."""
    return max(1, min(_SPARSEST, int(1 / share)))


def sample_splits(rows: DataFrame, share: float, seed: int, step: int) -> DataFrame:
    """Return about this share of the rows: every step-th split is read, and of its rows a share of `share * step`.

    A task of any other split ends before it has read a row. The rows are the same every time, if the order of the rows
    within a split is.
    """
    return rows.mapInArrow(_picker(min(1.0, share * step), seed, step), rows.schema)


def _picker(rate: float, seed: int, step: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pick(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        split = task.partitionId()
        if split % step != seed % step:
            return
        random = np.random.default_rng([seed, split])
        for batch in batches:
            yield batch if rate == 1 else batch.filter(pa.array(random.random(batch.num_rows) < rate))

    return pick
