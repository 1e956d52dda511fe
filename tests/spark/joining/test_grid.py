"""Placement of hot keys: all work is placed, rules are kept, workers are even; salts lead where Spark hashes them."""

import random
from itertools import product

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from keyspread.spark._joining.counting import Work, partitions_of, salts_of
from keyspread.spark._joining.grid import Rows, may_cut, place
from keyspread.spark._joining.keys import Kind
from keyspread.spark._routing.exchange import spark_hash

INNER = Work(Kind.INNER, 1.0, False)


def random_keys(rng, workers):
    many = rng.randint(1, 2 * workers)
    return [
        Rows(rng.randint(0, 3000), rng.randint(0, 3000), rng.randrange(workers), rng.random() < 0.8, rng.random() < 0.8)
        for _ in range(many)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_every_key_is_placed_as_its_rules_allow(seed):
    rng = random.Random(seed)
    workers = rng.choice([2, 3, 16, 50])
    tail = np.array([rng.random() * 1e5 for _ in range(workers)])
    hot = random_keys(rng, workers)
    cuts, loads = place(tail, hot, INNER)
    expected = tail.copy()
    for key, cut in zip(hot, cuts, strict=True):
        assert len(cut.workers) == len(cut.left) * len(cut.right)
        assert sum(cut.left) == pytest.approx(1)
        assert sum(cut.right) == pytest.approx(1)
        assert key.may_cut_left or len(cut.left) == 1
        assert key.may_cut_right or len(cut.right) == 1
        pieces = [(a * key.left, b * key.right) for a in cut.left for b in cut.right]
        np.add.at(expected, list(cut.workers), [float(INNER.of_key(*piece)) for piece in pieces])
    assert loads == pytest.approx(expected)


@pytest.mark.parametrize("workers", [16, 200])
@pytest.mark.parametrize(("left", "right"), [(1_000_000, 300), (300, 1_000_000), (5_000, 10_000), (1_000_000, 0)])
def test_a_hot_key_leaves_workers_even(workers, left, right):
    rng = random.Random(workers)
    own = float(INNER.of_key(left, right))
    tail = np.array([own / workers * rng.uniform(0.9, 1.1) for _ in range(workers)])
    cuts, loads = place(tail, [Rows(left, right, 0, True, True)], INNER)
    assert loads.max() <= 1.05 * loads.mean()
    copies = left * (len(cuts[0].right) - 1) + right * (len(cuts[0].left) - 1)
    on_one_side = min(left, right) * (workers - 1)
    assert copies <= max(on_one_side, 1)


@pytest.mark.parametrize(("left", "right"), [(100, 100), (500, 10), (7, 900), (3, 3)])
def test_parts_are_whole_rows(left, right):
    """Few rows on many workers: the expected work is that of whole rows, and a key is not cut finer than that helps."""
    tail = np.full(200, 20.0)
    key = Rows(left, right, 0, True, True)
    (cut,), loads = place(tail, [key], INNER)
    parts = [np.array(shares) * rows for shares, rows in ((cut.left, left), (cut.right, right))]
    for own in parts:
        assert own == pytest.approx(np.round(own))
        assert own.min() >= 1 - 1e-9
    expected = tail.copy()
    np.add.at(expected, list(cut.workers), [float(INNER.of_key(a, b)) for a in parts[0] for b in parts[1]])
    assert loads == pytest.approx(expected)
    # No grid of about equal parts leaves the busiest worker with much less.
    for lefts in range(1, min(left, 40) + 1):
        for rights in range(1, min(right, 40) + 1):
            if lefts * rights <= 200:
                piece = float(INNER.of_key(-(-left // lefts), -(-right // rights)))
                assert loads.max() <= 1.1 * (20 + piece)


def test_rules():
    """(left may be cut, right may be cut): by type, condition, and whether the key is on both sides."""
    both, left_only = (5, 5), (5, 0)
    assert may_cut(Kind.INNER, True, *both, True) == (True, True)
    assert may_cut(Kind.LEFT, False, *both, False) == (True, True)
    assert may_cut(Kind.LEFT, True, *both, False) == (True, False)
    assert may_cut(Kind.LEFT, False, *both, True) == (True, False)
    assert may_cut(Kind.RIGHT, True, *both, False) == (False, True)
    assert may_cut(Kind.FULL, False, *both, False) == (True, True)
    assert may_cut(Kind.FULL, True, *both, False) == (False, False)
    assert may_cut(Kind.FULL, True, *left_only, False) == (True, False)
    assert may_cut(Kind.FULL, False, *left_only, True) == (False, False)
    assert may_cut(Kind.SEMI, True, *both, True) == (True, False)


@pytest.mark.parametrize("partitions", [2, 200])
def test_salts_lead_to_their_workers(spark, partitions):
    rng = random.Random(partitions)
    keys = ["a", "some longer text", ""]
    hashes = [
        row[0] for row in spark.createDataFrame([(key,) for key in keys], "k string").select(F.hash("k")).collect()
    ]
    asked = []
    workers = np.array([rng.randrange(partitions) for _ in range(60)])
    found = salts_of(np.repeat(hashes, 20), workers, partitions)
    assert partitions_of(np.repeat(hashes, 20), found, partitions).tolist() == workers.tolist()
    for key, salts, own in zip(keys, np.split(found, 3), np.split(workers, 3), strict=True):
        assert len({0, *salts.tolist()}) == 21
        asked += [(key, salt, worker) for salt, worker in zip(salts.tolist(), own.tolist(), strict=True)]
    found = spark.createDataFrame(asked, "k string, s int, w int").selectExpr(f"pmod(hash(k, s), {partitions}) = w")
    assert {row[0] for row in found.collect()} == {True}


def test_no_piece_has_the_salt_of_tail_keys():
    """One of the first hashes of the worker is that of salt 0."""
    hashes = np.arange(100_000)
    without_salt = spark_hash(np.zeros(hashes.size, np.int64), hashes)
    key = int(np.argmin(without_salt % 2**31 + (without_salt < 0) * 2**31))
    worker, many = int(without_salt[key]) % 100, int(without_salt[key]) // 100 + 2
    salts = salts_of(np.full(many, key), np.full(many, worker), 100)
    assert len({0, *salts.tolist()}) == many + 1
    assert set(partitions_of(np.full(many, key), salts, 100).tolist()) == {worker}


def test_work_in_sql_is_work_in_python(spark):
    rows = [(0, 7), (7, 0), (3, 4), (10**9, 10**9)]
    works = [Work(kind, 0.5, condition) for kind, condition in product(Kind, [False, True])]
    df = spark.createDataFrame(rows, "l bigint, r bigint")
    found = df.selectExpr(*(work.sql("l", "r") for work in works)).collect()
    for work, column in zip(works, zip(*found, strict=True), strict=True):
        assert list(column) == pytest.approx([float(work.of_key(*row)) for row in rows])
