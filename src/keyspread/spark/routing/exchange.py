"""The exchange: move every row into the partition of its worker.

`repartition(n, tag)` hashes the tag, and the tag of worker w is hashed to partition w. Every version of Spark has it.
"""

import numpy as np
from pyspark.sql import DataFrame

from keyspread.spark.routing.keys import quoted
from keyspread.spark.routing.tables import as_column, look_up
from keyspread.spark.routing.tags import tags_of


def move(df: DataFrame, workers: int, worker: str) -> DataFrame:
    """Return the rows in `workers` partitions: partition w holds those whose worker is w.

    The column `worker` then holds the tag of the worker. Spark knows that all rows of a tag are in one partition, so
    grouping by this column and others needs no further exchange.
    """
    tag = as_column(look_up(df.sparkSession, np.array(tags_of(workers)), quoted(worker)))
    return df.withColumn(worker, tag).repartition(workers, worker)
