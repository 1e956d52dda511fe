"""The stream of a deployment at its sources, before the clock starts: message i at source i mod the number of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.deployment.setup import Setup
from keyspread.job.sources import made_source


@contextmanager
def at_sources(spark: SparkSession, setup: Setup, skew: float, messages: int) -> Iterator[DataFrame]:
    """Give the messages (id, key), one input partition a source, each in the order of the stream, kept in memory.

    A shorter stream is a filter of `id`: the same messages at the same sources.
    """
    rows = made_source(spark, setup.stream(skew, messages)).rows
    source = F.pmod("id", F.lit(setup.sources)).cast("int")
    dealt = rows.repartitionById(setup.sources, source).sortWithinPartitions("id").persist()
    try:
        dealt.count()
        yield dealt
    finally:
        dealt.unpersist()
