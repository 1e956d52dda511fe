"""Counting for a plan: exact whatever the look finds, in few jobs that have a description."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import keyspread as ks
from frames import hashes, same_counts, skewed
from keyspread.planned.plan import buckets_of
from keyspread.spark import plan
from keyspread.spark._routing.counting import HASH, WEIGHT, count, look
from keyspread.spark._routing.keys import key_hash

pytestmark = pytest.mark.usefixtures("static")

THRESHOLD, BUCKETS, WORKERS = 0.02, 64, 10
HOT, WARM = (int(one) for one in ks.hash_keys(["hot", "warm"]))


@pytest.fixture(scope="module")
def rows(spark):
    return skewed(spark).select(key_hash(skewed(spark), ["key"]).alias(HASH), F.col("value").alias(WEIGHT)).cache()


def counted_by_hand(rows, weighted):
    found = {}
    for row in rows.collect():
        found[row[0]] = found.get(row[0], 0) + (row[1] if weighted else 1)
    total = sum(found.values())
    hot = {key: messages for key, messages in found.items() if messages >= THRESHOLD * total}
    tail = np.zeros(BUCKETS, np.int64)
    for key, messages in found.items():
        if key not in hot:
            tail[buckets_of(np.array([key]), BUCKETS)[0]] += messages
    return tail, sorted(hot.items(), key=lambda one: (-one[1], one[0]))


@pytest.mark.parametrize(
    ("candidates", "weighted"),
    [
        ({}, True),
        ({HOT: 0.4, WARM: 0.2}, False),
        ({HOT: 1.0}, True),
        ({HOT: 1e-9, 17: 0.5}, False),  # shares that are far off, and a key that does not exist
        ({int(one): 0.01 for one in ks.hash_keys([f"k{i}" for i in range(211)])}, True),  # all but the hot ones
    ],
    ids=["none", "the hot ones", "one of them", "wrong ones", "cold ones"],
)
def test_counts_are_exact_whatever_the_candidates_are(rows, candidates, weighted):
    chosen = rows if weighted else rows.select(HASH)
    tail, hot = counted_by_hand(rows, weighted)
    found = count(chosen, BUCKETS, THRESHOLD, WORKERS, candidates)
    assert found.counts.buckets.tolist() == tail.tolist()
    assert list(found.counts.hot) == hot
    assert {key: int(cells.sum()) for key, cells in found.cells.items()} == dict(hot)


def test_a_look_finds_the_hot_keys_and_their_shares(rows):
    seen = look(rows.select(HASH), THRESHOLD)
    assert abs(seen[HOT] - 0.4) < 0.05
    assert abs(seen[WARM] - 0.2) < 0.05
    by_weight = look(rows, THRESHOLD)
    assert by_weight[HOT] > 0
    assert look(rows.where("false"), THRESHOLD) == {}


def jobs(spark):
    """Return the descriptions of the jobs that have run, by number."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return {
        (job := listed.apply(at)).jobId(): job.description().get() if job.description().isDefined() else None
        for at in range(listed.size())
    }


def descriptions(spark, act):
    before = jobs(spark)
    act()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return [what for number, what in sorted(jobs(spark).items()) if number not in before]


def test_a_look_and_one_scan_if_it_finds_the_hot_keys(spark, tmp_path):
    skewed(spark).write.parquet(str(tmp_path / "rows"))
    read = spark.read.parquet(str(tmp_path / "rows"))
    assert descriptions(spark, lambda: plan(read, "key", 5)) == ["keyspread: counting key"] * 2


def test_a_second_scan_if_the_hot_key_comes_late(spark):
    late = spark.range(0, 40_000, 1, 4).selectExpr("id", "if(id > 30000, -1, id) AS key")
    made = []
    assert len(descriptions(spark, lambda: made.append(plan(late, "key", 5)))) == 3
    keys = np.array([row[2] for row in hashes(late, "key")], np.int64)
    same_counts(made[0], ks.plan(keys, 5))


def test_the_description_of_the_caller_is_restored(spark):
    context = spark.sparkContext
    for own in ("mine", None):
        context.setLocalProperty("spark.job.description", own)
        plan(skewed(spark, 10), "key", 2)
        assert context.getLocalProperty("spark.job.description") == own
        with pytest.raises(PySparkException, match="no such key"):
            plan(skewed(spark, 10).selectExpr("raise_error('no such key') AS key"), "key", 2)
        assert context.getLocalProperty("spark.job.description") == own
    context.setLocalProperty("spark.job.description", None)


def test_a_key_of_the_previous_plan_is_counted_by_itself(spark):
    """A key that is hot still needs no second scan, although the look does not see it."""
    late = spark.range(0, 40_000, 1, 4).selectExpr("id", "if(id > 30000, -1, id) AS key")
    first = plan(late, "key", 5)
    assert len(descriptions(spark, lambda: plan(late, "key", 5, previous=first))) == 2
