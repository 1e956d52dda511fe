"""Online schemes on Spark: every input partition is a source with its own Sender, and only hashes go to Python."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column

from keyspread.errors import InputError
from keyspread.online.carried import carry
from keyspread.online.sender import Sender
from keyspread.online.settings import Settings
from keyspread.schemes import online_scheme, resolve
from keyspread.spark.routing.worker_udf import Columns, Route, arrays, worker_column
from keyspread.spark.streaming.remembered import Remembered, this_task


def online_worker(
    key_hash: Column,
    scheme: str,
    workers: int,
    weight: Column | None = None,
    checkpoint: str | None = None,
    **options: Any,
) -> Column:
    """Give the worker of each row, as the Sender of its partition routes it: `source` is the partition's number.

    A task that is run again starts from the same point and sees the same rows, so it gives the same workers. In a
    stream with a checkpoint that point is what the senders of the batch before left there.
    """
    if "source" in options:
        raise InputError("unknown option 'source'; on Spark every input partition is a source, numbered as it is")
    used = resolve(scheme).accept(options, also=("seed",))
    Settings.of(online_scheme(scheme), workers, **used)  # wrong options fail here, not in a task
    remembered = None if checkpoint is None else Remembered.under(checkpoint)
    return worker_column(_router(scheme, workers, remembered, used), key_hash, weight)


def _router(scheme: str, workers: int, remembered: Remembered | None, options: dict[str, Any]) -> Route:
    def route(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        source, batch = this_task()
        left = [] if remembered is None or batch is None else remembered.before(batch, Sender.restore)
        sender = carry(left, scheme, workers, source=source, **options)
        for columns in batches:
            yield pa.array(sender.route(*arrays(columns)))
        if remembered is not None and batch is not None and sender.messages:
            remembered.write(batch, source, sender.snapshot())

    return route
