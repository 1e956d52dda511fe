"""Helpers of the Spark tests: rows with hot keys, their partitions, and the workers of a Sender or a Plan."""

from collections import Counter
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest

import keyspread as ks

# Six rows in ten have one of two hot keys, one in 97 has no key; `id` is different in every row.
HOT = """CASE WHEN id % 97 = 0 THEN NULL WHEN id % 10 < 4 THEN 'hot' WHEN id % 10 < 6 THEN 'warm'
         ELSE concat('k', (id * id) % 211) END"""
ONLINE = {scheme: {"choices": 3} if scheme == "greedy" else {} for scheme in ks.SCHEMES}


def _has_state():
    try:
        import_module("pyspark.sql.streaming.stateful_processor")
    except ImportError:
        return False
    return True


needs_state = pytest.mark.skipif(not _has_state(), reason="this Spark has no operators with state in Python")


@contextmanager
def setting(spark, name, value):
    """Set a setting of the session within the block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:  # it has no value by default
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def skewed(spark, rows=3000, partitions=3):
    """Return rows (id, key, value) in a fixed order."""
    return spark.range(0, rows, 1, partitions).selectExpr("id", f"{HOT} AS key", "id % 100 AS value")


def places(df):
    """Return the partition of every row: id -> partition."""
    from pyspark.sql import functions as F

    found = df.select(F.spark_partition_id(), "id").collect()
    assert len({id_ for _, id_ in found}) == len(found)
    return {id_: place for place, id_ in found}


def hashes(df, key):
    """Return (partition, id, hash) of every row, in the order of each partition."""
    from pyspark.sql import functions as F

    from keyspread.spark._routing.keys import key_columns, key_hash

    return df.select(F.spark_partition_id(), "id", key_hash(df, key_columns(df, key))).collect()


def sent(rows, route):
    """Return the worker of every row, id -> worker; `route(partition, hashes)` routes an input partition."""
    workers = {}
    for partition in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == partition]
        routed = route(partition, np.array([hash_ for _, _, hash_ in own], np.int64))
        workers |= {id_: int(worker) for (_, id_, _), worker in zip(own, routed, strict=True)}
    return workers


def sent_online(rows, scheme, workers, **options):
    """Return the worker of every row as the Sender of its partition routes it."""
    return sent(rows, lambda partition, own: ks.Sender(scheme, workers, source=partition, **options).route(own))


def sent_by(plan, rows):
    """Return the worker of every row as a plan routes it: positions are Spark's monotonically_increasing_id."""
    return sent(rows, lambda partition, own: plan.route(own, start=partition << 33))


def as_a_bag(df):
    """Return the rows with how often each occurs; NaN is equal to itself."""
    return Counter(map(repr, df.collect()))


def same_counts(one, other):
    assert [(key.hash, key.messages) for key in one.head] == [(key.hash, key.messages) for key in other.head]
    assert one.loads.tolist() == other.loads.tolist()
    assert one.buckets.tolist() == other.buckets.tolist()
    assert [(key.workers, key.weights) for key in one.head] == [(key.workers, key.weights) for key in other.head]
    assert one.moved == other.moved
