"""A Python routing function as a Spark column: Arrow arrays of hashes (and weights) in, arrays of workers out."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column

from keyspread.spark.capabilities import column_function

Columns = Any  # one pa.Array, or a tuple of them
Route = Callable[[Iterator[Columns]], Iterator[pa.Array]]


def worker_column(route: Route, key_hash: Column, weight: Column | None, order: Column | None = None) -> Column:
    """Return a column with the worker that `route` chooses for each row.

    With `order`, the rows of a partition are routed in the order of that column, whatever order they arrive in. Then
    the function reads the whole partition (8 bytes per row and column) before it routes.

    Spark calls the function once per task.
    """
    columns = [column for column in (key_hash, weight, order) if column is not None]
    if order is not None:
        route = in_order(route)

    function = column_function(route, len(columns), "int")
    # Without this the optimizer may evaluate it twice, and the second time its state or its rows are different.
    worker: Column = function.asNondeterministic()(*columns)
    return worker


def in_order(route: Route) -> Route:
    """Return a function that routes all rows of a partition in the order of their last column.

    Rows that are equal there are ordered by the other columns; if these are equal too, the rows are identical.
    """

    def ordered(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        parts = [arrays(columns) for columns in batches]
        if not parts:
            return
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        by_content = np.lexsort(columns)  # by the last column first
        sent = tuple(pa.array(column[by_content]) for column in columns[:-1])
        workers = np.empty(by_content.size, np.int32)
        workers[by_content] = np.concatenate([part.to_numpy() for part in route(iter([_as_columns(sent)]))])
        begin = 0
        for part, *_ in parts:
            yield pa.array(workers[begin : begin + part.size])
            begin += part.size

    return ordered


def this_source() -> int:
    """Return the number of the sender that runs in this task: the number of its input partition."""
    task = TaskContext.get()
    assert task is not None
    return task.partitionId()


def arrays(columns: Columns) -> list[npt.NDArray[np.int64]]:
    """Return the columns of an Arrow batch as arrays: the hashes, and the weights if there are any."""
    return [column.to_numpy() for column in (columns if isinstance(columns, tuple) else (columns,))]


def _as_columns(columns: tuple[pa.Array, ...]) -> Columns:
    return columns[0] if len(columns) == 1 else columns
