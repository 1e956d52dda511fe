"""Watch and balance: exact loads, nearly exact hottest keys, and no extra job for a Watch."""

import threading

import numpy as np
import pytest

pytest.importorskip("pyspark")


from frames import places, skewed
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.spark import Watch, balance, spread
from keyspread.spark.watch import Balance

pytestmark = pytest.mark.usefixtures("static")

WORKERS = 5


@pytest.fixture(scope="module")
def rows(spark):
    return skewed(spark)


def loads_of(df, workers=WORKERS):
    return np.bincount(list(places(df).values()), minlength=workers).tolist()


def run(df):
    df.write.format("noop").mode("overwrite").save()


def seen(watch, seconds=60):
    """Return the counts of a watch; fail instead of waiting forever."""
    found = []
    waiting = threading.Thread(target=lambda: found.append(watch.balance), daemon=True)
    waiting.start()
    waiting.join(seconds)
    assert found, "the watch did not learn that the job is over"
    return found[0]


def test_balance_itself():
    found = Balance(np.array([4, 1, 3, 0]), (("a", 3),))
    assert found.rows == 8
    assert found.imbalance == 4 / 8 - 1 / 4
    assert found.skew_score == pytest.approx((2 + 1 + 1 + 2) / 4 / 2)
    assert found.skew_score == metrics.skew_score(found.loads)
    nothing = Balance(np.zeros(3, np.int64))
    assert (nothing.rows, nothing.imbalance, nothing.skew_score, nothing.hottest) == (0, 0.0, 0.0, ())


@pytest.mark.connect
@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_both_tell_the_true_loads_and_the_hottest_keys(rows, scheme):
    watch = Watch(hottest=3)
    out = spread(rows, "key", WORKERS, scheme, watch=watch)
    run(out)
    expected = loads_of(spread(rows, "key", WORKERS, scheme))
    counts = {row.key: row["count"] for row in rows.groupBy("key").count().collect()}
    top = sorted(counts.items(), key=lambda pair: -pair[1])[:3]
    found = seen(watch)
    assert found.loads.tolist() == expected
    assert list(found.hottest) == top  # 211 keys are counted exactly
    counted = balance(out, WORKERS, key="key", hottest=3)
    assert counted.loads.tolist() == expected
    assert list(counted.hottest) == top
    assert counted.imbalance == metrics.imbalance(np.array(expected))
    assert balance(out, WORKERS).hottest == ()


def test_a_watch_needs_no_job_of_its_own(spark, rows):
    watch = Watch()
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("watched", "watched")
    try:
        out = spread(rows, "key", WORKERS, "d-choices", watch=watch)
        assert list(tracker.getJobIdsForGroup("watched")) == []
        run(out)
        jobs = len(tracker.getJobIdsForGroup("watched"))
        assert seen(watch).rows == 3000
        assert len(tracker.getJobIdsForGroup("watched")) == jobs
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_keys_of_other_types(spark):
    df = spark.range(0, 100, 1, 2).selectExpr(
        "id % 4 AS number",
        "if(id % 2 = 0, NULL, 'a') AS a",
        "if(id % 4 = 0, NULL, named_struct('x', id % 2)) AS s",
        "unhex('ff') AS raw",
        "id % 2 AS `with.dot`",
    )
    for key, hottest in {
        "number": {("0", 25), ("1", 25), ("2", 25), ("3", 25)},
        "a": {(None, 50), ("a", 50)},
        ("a", "number"): {
            ('{"number":0}', 25),
            ('{"number":2}', 25),
            ('{"a":"a","number":1}', 25),
            ('{"a":"a","number":3}', 25),
        },
        "with.dot": {("0", 50), ("1", 50)},
        "s.x": {("1", 50), (None, 25), ("0", 25)},
    }.items():
        watch = Watch()
        out = spread(df, key, 3, "key", watch=watch)
        run(out)
        assert set(seen(watch).hottest) == hottest, key
        assert set(balance(out, 3, key=key).hottest) == hottest, key
    watch = Watch()
    run(spread(df, "raw", 3, "key", watch=watch))
    assert seen(watch).hottest[0][1] == 100


@pytest.mark.connect
@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_nothing_to_see(spark, scheme):
    empty = skewed(spark, 0)
    watch = Watch()
    out = spread(empty, "key", 3, scheme, watch=watch)
    assert out.count() == 0
    found = seen(watch)
    assert found.loads.tolist() == [0, 0, 0]
    assert found.hottest == ()
    counted = balance(spread(empty, "key", 3, scheme), 3, key="key")
    assert (counted.loads.tolist(), counted.hottest) == ([0, 0, 0], ())


def test_a_watch_whose_rows_were_never_computed(rows):
    watch = Watch()
    out = spread(rows, "key", 3, "key", watch=watch)
    for _ in range(2):
        with pytest.raises(InputError, match="this watch has seen nothing: run the DataFrame"):
            watch.balance  # noqa: B018
    run(out)
    assert seen(watch).rows == rows.count()


def test_bad_input(rows):
    watch = Watch()
    spread(rows, "key", 3, "key", watch=watch)
    with pytest.raises(InputError, match="this Watch is used already; make a new one for every spread"):
        spread(rows, "key", 3, "key", watch=watch)
    with pytest.raises(InputError, match="hottest must be at least 0, got -1"):
        Watch(hottest=-1)
    out = spread(rows, "key", 4, "shuffle")
    with pytest.raises(InputError, match="workers must be at least 1"):
        balance(out, 0)
    with pytest.raises(InputError, match="hottest must be at least 1"):
        balance(out, 4, key="key", hottest=0)
    with pytest.raises(InputError, match="there is no column 'nope'"):
        balance(out, 4, key="nope")
    with pytest.raises(InputError, match=r"rows in partition [23], so it was not spread over 2 workers"):
        balance(out, 2)
