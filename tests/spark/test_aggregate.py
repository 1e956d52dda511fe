"""aggregate: the counts of groupBy, and the scheme of the caller; what is no operator is refused. See test_fold.py."""

import re
import sys

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.sql import functions as F

from frames import setting, skewed
from keyspread import Operator
from keyspread.errors import InputError
from keyspread.operators import Count
from keyspread.spark import Totals, Watch, aggregate, plan

pytestmark = pytest.mark.usefixtures("static")

WORKERS = 4
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Sum(Operator):
    """The sum of `id`."""

    state = "total long"
    schema = "total long"

    def zero(self):
        return {"total": 0}

    def update(self, state, rows):
        return {"total": state["total"] + int(rows["id"].sum())}

    def merge(self, state, other):
        return {"total": state["total"] + other["total"]}

    def finish(self, state):
        return state


def keyed(spark, key):
    return spark.range(0, 8000, 1, 3).selectExpr("id", f"{key} AS key")


def run(rows, **options):
    watch = Watch()
    return aggregate(rows, "key", Sum(), WORKERS, watch=watch, **options), watch


def collected(df):
    return sorted(map(repr, df.collect()))


def exchanges(df, capsys):
    capsys.readouterr()
    df.explain()
    return capsys.readouterr().out.count("Exchange ")


# Count


@pytest.mark.connect
@pytest.mark.parametrize("scheme", [None, "d-choices"])
def test_counts_are_those_of_group_by(spark, scheme):
    """A null key is a key; the workers get many small batches; a column may be called as that of the result."""
    rows = skewed(spark, 1500).withColumn("count", F.lit(7))
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 100):
        found = aggregate(rows, "key", Count(), 4, scheme)
        assert collected(found) == collected(rows.groupBy("key").count())


def test_counts_of_several_columns_under_another_name(spark):
    """('a', null) and (null, 'a') have the same hash, and are two keys."""
    rows = spark.range(0, 90, 1, 2).selectExpr(
        "if(id % 2 = 0, 'a', NULL) AS count", "CASE id % 3 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D END AS b"
    )
    found = aggregate(rows, ["count", "b"], Count("how many"), 3, "shuffle")
    plain = rows.groupBy("count", "b").agg(F.count("*").alias("how many"))
    assert [text.replace("-0.0", "0.0") for text in collected(found)] == collected(plain)
    with pytest.raises(InputError, match="schema of Count has 'count', which is a column of the key: rename it"):
        aggregate(rows, ["count", "b"], Count(), 3)


# Whole keys or cut ones


@pytest.mark.connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_hot_key_is_folded_where_it_is(spark, adaptive, capsys):
    rows = keyed(spark, "if(id % 2 = 0, 'hot', concat('k', id % 500))")
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        found, watch = run(rows)
        assert collected(found) == collected(rows.groupBy("key").agg(F.sum("id").alias("total")))
    assert watch.way.name == "fold"
    assert watch.balance.rows == 8000
    assert watch.balance.imbalance < 0.01
    assert watch.balance.hottest[0] == ("hot", 4000)
    assert exchanges(aggregate(rows, "key", Sum(), WORKERS), capsys) == 2  # evenly, as the input has 3 parts; by key


@pytest.mark.parametrize("threshold", [None, 1.0])
def test_a_plan_of_the_caller_decides(spark, threshold):
    rows = keyed(spark, "if(id % 2 = 0, -1, id)")
    found, watch = run(rows, plan=plan(rows, "key", WORKERS, threshold=threshold))
    assert found.count() == 4001
    assert str(watch.way) == "planned: the caller chose this scheme"


def test_no_rows(spark):
    found, watch = run(keyed(spark, "id % 5").where("false"))
    assert found.collect() == []
    assert watch.way.name == "fold"


def test_an_explicit_scheme_is_never_replaced(spark):
    watch = Watch()
    aggregate(keyed(spark, "id % 500"), "key", Sum(), WORKERS, "planned", watch=watch)
    assert str(watch.way) == "planned: the caller chose this scheme"


# Refused


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ({"n": "count(*)", "m": "max(id)"}, "agg(F.expr('count(*)').alias('n'), F.expr('max(id)').alias('m'))"),
        ({"id": "sum"}, "agg({'id': 'sum'})"),
        ("count(*)", "agg('count(*)')"),
    ],
)
def test_for_sql_the_call_of_spark_is_shown(spark, operator, call):
    rows = keyed(spark, "id % 5")
    message = f"SQL aggregates are Spark's own: write df.groupBy('key').{call}"
    for refused in (
        lambda: aggregate(rows, "key", operator, 4, "planned"),
        lambda: aggregate(spark.readStream.format("rate").load(), "key", operator, 4),
        lambda: Totals("folder", "key", operator, 4),
    ):
        with pytest.raises(InputError, match=re.escape(message) + "$"):
            refused()


def test_columns_and_a_class_are_refused(spark):
    rows = keyed(spark, "id % 5").withColumn("at", F.timestamp_seconds("id"))
    with pytest.raises(
        InputError, match=r"write df.groupBy\(F.window\(…, '1 hour'\), 'key'\).agg\(Column<'sum\(id\)'>"
    ):
        aggregate(rows, "key", [F.sum("id"), F.count("*")], 4, window="1 hour", time="at")
    with pytest.raises(InputError, match=r"operator must be an Operator, got the class: write Sum\(\)"):
        aggregate(rows, "key", Sum, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"mode": "append"}, "mode= is for streams, got 'append' for a bounded DataFrame"),
        ({"key": "nope"}, "there is no column 'nope'; the columns are id, key"),
        ({"tolerance": 0.1}, "tolerance= has no effect with scheme planned"),
    ],
)
def test_wrong_arguments_are_one_line(spark, options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}[^\n]*$"):
        aggregate(keyed(spark, "id % 5"), **{"key": "key", "operator": Sum(), "workers": 4, **options})
