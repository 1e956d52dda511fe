"""A Python routing function as a Spark column: Arrow arrays of hashes (and weights) in, arrays of workers out."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column

from keyspread.planned import look_ahead
from keyspread.sender.registry import Kind
from keyspread.sender.sender import Sender
from keyspread.spark._engine.capabilities import column_function
from keyspread.spark._routing.options import Routing

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


# Routing in Python: every input partition is a source, with its own Sender or its own plan. Only hashes go to Python.
#
# A sender routes batch by batch. Look-ahead reads the whole partition first (8 bytes per row), plans it, then routes
# it.


_NOTHING = np.empty(0, np.int64)


def python_worker(key_hash: Column, routing: Routing, weight: Column | None, order: Column | None) -> Column:
    """Return the worker of each row, as its partition routes it: `source` is the partition's number.

    Every task starts without memory, and so does every micro-batch of a stream. A task that is retried routes the same
    rows the same if it reads them in the same order, or with `order` in any order.
    """
    route = _by_plan_of_part(routing) if routing.kind is Kind.LOOK_AHEAD else _by_sender(routing)
    return worker_column(route, key_hash, weight, order)


def _by_sender(routing: Routing) -> Route:
    scheme, workers, options = routing.scheme, routing.workers, routing.of_sender()

    def route(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        sender = Sender(scheme, workers, source=this_source(), **options)
        for columns in batches:
            yield pa.array(sender.route(*arrays(columns)))

    return route


def _by_plan_of_part(routing: Routing) -> Route:
    workers, threshold = routing.workers, routing.threshold

    def route(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        parts = [arrays(columns) for columns in batches]
        hashes, *weights = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else [_NOTHING]
        routed = look_ahead.route(
            hashes,
            workers,
            source=this_source(),
            threshold=threshold,
            weights=weights[0] if weights else None,
        )
        begin = 0
        for part, *_ in parts:
            yield pa.array(routed[begin : begin + part.size])
            begin += part.size

    return route
