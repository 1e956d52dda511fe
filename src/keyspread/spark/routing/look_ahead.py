"""Look-ahead on Spark: each input partition is read whole (8 bytes per row), planned by itself, then routed."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column

from keyspread.planned import look_ahead
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.worker_udf import Columns, Route, arrays, this_source, worker_column

_NOTHING = np.empty(0, np.int64)


def look_ahead_worker(key_hash: Column, routing: Routing, weight: Column | None, order: Column | None) -> Column:
    """Return the worker of each row, planned by its partition: `source` is the partition's number.

    It depends on the rows of the partition and their order, and with `order` on the rows alone. So a task that is
    retried routes the same.
    """
    return worker_column(_router(routing.workers, routing.threshold), key_hash, weight, order)


def _router(workers: int, threshold: float) -> Route:
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
