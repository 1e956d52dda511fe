"""Planning in Spark: counts as in-process, and SQL routes as Plan.route does, for any plan."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("pyspark")


import keyspread as ks
import naive
from frames import hashes, places, same_counts, sent_by, skewed
from keyspread.errors import InputError
from keyspread.spark import plan, spread
from keyspread.spark._routing import planned_sql
from keyspread.streams import zipf

pytestmark = pytest.mark.usefixtures("static")

SLOTS = 1 << 31


@pytest.fixture(scope="module")
def rows(spark):
    return skewed(spark)


@pytest.fixture(scope="module")
def stream(spark):
    """Zipf 1.4, 40,000 rows in 4 partitions; the key is the rank's hash as text."""
    import pyarrow as pa

    keys = zipf(1.4, 10_000, 40_000, seed=3)
    table = pa.table({"id": np.arange(keys.size), "key": keys})
    return spark.createDataFrame(table).repartitionByRange(4, "id").sortWithinPartitions("id").cache()


def of_core(df, key, workers, **options):
    return ks.plan(np.array([row[2] for row in hashes(df, key)], np.int64), workers, **options)


# Counting


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threshold": 0.3, "buckets": 5000},
        {"threshold": 0.003, "buckets": 5},  # nearly every key is hot, and shares its bucket with others
        {"threshold": 1.0},  # none is
    ],
    ids=str,
)
def test_counts_and_placement_are_those_of_the_core(rows, options):
    planned = plan(rows, "key", 5, **options)
    same_counts(planned, of_core(rows, "key", 5, **options))
    assert places(spread(rows, "key", 5, plan=planned)) == sent_by(planned, hashes(rows, "key"))


# Balance


def test_balance_of_a_zipf_stream(stream):
    """I * n is at most 0.02 with 5,000 rows per worker or more."""
    workers = 8
    planned = plan(stream, "key", workers)
    loads = np.bincount(list(places(spread(stream, "key", workers, plan=planned)).values()), minlength=workers)
    assert loads.sum() == 40_000
    assert ((loads.max() / loads.sum()) - 1 / workers) * workers <= 0.02
    assert planned.imbalance * workers <= 0.001


def test_balance_where_positions_of_a_key_are_not_spread_evenly(spark):
    """Sorted rows, and a hot key in every second row: cutting by weight alone would be off."""
    for key in (
        "if(id % 2 = 0, 'hot', string(id))",
        "if(id < 20000, 'hot', string(id))",
        "if(id % 64 < 9, 'hot', 'b')",
    ):
        df = spark.range(0, 40_000, 1, 4).selectExpr("id", f"{key} AS key")
        loads = np.bincount(list(places(spread(df, "key", 8)).values()), minlength=8)
        assert loads.max() / loads.sum() * 8 - 1 <= 0.02, key


# Routing: SQL and Plan.route are the same function


def by_hand(workers, buckets, head, loads=None):
    content = {
        "format": 1,
        "workers": workers,
        "buckets": buckets,
        "head": [{"hash": h, "workers": w, "weights": [1] * len(w), "ends": e} for h, w, e in head],
        "loads": loads or [0] * workers,
        "moved": 0.0,
    }
    return ks.Plan.from_json(json.dumps(content))


@pytest.mark.parametrize("compared", [0, 100])
def test_hot_keys_are_compared_one_by_one_or_found_by_their_bucket(rows, monkeypatch, compared):
    expected = of_core(rows, "key", 4, threshold=0.01, buckets=8)
    assert 1 < len(expected.head) < 100
    monkeypatch.setattr(planned_sql, "MOST_COMPARED", compared)
    planned = plan(rows, "key", 4, threshold=0.01, buckets=8)
    same_counts(planned, expected)
    assert places(spread(rows, "key", 4, plan=planned)) == sent_by(planned, hashes(rows, "key"))


def test_empty_pieces_and_many_workers(rows):
    hot = int(ks.hash_keys(["hot"])[0])
    planned = by_hand(300, list(range(300)), [(hot, [7, 8, 9, 299], [0, 0, SLOTS, SLOTS])])
    found = places(spread(rows, "key", 300, plan=planned))
    assert found == sent_by(planned, hashes(rows, "key"))
    assert {found[row.id] for row in rows.where("key = 'hot'").collect()} == {9}


# A plan on other rows


def test_keys_that_the_plan_does_not_know(spark, rows):
    """They are routed by their bucket; a hot key of the plan need not occur."""
    planned = plan(rows, "key", 5)
    other = spark.range(0, 900, 1, 2).selectExpr("id", "if(id % 5 = 0, 'new', concat('n', id)) AS key")
    found = places(spread(other, "key", 5, plan=planned))
    assert found == sent_by(planned, hashes(other, "key"))
    assert len(found) == 900
    assert len({found[row.id] for row in other.where("key = 'new'").collect()}) == 1  # not hot: one worker


def test_the_previous_plan_is_kept_where_balance_allows(spark, rows):
    first = plan(rows, "key", 5)
    again = plan(rows, "key", 5, previous=first)
    same_counts(again, of_core(rows, "key", 5, previous=first))
    assert again.moved == 0
    assert again.buckets.tolist() == first.buckets.tolist()
    # A hot key has given way to another one, and a tenth of the tail to other keys.
    drifted = rows.selectExpr(
        "id", "CASE WHEN key = 'warm' THEN 'new' WHEN id % 10 = 9 THEN concat('new', id % 13) ELSE key END AS key"
    )
    fresh, kept = plan(drifted, "key", 5), plan(drifted, "key", 5, previous=first)
    same_counts(kept, of_core(drifted, "key", 5, previous=first))
    assert 0 < kept.moved < 0.25
    changed = (fresh.buckets != first.buckets).mean()
    assert (kept.buckets != first.buckets).mean() < changed / 2
    assert kept.imbalance * 5 <= 0.01
    fewer = plan(rows, "key", 4, previous=first)
    same_counts(fewer, of_core(rows, "key", 4, previous=first))
    assert fewer.loads.max() <= 751


# Samples


@pytest.mark.connect
def test_a_sample_is_repeatable_and_about_as_large_as_asked(stream):
    planned = plan(stream, "key", 8, sample=0.25, seed=5)
    assert planned == plan(stream, "key", 8, sample=0.25, seed=5)
    assert planned != plan(stream, "key", 8, sample=0.25, seed=6)
    assert abs(int(planned.loads.sum()) - 10_000) < 400


def test_a_sampled_plan_is_nearly_in_balance(stream):
    """The documented error: a few times sqrt(1 / (sampled rows per worker)), relative to a worker's share."""
    workers, sample = 4, 0.25
    for seed in range(2):
        where = places(spread(stream, "key", workers, plan=plan(stream, "key", workers, sample=sample, seed=seed)))
        loads = np.bincount(list(where.values()), minlength=workers)
        assert len(where) == 40_000
        assert abs(loads / 10_000 - 1).max() <= 4 / np.sqrt(40_000 * sample / workers)


def test_rows_and_hot_keys_that_a_sample_missed_are_routed_all_the_same(spark, rows):
    planned = plan(rows.where("key <> 'hot' OR key IS NULL"), "key", 5, sample=0.02)
    assert int(ks.hash_keys(["hot"])[0]) not in {key.hash for key in planned.head}
    found = places(spread(rows, "key", 5, plan=planned))
    assert found == sent_by(planned, hashes(rows, "key"))
    assert len(found) == 3000
    nothing = plan(rows, "key", 5, sample=1e-9)
    assert int(nothing.loads.sum()) == 0
    assert places(spread(rows, "key", 5, plan=nothing)) == sent_by(nothing, hashes(rows, "key"))


# Bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": 0}, "threshold is a share of the messages, above 0 and at most 1, got 0"),
        ({"sample": 0}, "sample is a share"),
        ({"buckets": 4}, "buckets must be at least 5, got 4"),
        ({"previous": "{}"}, "previous must be a keyspread.Plan, got '{}'"),
    ],
    ids=str,
)
def test_bad_input(rows, options, match):
    with pytest.raises(InputError, match=re.escape(match)):
        plan(rows, **{"key": "key", "workers": 5, **options})


def test_hot_keys_are_cut_where_their_rows_lie(spark):
    """Two hot keys in random rows. Cut by weight alone, a worker would have 1.3 % too much, here it has 0.2 %."""
    of_100 = "pmod(xxhash64(id), 100000) % 100"
    df = spark.range(0, 40_000, 1, 4).selectExpr(
        "id", f"CASE WHEN {of_100} < 40 THEN -1 WHEN {of_100} < 60 THEN -2 ELSE pmod(xxhash64(id), 100000) END AS key"
    )
    made = plan(df, "key", 8)
    rows = hashes(df, "key")
    by_weight = made.with_ends(np.array([end for key in made.head for end in naive.ends_by_weight(key.weights)]))
    busiest = [np.bincount(list(sent_by(one, rows).values())).max() / 5000 for one in (made, by_weight)]
    assert busiest[0] < 1.004 < busiest[1]


def test_forty_pieces_that_end_within_one_cell(spark):
    """Rows fall into every one of them, and behind the last in the same cell."""
    rows = spark.range(0, 200_000, 1, 2).selectExpr("id", "'hot' AS key")
    cell = SLOTS >> 10  # 41 pieces: 16 cells for each, rounded up to a power of two
    hot = int(ks.hash_keys(["hot"])[0])
    made = by_hand(41, [0], [(hot, list(range(41)), [*(cell * (i + 1) // 41 for i in range(40)), SLOTS])])
    found = places(spread(rows, "key", 41, plan=made))
    assert found == sent_by(made, hashes(rows, "key"))
    assert set(found.values()) == set(range(41))
