"""Room for all workers at once, with their Python started: without it, saturation would mean nothing."""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from keyspread.errors import InputError

_TOGETHER = 0.3
"""Seconds that a task of the warm-up holds its Python worker, so that the next task needs another one."""

SETTINGS = {
    "spark.python.daemon.module": "keyspread.spark.kernel_daemon",
    "spark.sql.shuffle.partitions": "8",  # for merging
    "spark.sql.adaptive.enabled": "false",  # a stage more to plan while the clock runs, for nothing: sizes are known
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # all executors from the start
}
"""What a session of our own needs beside its master."""


def check_slots(spark: SparkSession, workers: int) -> None:
    """Refuse a Spark that cannot run all workers at once."""
    slots = spark.sparkContext.defaultParallelism
    if slots < workers:
        raise InputError(
            f"Spark has {slots} cores here and would run that many of {workers} workers at once: "
            f"give it more (--master 'local[{workers}]', --executors), or take --workers {slots}"
        )


def warm_up(spark: SparkSession, workers: int) -> None:
    """Have a Python worker started for every slot; Spark ends idle ones after a minute."""
    spark.range(0, workers, 1, workers).mapInArrow(_hold, "id bigint").collect()


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER)
    yield from batches
