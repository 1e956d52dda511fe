"""What only classic Spark has: under Connect there is no SparkContext on this side, and None is the answer."""

from typing import Any

from pyspark.sql import SparkSession


def master_of(spark: SparkSession) -> str | None:
    """Give the address of the master."""
    context = _context(spark)
    return None if context is None else str(context.master)


def cores_of(spark: SparkSession) -> int | None:
    """Give the cores that Spark has now."""
    context = _context(spark)
    return None if context is None else int(context.defaultParallelism)


def local_property(spark: SparkSession, name: str) -> str | None:
    """Give what Spark notes for the thread that runs a job."""
    context = _context(spark)
    return None if context is None else context.getLocalProperty(name)


def _context(spark: SparkSession) -> Any:
    try:
        return spark.sparkContext
    except Exception:  # PySparkAttributeError, or NotImplementedError, by version
        return None
