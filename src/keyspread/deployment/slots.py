"""Room for all workers at once, with their Python started: without it, saturation would mean nothing."""

import math
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from keyspread.errors import InputError
from keyspread.spark.classic import cores_of, master_of
from keyspread.spark.launch.master import is_local

_TOGETHER = 0.3
"""Seconds that a task of the warm-up holds its Python worker, so that the next task needs another one."""
_IDLE = 20.0
"""Seconds since the last run after which some of them may be gone before the next one ends."""
_PATIENCE = 30.0
"""Seconds for the executors of a cluster to come."""

SETTINGS = {
    "spark.python.daemon.module": "keyspread.deployment.kernel_daemon",
    "spark.sql.shuffle.partitions": "8",  # for merging
    "spark.sql.adaptive.enabled": "false",  # a stage more to plan while the clock runs, for nothing: sizes are known
    # Up to 200 partitions Spark writes a file for each source and worker, 3,840 of them; beyond, one for each source.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""What a session of our own needs beside its master."""


class Slots:
    """The cores of a Spark that can run all workers at once; one that cannot is refused."""

    def __init__(self, spark: SparkSession, workers: int) -> None:
        slots = _wait_for(spark, workers)
        if slots < workers:
            raise InputError(
                f"Spark has {slots} cores here and would run that many of {workers} workers at once: "
                f"give it more (--master 'local[{workers}]', --executors), or take --workers {slots}"
            )
        self._spark, self._workers = spark, workers
        self._used = -math.inf

    def start(self) -> None:
        """Start a Python worker for every slot. Twice: some tasks end before the last of them is up."""
        for _ in range(2):
            self._hold()

    def ready(self) -> None:
        """Have them running, to be called before each run: Spark ends those that were idle for a minute."""
        if time.monotonic() - self._used > _IDLE:
            self._hold()
        self._used = time.monotonic()

    def _hold(self) -> None:
        self._spark.range(0, self._workers, 1, self._workers).mapInArrow(_hold, "id bigint").collect()
        self._used = time.monotonic()


def _wait_for(spark: SparkSession, workers: int) -> int:
    """Give the cores there are, as soon as they are enough: the executors of a cluster come one by one."""
    end = time.monotonic() + (0 if is_local(master_of(spark)) else _PATIENCE)
    while (cores_of(spark) or 0) < workers and time.monotonic() < end:
        time.sleep(0.2)
    return cores_of(spark) or 0


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER)
    yield from batches
