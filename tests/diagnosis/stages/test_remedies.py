"""What to do: adaptive execution's reasons, and lines of code with the keys as the plan shows them."""

import pytest

from made_logs import (
    adaptive,
    exchange,
    join_by,
    join_plan,
    node,
    over,
    skew_of,
)

LISTS = "ObjectHashAggregate(keys=[customer#1L], functions=[collect_list(amount#3L, 0, 0), sum(a#1)])"
MAX = "HashAggregate(keys=[customer#1L], functions=[merge_max(a#1)])"
COGROUP = node("FlatMapCoGroupsInPandas", None, exchange("customer#1L"), exchange("customer#2L", number=2))
RANGE = {**exchange("x"), "simpleString": "Exchange rangepartitioning(customer#1L ASC NULLS FIRST, 16)"}
WRITE = "Execute InsertIntoHadoopFsRelationCommand"
ON = 'on=[("customer", "id")]'
PLANS = {
    "sort-merge join": (join_plan(), f"join(left, right, {ON})"),
    "sort-merge join, full outer": (join_plan("FullOuter"), f'join(left, right, {ON}, how="full")'),
    "shuffled hash join, left outer": (join_plan("LeftOuter", name="ShuffledHashJoin"), f'{ON}, how="left")'),
    "window": (over("Window"), 'spread(windowed, "customer", workers=16)'),
    "applyInPandas": (over("FlatMapGroupsInPandas"), 'aggregate(df, "customer", MyOperator(), workers=16)'),
    "applyInArrow": (over("FlatMapGroupsInArrow"), "mapInPandas(f, schema)"),
    "aggregate (collect_list, sum)": (over("ObjectHashAggregate", LISTS), "aggregate(df,"),
    "repartition before a write": (over("WriteFiles", None, WRITE), 'for_write(df, "customer")'),
    "repartition before mapInPandas": (over("MapInPandas"), "spread("),
    "repartition": (over("Project"), 'spread(df, "customer", workers=16)'),
    "stateful aggregate": (over("StateStoreSave"), "aggregate(stream,"),
    "stateful aggregate (max)": (over("HashAggregate", MAX, "StateStoreSave"), "aggregate(stream,"),
    "cogroup.applyInPandas": (COGROUP, 'cogroup(left, right, "customer", f, schema, per_left=True)'),
    "sort": (node("Sort", None, RANGE), 'orderBy("customer", F.monotonically_increasing_id())'),
}


@pytest.mark.parametrize("operator", PLANS)
def test_every_operator_and_its_remedy(operator, tmp_path):
    plan, code = PLANS[operator]
    (finding,) = skew_of(plan, tmp_path)
    assert (finding.operator, finding.keys) == (operator, ("customer",))
    assert any(code in remedy.code for remedy in finding.remedies)


def aggregate_by(keys, definitions=""):
    below = node("Project", f"Project [{definitions}]") if definitions else node("Scan")
    text = f"ObjectHashAggregate(keys=[{keys}], functions=[collect_list(a#9, 0, 0)])"
    return node("ObjectHashAggregate", text, exchange(keys, below))


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        (aggregate_by("_groupingexpression#5", "upper(name#3) AS _groupingexpression#5"), 'F.expr("upper(name)")'),
        (aggregate_by("_groupingexpression#5", "coalesce(name#3, x) AS _groupingexpression#5"), "key"),
        (aggregate_by("day#5", "date_trunc(day, at#3, None) AS day#5"), '"day"'),
        (aggregate_by("client.code#5"), '"client.code"'),
        (aggregate_by('a "b"#5'), '"a \\"b\\""'),
        (aggregate_by("customer#5L, region#6, spark_grouping_id#7L"), '["customer", "region"]'),
        (aggregate_by("a#1, b#2, ... 7 more fields"), "key"),  # not by two of nine columns
        (aggregate_by("_groupingexpression#5", "NOT flag#3 AS _groupingexpression#5"), 'F.expr("NOT flag")'),
        (aggregate_by("_groupingexpression#5", "-amount#3L AS _groupingexpression#5"), 'F.expr("-amount")'),
        (aggregate_by("_groupingexpression#5", "concat(a#3, -, b#4) AS _groupingexpression#5"), "key"),
    ],
)
def test_a_key_is_written_as_the_plan_shows_it(plan, key, tmp_path):
    (finding,) = skew_of(plan, tmp_path)
    assert finding.remedies[0].code == f"keyspread.spark.aggregate(df, {key}, MyOperator(), workers=16)"
    assert ("what the job groups by" in finding.remedies[0].text) == (key == "key")


def test_a_time_window_is_no_key(tmp_path):
    start = "named_struct(start, precisetimestampconversion(at#3-T600000ms))"
    plan = aggregate_by("window#5-T600000ms", f"{start} AS window#5-T600000ms")
    (finding,) = skew_of(plan, tmp_path)
    assert (finding.keys, finding.remedies[0].code) == (("window",), "")
    assert "window= and time=" in finding.remedies[0].text


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (join_by("customer#1L", "customer#2L"), 'left, right, on="customer")'),
        (join_by("a#1, b#3", "a#2, b#4"), 'left, right, on=["a", "b"])'),
        (join_by("cast(a#1 as bigint)", "b#2L"), 'left, right, on=[("a", "b")])'),
        (
            join_by("upper(a#1)", "b#2"),
            'left.withColumn("keyspread_key", F.expr("upper(a)")), right.withColumn("keyspread_key", F.expr("b")), '
            'on="keyspread_key").drop("keyspread_key")',
        ),
        (
            join_by("coalesce(a#1, x)", "b#2"),
            'left.withColumn("keyspread_key", left_key), right.withColumn("keyspread_key", F.expr("b")), '
            'on="keyspread_key").drop("keyspread_key")',
        ),
        (  # a column of this name is not replaced
            join_by("upper(keyspread_key#1)", "key#2"),
            'left.withColumn("keyspread_key2", F.expr("upper(keyspread_key)")), '
            'right.withColumn("keyspread_key2", F.expr("key")), on="keyspread_key2").drop("keyspread_key2")',
        ),
        (join_by("coalesce(a#1, 0), isnull(a#1)", "coalesce(a#2, 0), isnull(a#2)"), 'on="a", null_safe=True)'),
        (join_by("a#1", "a#2", ", (x#3 > y#4)"), 'on="a", condition=condition)'),
    ],
)
def test_a_join_is_written_with_the_keys_of_both_sides(plan, line, tmp_path):
    (finding,) = skew_of(plan, tmp_path)
    assert line in finding.remedies[-1].code
    assert ("Replace left_key by coalesce(a, x)" in finding.remedies[-1].text) == ("left_key" in line)


BIG = {"bytes_per_row": 200_000}  # 800 MB in the hot partition


@pytest.mark.parametrize(
    ("plan", "options", "expected"),
    [
        (join_plan(), {"version": "3.1.2"}, "off"),
        (join_plan(), {"settings": {"spark.sql.adaptive.enabled": "false"}}, "off"),
        (join_plan(), {}, "on; the plan of this query is not adaptive"),
        (adaptive(join_plan()), {}, "on; 391 KiB < 256 MB: not split"),
        (adaptive(join_plan("FullOuter")), BIG, "on; full outer is never split"),
        (adaptive(join_plan("RightOuter")), BIG, "on; of a right outer join only the right side is split"),
        (adaptive(node("Window", None, exchange("customer#1L"))), BIG, "on; it splits only joins"),
        (
            adaptive(join_plan()),
            {**BIG, "settings": {"spark.sql.adaptive.skewJoin.skewedPartitionFactor": "20"}},
            "on; 16.0 × the median < 20 ×: not split",
        ),
        (
            adaptive(node("HashAggregate", "HashAggregate(keys=[customer#1L], functions=[sum(a#1)])", join_plan())),
            BIG,
            "on; the sum above needs the same keys",
        ),
        (adaptive(join_plan(name="SortMergeJoin(skew=true)")), BIG, "on; it split the partition"),
    ],
)
def test_why_adaptive_execution_did_not_act(plan, options, expected, tmp_path):
    (finding,) = skew_of(plan, tmp_path, **options)
    assert finding.adaptive == expected


def test_adaptive_execution_that_is_off_and_would_act_is_switched_on(tmp_path):
    (finding,) = skew_of(join_plan(), tmp_path, version="3.1.2", other_rows=[1000] * 16, **BIG)
    assert finding.remedies[0].code == 'spark.conf.set("spark.sql.adaptive.enabled", "true")'


CONDITIONS = ["StartsWith(url#4, prefix#5)", "url#4 LIKE pattern#5", "active#7", "url#4 IN (x#5,y#6)", "pythonUDF0#33"]


@pytest.mark.parametrize("condition", [*CONDITIONS, "NOT a#1", "BuildRight, active#7"])
def test_no_further_condition_of_a_join_is_dropped(condition, tmp_path):
    (finding,) = skew_of(join_by("a#1", "b#2", f", {condition}"), tmp_path, other_rows=[10] * 16)
    assert finding.remedies[0].code == 'left.join(F.broadcast(right), (left["a"] == right["b"]) & condition, "inner")'
    assert finding.remedies[1].code == 'keyspread.spark.join(left, right, on=[("a", "b")], condition=condition)'
    assert all("further condition" in remedy.text for remedy in finding.remedies)


@pytest.mark.parametrize(("how", "words"), [("ExistenceJoin(exists#9)", "existence"), ("LeftSingle", "left single")])
def test_a_join_of_an_unknown_type_has_no_line(how, words, tmp_path):
    (finding,) = skew_of(adaptive(join_plan(how)), tmp_path, other_rows=[10] * 16)
    assert [remedy.code for remedy in finding.remedies] == [""]
    assert f"no join of the type {words}" in finding.remedies[0].text
    assert finding.adaptive.endswith("is never split")


def test_a_join_in_which_null_equals_null_in_some_pairs_only(tmp_path):
    left, right = "coalesce(a#1L, 0), isnull(a#1L), b#3L", "coalesce(x#4L, 0), isnull(x#4L), y#5L"
    (finding,) = skew_of(join_by(left, right), tmp_path, other_rows=[10] * 16)
    broadcast, by_plan = finding.remedies
    condition = 'left["a"].eqNullSafe(right["x"]) & (left["b"] == right["y"])'
    assert broadcast.code == f'left.join(F.broadcast(right), {condition}, "inner")'
    assert (by_plan.code, "in some" in by_plan.text) == ("", True)


def test_a_join_by_more_keys_than_the_plan_shows_has_no_line(tmp_path):
    keys = "a#1, b#2, ... 6 more fields"
    (finding,) = skew_of(join_by(keys, keys), tmp_path, other_rows=[10] * 16)
    assert [remedy.code for remedy in finding.remedies] == [""]
    assert "does not show all" in finding.remedies[0].text


@pytest.mark.parametrize(
    ("order", "source"),
    [
        ("amount#3L ASC NULLS FIRST", '"amount"'),
        ("amount#3L DESC NULLS LAST", 'F.col("amount").desc()'),
        (
            "a.b#3L ASC NULLS LAST, c#4 DESC NULLS FIRST",
            'F.col("`a.b`").asc_nulls_last(), F.col("c").desc_nulls_first()',
        ),
        ("(amount#3L % 5) DESC NULLS LAST", 'F.expr("amount % 5").desc()'),
    ],
)
def test_a_sort_keeps_its_direction(order, source, tmp_path):
    text = f"Exchange rangepartitioning({order}, 16), ENSURE_REQUIREMENTS, [plan_id=1]"
    (finding,) = skew_of(node("Sort", f"Sort [{order}], true, 0", {**exchange("x"), "simpleString": text}), tmp_path)
    assert finding.remedies[0].code == f"df.orderBy({source}, F.monotonically_increasing_id())"
