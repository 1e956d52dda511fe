"""A Python function that gives workers: of hashes, or of hashes and weights, an iterator of Arrow arrays each."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

Columns = Any  # one pa.Array, or a tuple of them
Route = Callable[[Iterator[Columns]], Iterator[pa.Array]]


def worker_column(route: Route, key_hash: Column, weight: Column | None) -> Column:
    """Give what `route` makes of hashes, and weights. Spark reads from the annotations how many columns it takes."""

    def one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return route(batches)

    def two(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return route(batches)

    function: Any = F.arrow_udf(one if weight is None else two, "int")  # type: ignore[attr-defined]
    # Without this the optimizer may evaluate it twice: the second time its state is not the same, nor are the rows.
    function = function.asNondeterministic()
    worker: Column = function(key_hash) if weight is None else function(key_hash, weight)
    return worker


def arrays(columns: Columns) -> list[npt.NDArray[np.int64]]:
    """Give the columns of a batch: the hashes, and the weights if there are any."""
    return [column.to_numpy() for column in (columns if isinstance(columns, tuple) else (columns,))]
