"""Online schemes record by record: one call of a Python function per row, and the row goes on at once.

The function is pickled and not an Arrow one, because Arrow batches leave Python only when the next one has arrived.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.online.sender import Sender
from keyspread.schemes import Kind, resolve
from keyspread.spark.routing.options import Routing
from keyspread.spark.shipping import shipped

_WHY_NOT = {
    Kind.PLANNED: "counts a whole batch before it routes the first row: give it a plan= made from earlier rows",
    Kind.LOOK_AHEAD: "reads all rows of a batch before it routes the first one",
    Kind.PEER: "is only simulated, for comparison",
}


def row_by_row_worker(key_hash: Column, routing: Routing, weight: Column | None) -> Column:
    """Return the worker of each row, as the Sender of its partition routes it, one row at a time.

    `source` is the number of the partition. Every task has a new Sender, so every batch of real-time mode has new ones.
    """
    columns = [key_hash] if weight is None else [key_hash, weight]
    function = F.udf(_function_of_a_task(routing.scheme, routing.workers, routing.of_sender()), "int", useArrow=False)
    # Without this the optimizer may evaluate it twice, and the second time its state is different.
    worker: Column = function.asNondeterministic()(*columns)
    return worker


def check_scheme(scheme: str) -> None:
    """Refuse a scheme that needs more than one row at a time."""
    descriptor = resolve(scheme)
    if not descriptor.is_online:
        raise InputError(
            f"{descriptor.name} does not work with realtime=True, because it {_WHY_NOT[descriptor.kind]}; "
            "use an online scheme such as per-key, or micro-batches without realtime=True"
        )


def _function_of_a_task(scheme: str, workers: int, options: dict[str, Any]) -> Callable[..., int]:
    """Return a function that makes a Sender in every task, with the number of its partition, and routes by it."""
    make = shipped(lambda source: Sender(scheme, workers, source=source, **options))
    running: dict[int, Any] = {}

    def call(*row: int) -> int:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        attempt = task.taskAttemptId()
        if attempt not in running:
            running.clear()
            running[attempt] = make(task.partitionId())
        return int(running[attempt].route(*(np.array([value], np.int64) for value in row))[0])

    return call
