"""Where Spark does not protect a retried task, the order of the rows must not matter: same rows, same workers."""

import sys
from itertools import pairwise

import pytest

pytest.importorskip("pyspark")

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from input_orders import accepted, changing, groups, over_windows, windows
from pyspark.sql import functions as F

import keyspread as ks
from frames import ONLINE, as_a_bag, places, setting, skewed
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.spark import balance, plan, spread
from keyspread.spark._routing import plan_text
from keyspread.spark._routing.plan_text import is_read_row_by_row, operators_of
from keyspread.spark._routing.repeatable import PROTECTION, fingerprint, is_protected, repeatable_order
from keyspread.spark._routing.senders import in_order

WORKERS = 4


@pytest.fixture
def unprotected(spark, static):
    with setting(spark, PROTECTION[0], "false"), setting(spark, PROTECTION[1], "false"):
        yield


def permuted(rows, salt):
    """Return the rows in one partition, in an order that depends on `salt`, as blocks of a shuffle may arrive."""
    mixed = rows.repartition(1).sortWithinPartitions(F.xxhash64(F.col("id"), F.lit(salt)))
    return mixed.observe(f"order {salt}", F.count("*"))  # or the optimizer would drop a sort that another one follows


def test_reading_a_plan_leaves_the_standard_output_alone(spark, unprotected, capsys, monkeypatch):
    """It belongs to all threads: progress bars and loggers of others write to it meanwhile."""
    changing = spark.range(100).repartition(3, "id").selectExpr("id AS k", "rand(7) AS r")
    before, explained, read = sys.stdout, plan_text.explained, []

    def watched(df, mode):
        text = explained(df, mode)
        read.append(sys.stdout is before)
        return text

    monkeypatch.setattr(plan_text, "explained", watched)
    with pytest.raises(InputError, match="rand"):
        repeatable_order(changing)
    assert not is_read_row_by_row(changing)
    assert len(read) > 2
    assert all(read)
    assert capsys.readouterr().out == ""


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


@pytest.mark.parametrize(
    ("scheme", "more"),
    [
        *((scheme, {}) for scheme in ("planned", "look-ahead", *ONLINE)),
        *((scheme, {"weight": "value"}) for scheme in ("planned", "look-ahead", "d-choices")),
    ],
)
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


@pytest.mark.parametrize("length", ["0", "40"])
def test_a_plan_that_spark_cuts_short_tells_nothing(spark, unprotected, length):
    rows = skewed(spark, 10).repartition(2, "id")
    message = f"only the beginning .*: raise spark.sql.maxPlanStringLength, or set {PROTECTION[0]}"
    with setting(spark, "spark.sql.maxPlanStringLength", length), pytest.raises(InputError, match=message):
        spread(rows, "key", 2, "d-choices")


def upstreams(spark):
    rows = skewed(spark, 100, 2)
    behind = rows.repartition(2, "id")
    grouped = behind.withColumn("f", F.expr("double(value)")).groupBy("key")
    constants = [(F.col("id") + n).alias(f"c{n}") for n in range(40)]  # more than Spark prints in a plan
    identity, rate = F.udf(lambda value: value, "bigint"), spark.readStream.format("rate").load()

    def of_group(text):
        return grouped.agg(F.expr(text).alias("x"))

    def over(text):
        return behind.withColumn("x", F.expr(f"{text} OVER (PARTITION BY key ORDER BY value)"))

    return {
        "range": (rows, "fixed"),
        "filter, explode": (rows.where("id > 3").withColumn("e", F.explode(F.array("id", "value"))), "fixed"),
        "coalesce": (rows.coalesce(1), "fixed"),
        "union": (rows.union(rows), "fixed"),
        "python": (rows.mapInArrow(lambda batches: batches, rows.schema), "fixed"),
        "rand over a range": (rows.withColumn("r", F.rand()), "fixed"),
        "sample of a range": (rows.sample(0.5), "fixed"),
        "broadcast": (rows.join(F.broadcast(rows.select("id")), "id"), "fixed"),
        "stream": (rate, "fixed"),
        "shuffle": (behind, "fingerprint"),
        "round robin": (rows.repartition(3), "fingerprint"),
        "union with a shuffle": (rows.union(behind), "fingerprint"),
        "cached shuffle": (behind.cache(), "fingerprint"),
        "sort": (rows.sortWithinPartitions("value"), "fingerprint"),
        "aggregate": (rows.groupBy("key").agg(F.max("value")), "fingerprint"),
        "rows of a driver": (spark.createDataFrame([(1, "a")], "id long, key string"), "fingerprint"),
        "rand below a shuffle": (rows.withColumn("r", F.rand()).repartition(2, "id"), "fingerprint"),
        "python below a shuffle": (rows.withColumn("r", identity("id")).repartition(2, "id"), "fingerprint"),
        "stream with a shuffle": (rate.repartition(2, "value"), "fingerprint"),
        "rand": (behind.withColumn("r", F.rand()), r"\(rand\)"),
        "uuid": (behind.withColumn("r", F.expr("uuid()")), r"\(uuid\)"),
        "number": (behind.withColumn("r", F.monotonically_increasing_id()), r"\(monotonically_increasing_id\)"),
        "rand of a group": (of_group("sum(id) + rand()"), r"\(rand\)"),  # the physical plan does not show it
        "sample": (behind.sample(0.5), r"\(Sample\)"),
        "aes_encrypt": (rows.selectExpr("aes_encrypt(key, '0123456789012345')").distinct(), "(?i)aes_?encrypt"),
        "limit": (behind.orderBy("id").limit(5).where("id > 0"), r"\(LocalLimit\)"),
        "rows of each key": (behind.dropDuplicates(["key"]), r"\(first\)"),
        "python behind a shuffle": (behind.withColumn("r", identity("id")), r"\((Arrow|Batch)EvalPython\)"),
        "tables in python": (behind.mapInPandas(lambda tables: tables, behind.schema), r"\(MapInPandas\)"),
        "groups in python": (behind.groupBy("key").applyInPandas(lambda t: t, rows.schema), "FlatMapGroupsInPandas"),
        "exact decimals": (of_group("avg(cast(id AS decimal(12, 2)))"), "fingerprint"),
        "part of an expression": (of_group("sum(id) / count(1)"), "fingerprint"),
        "name of an expression": (
            grouped.agg(F.expr("sum(id)")).groupBy("sum(id)").agg(F.expr("count(1)")),
            "fingerprint",
        ),
        "average": (of_group("avg(f)"), r"\(avg of floating-point numbers"),
        "average, compared": (of_group("avg(f) > 10"), r"\(avg of floating-point numbers"),
        "average, cast": (of_group("CAST(avg(f) AS DECIMAL(38, 20))"), r"\(avg of floating-point numbers"),
        "sum, cast": (of_group("CAST(sum(f) * 1e15 AS BIGINT)"), r"\(sum of floating-point numbers"),
        "short decimals": (of_group("avg(cast(id AS decimal(6, 2)))"), r"\(avg of floating-point numbers"),
        "long decimals": (of_group("sum(cast(id AS decimal(38, 2)))"), r"\(sum of floating-point numbers"),
        "zeros": (of_group("max(f)"), r"\(max of floating-point numbers"),
        "percentile": (of_group("percentile_approx(id, 0.5)"), r"\(percentile_approx\)"),
        "mode": (of_group("mode(id)"), r"\(mode\)"),
        "text": (of_group("string_agg(string(id))"), r"\(listagg|string_agg\)"),
        "collation": (rows.selectExpr("key COLLATE UTF8_LCASE AS key").groupBy("key").count(), "with a collation"),
        "rank": (over("rank()"), "fingerprint"),
        "sum up to a value": (over("sum(id)"), "fingerprint"),
        "number of ties": (over("row_number()"), r"\(row_number over a window of rows\)"),
        "row before": (over("lag(id)"), r"\(lag over a window of rows\)"),
        "wide": (behind.select("*", *constants), "fingerprint"),
        "wide rand": (behind.select("*", *constants, F.rand()), r"\(rand\)"),
        "wide, not to be split": (behind.select("*", *constants).distinct(), "raise spark.sql.debug.maxToStringFields"),
        "brackets": (behind.selectExpr("id AS `a (b`").distinct(), "brackets that do not match"),
        "line break": (behind.select(F.split("key", "\n"), F.rand()), r"\(rand\)"),
    }


def test_what_is_upstream(spark, unprotected):
    """Files and ranges do not pay; rows that may change when they are computed again are refused, with the remedy."""
    for name, (df, expected) in upstreams(spark).items():
        if expected in ("fixed", "fingerprint"):
            assert (repeatable_order(df) is None) == (expected == "fixed"), name
        else:
            with pytest.raises(InputError, match=f"{expected}.*set {PROTECTION[0]} .*or write the rows to files"):
                repeatable_order(df)
    spark.catalog.clearCache()


def test_a_function_in_python_with_the_name_of_an_aggregate(spark, unprotected):
    def last(values: pd.Series) -> int:
        return values.iloc[-1]

    last.__name__ = "sum"
    rows = skewed(spark, 100).repartition(2, "id").groupBy("key").agg(F.pandas_udf(last, "bigint")("id"))
    with pytest.raises(InputError, match="sum, a function in Python"):
        repeatable_order(rows)


def test_what_is_accepted_is_the_same_in_any_order(spark):
    """A few functions; tests/compatibility has all functions of every Spark."""
    with setting(spark, "spark.sql.ansi.enabled", "false"):  # casts of texts that are no numbers
        of_groups = groups(spark, over_windows(spark, ["sum", "max", "avg", "mode"]))
        of_windows = windows(spark, over_windows(spark, ["sum", "rank", "row_number"]))
        for texts in (of_groups, of_windows):
            found = changing(spark, texts)
            changed = [text for text in texts if found.get(text)]
            assert len(changed) > 5
            assert accepted(spark, changed) == []
            assert accepted(spark, [text for text in texts if text.startswith("sum(i)")])  # or the rule is of no use


def test_refused_only_where_it_matters(spark, unprotected, static):
    """A scheme that needs no order, and a plan without hot keys, take any rows."""
    behind = skewed(spark, 100, 2).repartition(2, "id").withColumn("r", F.rand())
    assert len(places(spread(behind, "key", 2, "key"))) == 100
    assert len(places(spread(behind, "id", 2))) == 100
    with pytest.raises(InputError, match="rand"):
        spread(behind, "key", 2)
    with setting(spark, PROTECTION[0], "true"), setting(spark, PROTECTION[1], "true"):
        assert len(places(spread(behind, "key", 2))) == 100


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
