"""The messages of a deployment: at their sources before the clock starts, and compared with the merged result.

Message i is at source i mod sources. A fast wrong answer is worth nothing, so the result of every run is checked.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from keyspread.deployment.setup import Setup
from keyspread.errors import KeyspreadError
from keyspread.streams import ZipfStream


class WrongResultError(KeyspreadError):
    """The workers' counts differ from what was sent."""


@contextmanager
def messages_at_sources(spark: SparkSession, setup: Setup, skew: float, messages: int) -> Iterator[DataFrame]:
    """Yield the messages (id, key) in memory: one input partition per source, each in the order of the stream.

    To get a shorter stream, filter by `id`: the messages and their sources stay the same.
    """
    sources = spark.range(0, setup.sources, 1, setup.sources)
    draw = _drawing(setup.stream(skew, messages), setup.sources)
    messages_by_source = sources.mapInArrow(draw, "id bigint, key bigint").persist()
    try:
        messages_by_source.count()
        yield messages_by_source
    finally:
        messages_by_source.unpersist()


def _drawing(stream: ZipfStream, sources: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column(0).to_pylist():
                keys = stream.law().draw(0, stream.messages)[source::sources].astype(np.int64)
                ids = np.arange(source, stream.messages, sources)
                yield pa.record_batch({"id": pa.array(ids), "key": pa.array(keys)})

    return draw


def check_exact(stream: ZipfStream, counted: Mapping[int, int]) -> None:
    """Raise a WrongResultError if the counts per key are not those of the stream."""
    exact = np.bincount(stream.law().draw(0, stream.messages), minlength=stream.keys + 1)
    counts = np.zeros_like(exact)
    counts[list(counted)] = list(counted.values())
    if not np.array_equal(counts, exact):
        off = int(np.abs(counts - exact).sum())
        raise WrongResultError(
            f"the merged result is off by {off:,} of {stream.messages:,} messages: report this as a bug"
        )
