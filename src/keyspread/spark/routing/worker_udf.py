"""A Python routing function as a Spark column: Arrow arrays of hashes (and weights) in, arrays of workers out."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F

Columns = Any  # one pa.Array, or a tuple of them
Route = Callable[[Iterator[Columns]], Iterator[pa.Array]]


def worker_column(route: Route, key_hash: Column, weight: Column | None) -> Column:
    """Return a column with the worker that `route` chooses for each row.

    Spark calls the function once per task and reads from its annotations how many columns it takes.
    """

    def by_hash(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return route(batches)

    def by_hash_and_weight(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return route(batches)

    function: Any = F.arrow_udf(by_hash if weight is None else by_hash_and_weight, "int")  # type: ignore[attr-defined]
    # Without this the optimizer may evaluate it twice, and the second time its state or its rows are different.
    function = function.asNondeterministic()
    worker: Column = function(key_hash) if weight is None else function(key_hash, weight)
    return worker


def this_source() -> int:
    """Return the number of the sender that runs in this task: the number of its input partition."""
    task = TaskContext.get()
    assert task is not None
    return task.partitionId()


def arrays(columns: Columns) -> list[npt.NDArray[np.int64]]:
    """Return the columns of an Arrow batch as arrays: the hashes, and the weights if there are any."""
    return [column.to_numpy() for column in (columns if isinstance(columns, tuple) else (columns,))]
