"""Functions on tables, as Spark's `mapInArrow` takes them: batches in, batches out."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

Tables = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.Table]]

_ROWS = 4096  # in a batch that goes back to Spark: states may be large


def in_batches(tables: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that Spark takes of one that gives tables."""
    return lambda batches: (batch for table in tables(batches) for batch in table.to_batches(max_chunksize=_ROWS))
