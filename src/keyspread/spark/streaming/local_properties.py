"""Local properties: what Spark sets for the thread that runs a job, such as the id of the streaming query."""

from pyspark.sql import SparkSession


def local_property(spark: SparkSession, name: str) -> str | None:
    """Return a local property of this thread; None over Spark Connect, which has no SparkContext on this side."""
    try:
        context = spark.sparkContext
    except Exception:  # PySparkAttributeError or NotImplementedError, depending on the version
        return None
    return context.getLocalProperty(name)
