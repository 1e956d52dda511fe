"""Tags: integers that lead rows to the partition we choose.

Spark puts a row where the hash of its partitioning key says, and the rows of a stateful operator always, so that they
meet their state again. A row that is partitioned, or grouped, by the tag of partition w is in partition w.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from keyspread.spark._routing.keys import quoted
from keyspread.spark._routing.planned_sql import as_column, look_up

_NO_COLUMN_BEFORE = np.array(42)


@lru_cache(maxsize=16)
def tags_of(partitions: int) -> tuple[int, ...]:
    """Return the tag of every partition: the smallest integer that Spark hashes to it.

    >>> tags_of(4)
    (12, 6, 2, 0)
    """
    tags = np.full(partitions, -1, np.int64)
    begin, step = 0, 8 * partitions  # to find all of n partitions takes about n ln n numbers
    while (tags < 0).any():
        tried = np.arange(begin, begin + step, dtype=np.int64)
        found, first = np.unique(spark_hash(tried, _NO_COLUMN_BEFORE) % partitions, return_index=True)
        tags[found] = np.where(tags[found] < 0, tried[first], tags[found])
        begin += step
    return tuple(tags.tolist())


def spark_hash(value: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return Spark's `hash` of columns of which an INT is the last: Murmur3 of its four bytes, as a signed number.

    `before` is the hash of the columns before it, 42 if there are none.
    """
    state = value.astype(np.uint32)
    state = _rotate(state * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotate(before.astype(np.uint32) ^ state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # bytes
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32).astype(np.int64)


def value_of_hash(hashed: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the INT that has this hash behind the columns `before`: each step of `spark_hash` can be undone.

    >>> value_of_hash(spark_hash(np.array([7, -1]), np.array(42)), np.array(42))
    array([ 7, -1])
    """
    state = hashed.astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= _inverse(0xC2B2AE35)
    state ^= state >> np.uint32(13) ^ state >> np.uint32(26)
    state *= _inverse(0x85EBCA6B)
    state ^= state >> np.uint32(16) ^ np.uint32(4)
    state = _rotate((state - np.uint32(0xE6546B64)) * _inverse(5), 19) ^ before.astype(np.uint32)
    state = _rotate(state * _inverse(0x1B873593), 17) * _inverse(0xCC9E2D51)
    return state.view(np.int32).astype(np.int64)


def _inverse(factor: int) -> np.uint32:
    """Return what undoes a multiplication by an odd number, modulo 2 ** 32."""
    return np.uint32(pow(factor, -1, 2**32))


def _rotate(value: npt.NDArray[np.uint32], places: int) -> npt.NDArray[np.uint32]:
    return value << np.uint32(places) | value >> np.uint32(32 - places)


# The exchange: move every row into the partition of its worker.
#
# `repartition(n, tag)` hashes the tag, and the tag of worker w is hashed to partition w. Every version of Spark has it.


def move(df: DataFrame, workers: int, worker: str) -> DataFrame:
    """Return the rows in `workers` partitions: partition w holds those whose worker is w.

    The column `worker` then holds the tag of the worker. Spark knows that all rows of a tag are in one partition, so
    grouping by this column and others needs no further exchange.
    """
    tag = as_column(look_up(df.sparkSession, np.array(tags_of(workers)), quoted(worker)))
    return df.withColumn(worker, tag).repartition(workers, worker)
