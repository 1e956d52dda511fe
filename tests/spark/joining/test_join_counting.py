"""Counting for a join: hot keys exactly, the work of the others nearly, in one scan if nothing is hot."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from keyspread.spark._joining.counting import Work, count_sides
from keyspread.spark._joining.keys import Kind, join_keys

N = 8


def counted(left, right, kind=Kind.INNER, null_safe=False):
    keys = join_keys(left, right, "k", null_safe)
    return count_sides(left, right, keys, Work(kind, 1.0, False), N, 1 / (5 * N))


def exact_work(left, right):
    """Return the work of each partition, with whole keys."""
    parts = left.selectExpr("k", "1 AS l", "0 AS r").union(right.selectExpr("k", "0 AS l", "1 AS r"))
    by_key = parts.where("k IS NOT NULL").groupBy("k").agg({"l": "sum", "r": "sum"}).toDF("k", "l", "r")
    found = by_key.selectExpr(f"pmod(hash(k, 0), {N}) AS w", "l + r + l * r AS work").groupBy("w").sum("work").collect()
    return np.array([work for _, work in sorted(found)], float)


@pytest.mark.connect
def test_hot_keys_are_exact_and_the_tail_is_near(spark, static):
    left = spark.range(0, 40_000, 1, 3).selectExpr("IF(id % 4 = 0, -1, id % 3001) AS k")
    right = spark.range(0, 9_000, 1, 2).selectExpr(
        "CASE WHEN id % 300 = 0 THEN -1 WHEN id % 100 = 1 THEN NULL ELSE id % 3001 END AS k"
    )
    found = counted(left, right)
    assert [(key.left, key.right) for key in found.hot] == [(10_000, 30)]
    assert found.nulls == (0, 90)
    tail = exact_work(left.where("k <> -1"), right.where("k <> -1"))
    assert found.tail.sum() == pytest.approx(tail.sum(), rel=0.1)
    assert np.abs(found.tail - tail).max() <= 0.35 * tail.mean()


def test_a_key_that_is_hot_by_its_output_alone(spark, static):
    """One key in a thousand rows on either side has half of the output."""
    left = spark.range(0, 60_000, 1, 3).selectExpr("IF(id % 200 = 0, -1, id) AS k")
    right = spark.range(0, 60_000, 1, 3).selectExpr("IF(id % 200 = 0, -1, id) AS k")
    found = counted(left, right)
    assert [(key.left, key.right) for key in found.hot] == [(300, 300)]


def test_nulls_are_a_key_if_null_equals_null(spark, static):
    rows = spark.range(0, 2_000, 1, 2).selectExpr("IF(id % 2 = 0, NULL, id) AS k")
    found = counted(rows, rows, null_safe=True)
    assert found.nulls == (0, 0)
    assert [(key.left, key.right) for key in found.hot] == [(1000, 1000)]
