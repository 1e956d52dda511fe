"""`join` and `plan_join`: columns, names, plans, what is left to Spark, and what is refused."""

import re
import warnings
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("pyspark")

from join_cases import same
from pyspark.sql import functions as F

from frames import setting
from keyspread.errors import InputError
from keyspread.spark import JoinPlan, Watch, join, plan_join

N = 4
SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(autouse=True)
def small(spark):
    with ExitStack() as stack:
        for name, value in SETTINGS.items():
            stack.enter_context(setting(spark, name, value))
        yield


@pytest.fixture
def left(spark):
    """1,000 rows: half of them have key -1, one in ten has none."""
    return spark.range(0, 1000, 1, 3).selectExpr(
        "CASE WHEN id % 2 = 0 THEN -1 WHEN id % 10 = 5 THEN NULL ELSE id % 97 END AS k", "id AS v"
    )


@pytest.fixture
def right(spark):
    """100 rows: ten of them have key -1."""
    return spark.range(0, 100, 1, 2).selectExpr("IF(id % 10 = 0, -1L, id) AS k", "id AS w")


def bag(df):
    return Counter(map(tuple, df.collect()))


def loads(df):
    found = dict(df.groupBy(F.spark_partition_id()).count().collect())
    return np.array([found.get(worker, 0) for worker in range(max(found) + 1)])


@pytest.mark.connect
def test_rows_and_columns_are_those_of_spark(left, right):
    hows = ["inner", "left", "right", "full", "semi", "anti", "FULL_OUTER", "leftanti"]
    cases = [(how, join(left, right, "k", how), left.join(right, "k", how)) for how in hows]
    assert [ours.schema == plain.schema for _, ours, plain in cases] == [True] * len(cases)
    same(cases)


@pytest.mark.connect
def test_the_work_is_even(left, right):
    plan = plan_join(left, right, "k", workers=5)
    assert plan.hot[0].value == -1
    assert (plan.hot[0].left, plan.hot[0].right) == (500, 10)
    found = loads(join(left, right, "k", workers=5, plan=plan))
    assert found.size == 5
    assert found.max() <= 1.1 * found.mean()
    assert plan.busiest < 1.05
    assert plan.busiest_of_whole_keys > 3


def test_both_sides_may_be_cut(spark):
    rows = spark.range(0, 1600, 1, 4).selectExpr("IF(id % 2 = 0, 0, id) AS k", "id AS v")
    others = spark.range(0, 1400, 1, 3).selectExpr("IF(id % 2 = 0, 0, id) AS k", "id AS w")
    plan = plan_join(rows, others, "k", workers=16)
    pieces = plan.hot[0].pieces
    assert min(pieces) > 1
    assert plan.copies == 800 * (pieces[1] - 1) + 700 * (pieces[0] - 1)
    found = loads(join(rows, others, "k", workers=16, plan=plan))
    assert found.max() <= 1.1 * found.mean()
    same([(how, join(rows, others, "k", how, workers=16), rows.join(others, "k", how)) for how in ("left", "full")])


def test_nested_fields_and_names_with_dots_and_in_another_case(left, right):
    one = left.selectExpr("named_struct('key', k) AS a", "v AS `x.y`")
    other = right.selectExpr("k AS `b.c`", "w")
    dotted = left.withColumnRenamed("k", "b.c")
    ticked, tocked = left.withColumnRenamed("k", "a`b"), right.withColumnRenamed("k", "a`b")
    upper, ours = right.withColumnRenamed("k", "K"), join(one, other, [("a.key", "b.c")], "full")
    assert ours.columns == ["a", "x.y", "b.c", "w"]
    same(
        [
            ("field", ours.drop("a"), one.join(other, one.a.key == other["`b.c`"], "full").drop("a")),
            ("dot", join(dotted, other, "b.c"), dotted.join(other, ["b.c"])),
            ("tick", join(ticked, tocked, "a`b"), left.join(right, "k").withColumnRenamed("k", "a`b")),
            ("case", join(left, upper, "k", "full"), left.join(upper, "k", "full")),
        ]
    )


def test_aliases_and_columns_of_the_sides_stay_usable(left, right):
    one, other = left.alias("one"), right.alias("other")
    joined = join(one, other, "k", "left")
    plain = one.join(other, "k", "left").select("one.v", "other.w")
    few, rest = left.where("v < 200").alias("few"), left.where("v < 200").alias("rest")
    condition = F.expr("few.v <= rest.v")
    ours = join(few, rest, "k", "left", condition=condition).toDF("k", "v", "w")
    both = few.join(rest, F.expr("few.k = rest.k") & condition, "left").select("few.k", "few.v", "rest.v")
    same(
        [
            ("aliases", joined.select("one.v", "other.w"), plain),
            ("columns", joined.select(left.v, right.w), plain),
            ("condition", ours, both.toDF("k", "v", "w")),
        ]
    )


def test_null_safe(left, right):
    nulls = right.unionAll(right.selectExpr("CAST(NULL AS BIGINT)", "-w").limit(3))
    plain = left.join(nulls, left.k.eqNullSafe(nulls.k), "full")
    ours = join(left, nulls, "k", "full", null_safe=True, threshold=0.01)
    assert ours.columns == ["k", "v", "w"]
    assert bag(ours) == bag(plain.select(F.coalesce(left.k, nulls.k), "v", "w"))


def test_hot_nulls_are_spread(spark, right):
    rows = spark.range(0, 1000, 1, 4).selectExpr("IF(id % 4 > 0, NULL, id) AS k", "id AS v")
    plan = plan_join(rows, right, "k", "left", workers=8)
    assert plan.spread_nulls == (True, False)
    ours = join(rows, right, "k", "left", workers=8, plan=plan)
    assert loads(ours).max() <= 1.35 * 125
    assert bag(ours) == bag(rows.join(right, "k", "left"))
    assert "750 left rows with a null key are spread over all workers" in str(plan)


# What is left to Spark


def test_without_hot_keys_it_is_sparks_own_join(spark):
    rows = spark.range(0, 4000, 1, 2).selectExpr("id AS k", "id AS v")
    watch = Watch()
    ours = join(rows, rows.withColumnRenamed("v", "w"), "k", watch=watch)
    assert str(watch.way).startswith("join: no key is hot enough to matter: with whole keys the busiest worker has 1.0")
    assert "keyspread" not in plan_text(ours)


def test_a_broadcast_is_left_to_spark(left, right):
    watch = Watch()
    ours = join(left, F.broadcast(right), "k", watch=watch)
    assert str(watch.way) == "join: it broadcasts a side, so no key is moved"
    assert "BroadcastHashJoin" in plan_text(ours)
    assert "keyspread" not in plan_text(ours)


def plan_text(df):
    from keyspread.spark._routing.plan_text import physical_plan

    return physical_plan(df)


def test_there_is_no_further_exchange(left, right):
    for how in ("inner", "left", "full", "anti"):
        text = plan_text(join(left, right, "k", how, workers=7))
        assert len(re.findall(r"Exchange hashpartitioning\(.*, 7\), REPARTITION_BY_NUM", text)) == 2
        others = [line for line in text.splitlines() if "Exchange" in line and "REPARTITION_BY_NUM" not in line]
        # An anti join makes the right keys distinct. A full join looks which hot keys the other side has, and sends
        # those, distinct, to all tasks.
        assert len(others) == {"anti": 1, "full": 2}.get(how, 0)
        assert sum("BroadcastExchange" in line for line in others) == (how == "full")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_fewer_workers_than_shuffle_partitions(spark, left, right, adaptive):
    """Spark replaces an exchange below a join that has fewer partitions than the session asks for."""
    with (
        setting(spark, "spark.sql.shuffle.partitions", "20"),
        setting(spark, "spark.sql.adaptive.enabled", adaptive),
    ):
        cases = [
            (how, join(left, right, "k", how, workers=3), left.join(right, "k", how))
            for how in ("inner", "full", "anti")
        ]
        assert [ours.rdd.getNumPartitions() for _, ours, _ in cases] == [3, 3, 3]
        same(cases)
        found = loads(cases[0][1])
        assert found.max() <= 1.1 * found.mean()


# Plans


def test_a_plan_is_printed_and_is_the_same_after_json(left, right):
    plan = plan_join(left, right, "k", "left", workers=5)
    assert JoinPlan.from_json(plan.to_json()) == plan
    lines = str(plan).splitlines()
    assert re.fullmatch(r"left join on k, 5 workers: \d+ hot keys?, \d+ rows copied", lines[0])
    assert re.fullmatch(r"busiest worker 1\.0\d x the even work, [34]\.\d\d x with whole keys", lines[1])
    assert lines[2].split() == ["key", "left", "rows", "right", "rows", "pieces", "copies"]
    assert lines[3].split()[:3] == ["-1", "500", "10"]
    watch = Watch()
    join(left, right, "k", "left", workers=5, plan=plan, watch=watch)
    assert re.fullmatch(r"planned: of \d+ hot keys \d+ cut, \d+ rows copied; the busiest worker has .*", str(watch.way))


def test_rows_that_change_are_cut_for_any_rows(left, right):
    shuffled = left.repartition(2, "v")
    assert plan_join(shuffled.withColumn("k", F.expr("k + int(rand() * 2)")), right, "k", "left").for_any_rows
    assert not plan_join(shuffled.withColumn("v", F.expr("v + int(rand() * 2)")), right, "k", "left").for_any_rows
    assert not plan_join(left, right, "k", "left").for_any_rows


def test_rows_of_a_database_are_cut_for_any_rows(spark, left):
    """It may be written to between two scans of one query: whether a key has partners must not depend on either."""
    url, name = "jdbc:derby:memory:live;create=true", {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    hot = spark.range(0, 300, 1, 1).selectExpr("IF(id % 2 = 0, -1L, id) AS k", "id AS w")
    hot.write.jdbc(url, "hot", properties=name)
    right = spark.read.jdbc(url, "hot", properties=name)
    few = left.where("v % 20 = 0 OR k > 0")
    assert plan_join(few, hot, "k", "full", threshold=0.01).hot[0].pieces[1] > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a full join says that its keys stay whole
        plan = plan_join(few, right, "k", "full", threshold=0.01)
        assert plan.for_any_rows
        assert {key.pieces[1] for key in plan.hot} == {1}
        assert bag(join(few, right, "k", "full", plan=plan)) == bag(few.join(hot, "k", "full"))


def test_empty_sides_and_few_workers(left, right):
    none, plain = left.limit(0), left.join(right, "k", "full")
    same(
        [
            ("empty", join(none, right, "k", "full"), none.join(right, "k", "full")),
            ("one worker", join(left, right, "k", "full", workers=1), plain),
            ("many workers", join(left, right, "k", "full", workers=60), plain),
        ]
    )


# Bad input


@pytest.mark.connect
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"how": "cross"}, "how='cross' has no keys, so no key can be hot; use left.crossJoin(right)"),
        ({"how": "sideways"}, "how must be one of inner, left, right, full, semi, anti, got 'sideways'"),
        ({"on": []}, "on must be a name, names or pairs of names, got []; for a cross join use crossJoin"),
        ({"on": [("k",)]}, "on must be a name, names or pairs of names, got ('k',) in it"),
        ({"on": "v"}, "right side: there is no column 'v'; the columns are k, w"),
        ({"on": "x"}, "left side: there is no column 'x'; the columns are k, v"),
        ({"on": ["k", "k"]}, "on has 'k' twice; name each key once"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"threshold": 0}, "threshold is a share"),
        ({"output_cost": -1}, "output_cost must not be negative, got -1"),
        ({"condition": 3}, "condition must be a Column or SQL text, got 3"),
        ({"condition": "nope > 1"}, "these sides cannot be joined: "),
        ({"null_safe": 1}, "null_safe must be True or False, got 1"),
        ({"watch": 3}, "watch must be a Watch, got 3"),
        ({"condition": "sum(v) > 3"}, "these sides cannot be joined: "),
        ({"right": None}, "right must be a DataFrame, got None"),
        ({"plan": "{}"}, "plan must be a JoinPlan, got '{}'; JoinPlan.from_json reads a stored one"),
        ({"how": "semi", "condition": "v > w", "workers": 7}, "must be spark.sql.shuffle.partitions (4), got 7"),
    ],
    ids=str,
)
def test_bad_input(left, right, options, match):
    with pytest.raises(InputError, match=re.escape(match)) as caught:
        join(**{"left": left, "right": right, "on": "k", **options})
    assert "\n" not in str(caught.value)


def test_bad_sides(spark, left, right):
    with pytest.raises(InputError, match="on must be a name, names or pairs of names, got a Column; pass pairs"):
        join(left, right, left.k == right.k)
    with pytest.raises(InputError, match="2 columns of the right side are called 'k'; rename them"):
        join(left, right.select("k", F.col("k"), "w"), "k")
    with pytest.raises(
        InputError, match=r"column 'm' of the left side has type map<string,bigint>, which Spark cannot"
    ):
        join(left.withColumn("m", F.create_map(F.lit("a"), "k")), right, [("m", "k")])
    with pytest.raises(InputError, match="'k' has type bigint and 'd' has type date, which Spark cannot compare"):
        join(left, right.withColumn("d", F.current_date()), [("k", "d")])
    with pytest.raises(InputError, match=r"left must be a DataFrame, got 'rows'"):
        join("rows", right, "k")
    with pytest.raises(InputError, match=r"the left side is a stream, which cannot be counted: use .*join_batches"):
        join(spark.readStream.format("rate").load(), right, [("value", "k")])


def test_a_field_is_joined_as_a_pair(left, right):
    lefts = left.selectExpr("named_struct('x', k) AS s", "v")
    rights = right.selectExpr("named_struct('x', k) AS s", "w")
    with pytest.raises(InputError, match=r"on has 's.x', a field of a struct; pass it as a pair: \[\('s.x', …\)\]"):
        join(lefts, rights, "s.x")
    ours = join(lefts, rights, [("s.x", "s.x")], "left", null_safe=True, condition="v > w")
    assert bag(ours) == bag(lefts.join(rights, lefts.s.x.eqNullSafe(rights.s.x) & (lefts.v > rights.w), "left"))


def test_a_plan_of_another_join_is_refused(left, right):
    plan = plan_join(left, right, "k", workers=4)
    for options, match in (
        ({"workers": 5}, "the plan is for workers 4, got 5; plan this join with plan_join"),
        ({"how": "left"}, "the plan is for how 'inner', got 'left'"),
        ({"on": [("v", "w")]}, "the plan is for on [('k', 'k', 'bigint')], got [('v', 'w', 'bigint')]"),
        ({"null_safe": True}, "the plan is for null_safe False, got True"),
        ({"condition": "v > w"}, "the plan is for a condition False, got True"),
        ({"threshold": 0.1}, "plan= is given, so 'threshold' has no effect; pass it to plan_join"),
        ({"output_cost": 1.0}, "plan= is given, so 'output_cost' has no effect; pass it to plan_join"),
    ):
        with pytest.raises(InputError, match=re.escape(match)):
            join(left, right, **{"on": "k", "workers": 4, "plan": plan, **options})


def test_a_damaged_plan_is_refused(left, right):
    text = plan_join(left, right, "k", workers=4).to_json()
    for damaged, match in (
        ("[]", "not the plan of a join"),
        (text.replace('"format": 1', '"format": 2'), "the plan has format 2, this keyspread reads 1: plan again"),
        (text.replace('"workers": 4', '"workers": 1'), "the plan does not fit its 1 workers; it was changed by hand"),
        (text.replace('"how": "inner"', '"how": "cross"'), "not the plan of a join"),
    ):
        with pytest.raises(InputError, match=match):
            JoinPlan.from_json(damaged)


# Rows that changed, and keys in a form of their own


def test_a_hot_key_that_vanished_after_counting_keeps_its_rows_once(spark, tmp_path, left):
    """The plan copies preserved rows of a matched key; whether it is matched is decided when the query runs."""
    table = "vanishing"
    spark.sql(
        f"CREATE TABLE {table} (k BIGINT, w BIGINT, p INT) USING parquet PARTITIONED BY (p) "
        f"LOCATION '{(tmp_path / table).as_uri()}'"
    )
    try:
        spark.sql(f"INSERT INTO {table} SELECT IF(id % 10 = 0, id, 0), id, IF(id % 10 = 0, 1, 0) FROM range(300)")
        right = spark.table(table)
        plan = plan_join(left, right, "k", "full", threshold=0.01)
        assert plan.hot[0].pieces[1] > 1
        assert bag(join(left, right, "k", "full", plan=plan)) == bag(left.join(right, "k", "full"))
        spark.sql(f"ALTER TABLE {table} DROP PARTITION (p = 0)")
        spark.catalog.refreshTable(table)
        assert bag(join(left, right, "k", "full", plan=plan)) == bag(left.join(right, "k", "full"))
    finally:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(("kind", "form"), [("CHAR({})", "{}"), ("STRUCT<c: CHAR({})>", "named_struct('c', {})")])
def test_keys_of_type_char_are_left_to_spark(spark, tmp_path, kind, form):
    sides = []
    for name, width in (("char_left", 5), ("char_right", 10)):
        where = (tmp_path / name).as_uri()
        spark.sql(f"CREATE TABLE {name} (k {kind.format(width)}, v BIGINT) USING parquet LOCATION '{where}'")
        value = "IF(id % 2 = 0, 'ab', string(id))"
        spark.sql(f"INSERT INTO {name} SELECT {form.format(value)}, id FROM range(200)")
        sides.append(spark.table(name))
    try:
        watch = Watch()
        ours = join(*sides, [("k", "k")], "full", threshold=0.01, watch=watch)
        plain = sides[0].join(sides[1], sides[0].k == sides[1].k, "full")
        assert Counter(map(str, ours.collect())) == Counter(map(str, plain.collect()))
        assert "of type CHAR" in watch.way.reason
    finally:
        for name in ("char_left", "char_right"):
            spark.sql(f"DROP TABLE {name}")


def test_what_only_spark_can_compare_is_left_to_spark(spark, left, right):
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        lefts, rights = left.selectExpr("k = -1 AS b", "v"), right.selectExpr("int(w % 3) AS i", "w")
        watch = Watch()
        ours = join(lefts, rights, [("b", "i")], "full", watch=watch)
        assert "'b' and 'i' have types boolean and int" in watch.way.reason
        assert bag(ours) == bag(lefts.join(rights, lefts.b == rights.i, "full"))


def test_structs_with_strange_names_and_case_sensitive_names(spark, left, right):
    struct = "named_struct('a x', k, '2-ü', string(k)) AS k"
    lefts, rights = left.selectExpr(struct, "v"), right.selectExpr(struct, "w")
    assert bag(join(lefts, rights, "k", "full", threshold=0.01)) == bag(lefts.join(rights, "k", "full"))
    with setting(spark, "spark.sql.caseSensitive", "TRUE"):
        lefts, rights = left.selectExpr("k", "v AS K"), right.selectExpr("k", "w AS K")
        assert bag(join(lefts, rights, "k", "anti", threshold=0.01)) == bag(lefts.join(rights, "k", "anti"))
