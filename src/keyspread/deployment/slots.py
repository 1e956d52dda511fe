"""Cores for all workers at once, with their Python workers started: otherwise saturation could not be measured."""

import math
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from keyspread.errors import InputError
from keyspread.spark.launch.master import is_local

_TOGETHER = 0.3
"""Seconds that a warm-up task keeps its Python worker, so that the next task needs another one."""
_IDLE = 20.0
"""Seconds since the last run after which Spark might end idle Python workers during the next one."""
_PATIENCE = 30.0
"""Seconds for the executors of a cluster to register."""

SETTINGS = {
    "spark.python.daemon.module": "keyspread.deployment.kernel_daemon",
    "spark.sql.shuffle.partitions": "8",  # for merging
    "spark.sql.adaptive.enabled": "false",  # it would plan an extra stage while the clock runs, and sizes are known
    # Up to 200 partitions Spark writes one file per source and worker, 3,840 in all; above, one file per source.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""The settings of a session for deployments, in addition to its master."""


class Slots:
    """The cores of a Spark that runs all workers at once; a Spark with fewer cores is refused."""

    def __init__(self, spark: SparkSession, workers: int) -> None:
        slots = _wait_for(spark, workers)
        if slots < workers:
            raise InputError(
                f"Spark has {slots} cores here and cannot run {workers} workers at once: "
                f"use --master 'local[{workers}]' or --workers {slots}"
            )
        self._spark, self._workers = spark, workers
        self._used = -math.inf

    def start(self) -> None:
        """Start a Python worker per slot. Does it twice, because some tasks end before the last worker has started."""
        for _ in range(2):
            self._hold()

    def ready(self) -> None:
        """Make sure that Python workers run; call it before each run, because Spark ends those idle for a minute."""
        if time.monotonic() - self._used > _IDLE:
            self._hold()
        self._used = time.monotonic()

    def _hold(self) -> None:
        self._spark.range(0, self._workers, 1, self._workers).mapInArrow(_hold, "id bigint").collect()
        self._used = time.monotonic()


def master_of(spark: SparkSession) -> str:
    """Return the address of the master of a classic Spark."""
    return str(spark.sparkContext.master)


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks a classic Spark runs at once."""
    return int(spark.sparkContext.defaultParallelism)


def _wait_for(spark: SparkSession, workers: int) -> int:
    """Wait until there are enough cores, and return their number: executors of a cluster register one by one."""
    end = time.monotonic() + (0 if is_local(master_of(spark)) else _PATIENCE)
    while cores_of(spark) < workers and time.monotonic() < end:
        time.sleep(0.2)
    return cores_of(spark)


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER)
    yield from batches
