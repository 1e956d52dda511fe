"""The number of partitions of a join, if the caller does not say it."""

from typing import Any

from pyspark.sql import SparkSession

from keyspread import checks
from keyspread.errors import InputError

_SETTING = "spark.sql.shuffle.partitions"
_INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"


def has_fewer_than_asked(spark: SparkSession, workers: int) -> bool:
    """Return whether these are fewer partitions than the session asks for."""
    asked = [str(spark.conf.get(_SETTING)), str(spark.conf.get(_INITIAL, None))]  # the second has no value by default
    return any(number.isdigit() and workers < int(number) for number in asked)


def shuffle_partitions(spark: SparkSession) -> int:
    """Return the number of partitions of a shuffle; some platforms leave it open."""
    value = str(spark.conf.get(_SETTING))
    if not value.isdigit():
        raise InputError(f"{_SETTING} is {value!r}, which says no number: pass workers=")
    return int(value)


def checked_workers(spark: SparkSession, workers: Any) -> int:
    """Return the number of workers, by default that of the session."""
    return checks.whole_number("workers", shuffle_partitions(spark) if workers is None else workers)
