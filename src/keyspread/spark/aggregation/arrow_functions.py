"""Functions on Arrow tables in the form that Spark's `mapInArrow` needs: batches in, batches out."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from keyspread.spark.shipping import shipped

Tables = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.Table]]

_ROWS = 4096  # per batch that goes back to Spark, as states may be large


def in_batches(tables: Tables) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Wrap a function that yields tables so that it yields batches."""
    return shipped(
        lambda batches: (batch for table in tables(batches) for batch in table.to_batches(max_chunksize=_ROWS))
    )
