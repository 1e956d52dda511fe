"""Where Spark does not protect a retried task, the order of the rows must not matter: same rows, same workers."""

import sys
import threading
from itertools import pairwise

import pytest

pytest.importorskip("pyspark")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

import keyspread as ks
from frames import ONLINE, as_a_bag, places, setting, skewed
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.spark import balance, plan, spread
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.row_order import PROTECTION, fingerprint, is_protected, operators_of, repeatable_order
from keyspread.spark.routing.worker_udf import in_order
from keyspread.spark.spread import with_worker

WORKERS = 4


@pytest.fixture
def unprotected(spark, static):
    with setting(spark, PROTECTION[0], "false"), setting(spark, PROTECTION[1], "false"):
        yield


def permuted(rows, salt):
    """Return the rows in one partition, in an order that depends on `salt`, as blocks of a shuffle may arrive."""
    mixed = rows.repartition(1).sortWithinPartitions(F.xxhash64(F.col("id"), F.lit(salt)))
    return mixed.where(F.spark_partition_id() >= 0)  # or the optimizer would drop a sort that another one follows


def test_many_threads_look_at_their_plans_at_once(spark, unprotected, capsys):
    """Each reads its own plan, so every one refuses the rows, and the standard output stays what it was."""
    changing = spark.range(100).repartition(3, "id").selectExpr("id AS k", "rand(7) AS r")
    before, refused = sys.stdout, []

    def ask():
        for _ in range(5):
            with pytest.raises(InputError, match="the rows depend on the order of rows behind a shuffle"):
                repeatable_order(changing)
            refused.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 20
    assert sys.stdout is before
    assert "Exchange" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("*(1) Scan KafkaRelation(strategy=Subscribe[clicks], start=EarliestOffsetRangeLimit, end=…) [key#1]", True),
        ("*(1) Scan ExistingRDD[id#0L]", False),
        ("*(1) Scan JDBCRelation(t) [numPartitions=1] [id#0]", False),
        ("*(1) Range (0, 10, step=1, splits=2)", True),
        ("Exchange hashpartitioning(id#0L, 2)", False),
    ],
)
def test_sources_with_a_fixed_order(line, fixed):
    (operator,) = operators_of(line)
    assert operator.keeps_order is fixed


def test_both_settings_protect_and_one_alone_does_not(spark):
    assert is_protected(spark)  # Spark's own default
    for name in PROTECTION:
        with setting(spark, name, "false"):
            assert not is_protected(spark)


@pytest.mark.parametrize("scheme", ["planned", "look-ahead", *ONLINE])
@pytest.mark.parametrize("more", [{}, {"weight": "value"}], ids=["plain", "weighted"])
def test_the_order_of_rows_does_not_matter(spark, unprotected, scheme, more):
    rows = skewed(spark, 1000, 2)
    if scheme == "planned":
        options = {"plan": plan(rows, "key", WORKERS, **more)}
        assert options["plan"].head
    else:
        options = {"scheme": scheme, **more, **({"sender": Settings(**ONLINE[scheme])} if scheme in ONLINE else {})}
    one, other = (places(spread(permuted(rows, salt), "key", WORKERS, **options)) for salt in (1, 2))
    assert len(one) == 1000
    assert one == other
    assert scheme == "key" or len(set(one.values())) == WORKERS


@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_with_the_protection_the_order_is_that_of_the_rows(spark, static, scheme):
    """So the test above can fail: without the fingerprint, other orders have other workers."""
    rows = skewed(spark, 1000, 2)
    options = {"plan": plan(rows, "key", WORKERS)} if scheme == "planned" else {"scheme": scheme}
    one, other = (places(spread(permuted(rows, salt), "key", WORKERS, **options)) for salt in (1, 2))
    assert one != other


ODD_VALUES = """CASE id % 7 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN 0D WHEN 3 THEN -0D ELSE id % 5 END
    AS x,     IF(id % 3 = 0, NULL, 'a') AS left, IF(id % 3 = 1, NULL, 'a') AS right,
    IF(id % 4 = 0, NULL, map('a', id % 3, 'b', NULL)) AS m,
    named_struct('p', IF(id % 2 = 0, NULL, 'q'), 'r', IF(id % 2 = 0, 'q', NULL)) AS s,
    IF(id % 2 = 0, array('q', NULL), array(NULL, 'q')) AS a,
    IF(id % 2 = 0, array(array(1), array()), array(array(), array(1))) AS aa,
    cast(string(id % 6) AS binary) AS bin, parse_json(string(id % 4)) AS v, string(id % 4) COLLATE UTF8_LCASE AS c"""


@pytest.mark.parametrize("scheme", ["planned", "look-ahead", "d-choices"])
def test_duplicates_and_odd_values(spark, unprotected, scheme):
    """Which of two identical rows goes where does not matter: each worker has the same rows, counted."""
    rows = spark.sql(f"SELECT id, 'hot' AS key, {ODD_VALUES} FROM range(0, 420, 1, 2)")
    twice = rows.union(rows)
    options = {"plan": plan(rows, "key", WORKERS)} if scheme == "planned" else {"scheme": scheme}
    bags = []
    for salt in (1, 2):
        df = permuted(twice, salt).drop("id")
        out = spread(df, "key", WORKERS, **options)
        bags.append(as_a_bag(out.withColumn("at", F.spark_partition_id()).withColumn("v", F.to_json("v"))))
    assert sum(bags[0].values()) == 840
    assert bags[0] == bags[1]
    loads = balance(out, WORKERS).loads
    assert loads.min() > 150  # identical rows are divided too


def test_the_fingerprint_tells_rows_apart(spark):
    rows = spark.sql(
        """SELECT * FROM VALUES ('a', NULL, 0D, array('q', NULL), map('k', 1)),
        (NULL, 'a', 0D, array('q', NULL), map('k', 1)),
        ('a', NULL, -0D, array('q', NULL), map('k', 1)), ('a', NULL, 0D, array(NULL, 'q'), map('k', 1)),
        ('a', NULL, 0D, array('q'), map('k', 1)), ('a', NULL, 0D, array('q', NULL), map('k', NULL)),
        ('a', NULL, 0D, array('q', NULL), NULL), ('a', '', 0D, array('q', NULL), map('k', 1)) AS t(a, b, c, d, e)"""
    )
    found = [row[0] for row in rows.select(fingerprint(rows)).collect()]
    assert len(set(found)) == len(found) == 8
    assert found == [row[0] for row in rows.select(fingerprint(rows)).collect()]


def test_two_columns_of_one_name(spark, unprotected):
    rows = skewed(spark, 10).repartition(2, "id").selectExpr("key", "id AS twice", "value AS twice")
    with pytest.raises(InputError, match="2 columns are called 'twice'; rename them"):
        spread(rows, "key", 2, "d-choices")
    rows = rows.toDF("key", "Twice", "twice")
    with pytest.raises(InputError, match="2 columns are called 'Twice' or 'twice'; rename them"):
        spread(rows, "key", 2, "d-choices")
    with setting(spark, "spark.sql.caseSensitive", "true"):
        assert spread(rows, "key", 2, "d-choices").count() == 10


@pytest.mark.parametrize("length", ["0", "40"])
def test_a_plan_that_spark_cuts_short_tells_nothing(spark, unprotected, length):
    rows = skewed(spark, 10).repartition(2, "id")
    message = f"only the beginning .*: raise spark.sql.maxPlanStringLength, or set {PROTECTION[0]}"
    with setting(spark, "spark.sql.maxPlanStringLength", length), pytest.raises(InputError, match=message):
        spread(rows, "key", 2, "d-choices")


def upstreams(spark):
    rows = skewed(spark, 100, 2)
    behind = rows.repartition(2, "id")
    constants = [(F.col("id") + n).alias(f"c{n}") for n in range(40)]  # more than Spark prints in a plan
    return {
        "range": (rows, "fixed"),
        "filter, explode": (rows.where("id > 3").withColumn("e", F.explode(F.array("id", "value"))), "fixed"),
        "coalesce": (rows.coalesce(1), "fixed"),
        "union": (rows.union(rows), "fixed"),
        "python": (rows.mapInArrow(lambda batches: batches, rows.schema), "fixed"),
        "rand over a range": (rows.withColumn("r", F.rand()), "fixed"),
        "sample of a range": (rows.sample(0.5), "fixed"),
        "broadcast": (rows.join(F.broadcast(rows.select("id")), "id"), "fixed"),
        "stream": (spark.readStream.format("rate").load(), "fixed"),
        "shuffle": (behind, "fingerprint"),
        "round robin": (rows.repartition(3), "fingerprint"),
        "union with a shuffle": (rows.union(behind), "fingerprint"),
        "cached shuffle": (behind.cache(), "fingerprint"),
        "sort": (rows.sortWithinPartitions("value"), "fingerprint"),
        "aggregate": (rows.groupBy("key").agg(F.max("value")), "fingerprint"),
        "rows of a driver": (spark.createDataFrame([(1, "a")], "id long, key string"), "fingerprint"),
        "rand below a shuffle": (rows.withColumn("r", F.rand()).repartition(2, "id"), "fingerprint"),
        "stream with a shuffle": (spark.readStream.format("rate").load().repartition(2, "value"), "fingerprint"),
        "rand": (behind.withColumn("r", F.rand()), r"\(rand\)"),
        "uuid": (behind.withColumn("r", F.expr("uuid()")), r"\(uuid\)"),
        "number": (behind.withColumn("r", F.monotonically_increasing_id()), r"\(monotonically_increasing_id\)"),
        "sample": (behind.sample(0.5), r"\(Sample\)"),
        "limit": (behind.limit(5).where("id > 0"), r"\(GlobalLimit\)"),
        "first": (behind.groupBy("key").agg(F.first("id")), r"\(first\)"),
        "first_value": (behind.groupBy("key").agg(F.first_value("id")), r"\(first_value\)"),
        "last_value": (behind.groupBy("key").agg(F.last_value("id")), r"\(last_value\)"),
        "any_value": (behind.groupBy("key").agg(F.any_value("id")), r"\(first\)"),
        "text of a group": (behind.groupBy("key").agg(F.expr("string_agg(string(id))")), r"\(string_agg\)"),
        "wide": (behind.select("*", *constants), "fingerprint"),
        "wide rand": (behind.select("*", *constants, F.rand()), r"\(rand\)"),
        "wide, not to be split": (behind.select("*", *constants).distinct(), "raise spark.sql.debug.maxToStringFields"),
        "distinct": (rows.selectExpr("key", "double(id) AS x").distinct(), "fingerprint"),
        "least": (rows.groupBy("key").agg(F.min(F.col("value") / 3), F.count("*")), "fingerprint"),
        "average": (rows.groupBy("key").agg(F.avg("value").alias("mean")), "column 'mean' is a floating-point number"),
    }


def test_what_is_upstream(spark, unprotected):
    """Files and ranges do not pay; rows that change when they are computed again are refused, with the remedy."""
    for name, (df, expected) in upstreams(spark).items():
        if expected in ("fixed", "fingerprint"):
            assert (repeatable_order(df) is None) == (expected == "fixed"), name
        else:
            with pytest.raises(InputError, match=f"{expected}.*set {PROTECTION[0]} .*or write the rows to files"):
                repeatable_order(df)
    spark.catalog.clearCache()


def test_refused_only_where_it_matters(spark, unprotected, static):
    """A scheme that needs no order, and a plan without hot keys, take any rows."""
    behind = skewed(spark, 100, 2).repartition(2, "id").withColumn("r", F.rand())
    assert len(places(spread(behind, "key", 2, "key"))) == 100
    assert len(places(spread(behind, "id", 2))) == 100
    with pytest.raises(InputError, match="rand"):
        spread(behind, "key", 2)
    with setting(spark, PROTECTION[0], "true"), setting(spark, PROTECTION[1], "true"):
        assert len(places(spread(behind, "key", 2))) == 100


def test_a_fixed_order_is_used_as_it_is(spark, unprotected):
    """Without a shuffle upstream, the workers are those of the simulator, and nothing is sorted."""
    rows = skewed(spark, 600, 2)
    routed, _ = with_worker(rows, ["key"], Routing.of(WORKERS, "d-choices", "planned"))
    assert routed.columns == [*rows.columns, "keyspread_worker"]
    with setting(spark, PROTECTION[0], "true"), setting(spark, PROTECTION[1], "true"):
        expected = places(spread(rows, "key", WORKERS, "d-choices"))
    assert places(spread(rows, "key", WORKERS, "d-choices")) == expected


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=4),
    seed=st.integers(0, 99),
)
def test_in_order_is_a_sender_over_sorted_rows(rows, cuts, seed):
    """For any order and any batches: the multiset of (row, worker) is that of one Sender over the sorted rows."""

    def route(batches):
        sender = ks.Sender("d-choices", 3)
        for batch in batches:
            yield pa.array(sender.route(batch.to_numpy()))

    mixed = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    columns = [np.array([row[i] for row in mixed], np.int64) for i in (0, 1)]
    parts = [tuple(pa.array(c[a:b]) for c in columns) for a, b in pairwise(ends)]
    found = [worker for part in in_order(route)(iter(parts)) for worker in part.to_pylist()]
    by_fingerprint = sorted(rows, key=lambda row: (row[1], row[0]))
    expected = ks.Sender("d-choices", 3).route(np.array([key for key, _ in by_fingerprint], np.int64)).tolist()
    assert sorted(zip(mixed, found, strict=True)) == sorted(zip(by_fingerprint, expected, strict=True))
