"""The id of the streaming query that runs this code in `foreachBatch`."""

from pyspark.sql import SparkSession

from keyspread.spark.streaming.local_properties import local_property

_QUERY = "sql.streaming.queryId"


def query_id(spark: SparkSession) -> str | None:
    """Return the id of the query, which its checkpoint keeps; None outside of a query."""
    return local_property(spark, _QUERY)
