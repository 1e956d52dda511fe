"""The messages of a deployment at its sources before the clock starts: message i is at source i mod sources."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.deployment.setup import Setup
from keyspread.job.sources import made_source


@contextmanager
def messages_at_sources(spark: SparkSession, setup: Setup, skew: float, messages: int) -> Iterator[DataFrame]:
    """Yield the messages (id, key) in memory: one input partition per source, each in the order of the stream.

    To get a shorter stream, filter by `id`: the messages and their sources stay the same.
    """
    rows = made_source(spark, setup.stream(skew, messages)).rows
    source = F.pmod("id", F.lit(setup.sources)).cast("int")
    messages_by_source = rows.repartitionById(setup.sources, source).sortWithinPartitions("id").persist()
    try:
        messages_by_source.count()
        yield messages_by_source
    finally:
        messages_by_source.unpersist()
