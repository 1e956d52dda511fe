"""The description of Spark jobs that the library runs by itself, as the Spark UI shows it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_PROPERTY = "spark.job.description"


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Describe the jobs of this block as "keyspread: what", then restore the description that the caller had set.

    Spark Connect has no such property; there the jobs have no description.
    """
    try:
        context = spark.sparkContext
    except (PySparkException, AttributeError):
        yield
        return
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, f"keyspread: {what}")
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, before)  # type: ignore[arg-type]
