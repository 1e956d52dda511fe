"""Online schemes on Spark: every input partition is a source with its own Sender, and only hashes go to Python."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.schemes import find_scheme
from keyspread.sender import Sender
from keyspread.settings import Settings


def online_worker(key_hash: Column, scheme: str, workers: int, **options: Any) -> Column:
    """Give the worker of each row, as the Sender of its partition routes it: `source` is the partition's number.

    A task that is run again starts from the same point and sees the same rows, so it gives the same workers.
    """
    if "source" in options:
        raise InputError("unknown option 'source'; on Spark every input partition is a source, numbered as it is")
    Settings.of(find_scheme(scheme), workers, **options)  # wrong options fail here, not in a task
    router: Any = F.arrow_udf(_router(scheme, workers, options), "int")  # type: ignore[attr-defined]
    # Without this the optimizer may evaluate the function twice, and the second time its state is not the same.
    worker: Column = router.asNondeterministic()(key_hash)
    return worker


def _router(scheme: str, workers: int, options: dict[str, Any]) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        task = TaskContext.get()
        assert task is not None
        sender = Sender(scheme, workers, source=task.partitionId(), **options)
        for batch in batches:
            yield pa.array(sender.route(batch.to_numpy()))

    return route
