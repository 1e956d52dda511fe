"""Routing in Python: every input partition is a source, with its own Sender or its own plan. Only hashes go to Python.

A sender routes batch by batch. Look-ahead reads the whole partition first (8 bytes per row), plans it, then routes it.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column

from keyspread.online.sender import Sender
from keyspread.planned import look_ahead
from keyspread.schemes import Kind
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.worker_udf import Columns, Route, arrays, this_source, worker_column

_NOTHING = np.empty(0, np.int64)


def python_worker(key_hash: Column, routing: Routing, weight: Column | None, order: Column | None) -> Column:
    """Return the worker of each row, as its partition routes it: `source` is the partition's number.

    Every task starts anew, so every micro-batch of a stream does. A task that is retried routes the same rows the same
    if it reads them in the same order, or with `order` in any order.
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
