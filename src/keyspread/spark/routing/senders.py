"""Online schemes on Spark: every input partition is a source with its own Sender. Only hashes go to Python."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column

from keyspread.online.sender import Sender
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.worker_udf import Columns, Route, arrays, this_source, worker_column


def online_worker(key_hash: Column, routing: Routing, weight: Column | None, order: Column | None) -> Column:
    """Return the worker of each row, as the Sender of its partition routes it: `source` is the partition's number.

    Every task has a new Sender, so every micro-batch of a stream has new ones. A task that is retried routes
    the same rows the same if it reads them in the same order, or with `order` in any order.
    """
    return worker_column(_router(routing.scheme, routing.workers, routing.of_sender()), key_hash, weight, order)


def _router(scheme: str, workers: int, options: dict[str, Any]) -> Route:
    def route(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        sender = Sender(scheme, workers, source=this_source(), **options)
        for columns in batches:
            yield pa.array(sender.route(*arrays(columns)))

    return route
