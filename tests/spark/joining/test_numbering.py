"""Numbers by which rows are cut: the same on every attempt where Spark does not protect retried tasks, or no cut."""

import re
import warnings
from collections import Counter
from contextlib import ExitStack

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import setting
from keyspread.spark import Watch, cogroup, join, plan_join
from keyspread.spark._joining.numbering import numbers_of
from keyspread.spark._routing.plan_text import physical_plan
from keyspread.spark._routing.repeatable import PROTECTION, is_protected

KEY = "IF(id % 2 = 0, -1, id % 97) AS k"


@pytest.fixture(autouse=True)
def unprotected(spark, static):
    """Spark as it was before 4.2: it does not notice that a retried task sent its rows elsewhere."""
    with ExitStack() as stack:
        for name in PROTECTION if is_protected(spark) else ():
            stack.enter_context(setting(spark, name, "false"))
        stack.enter_context(setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def rows(spark):
    """2,000 rows of which half have key -1."""
    return spark.range(0, 2000, 1, 3).selectExpr(KEY, "id AS v", "id % 700 AS day", "id / 3D AS x")


@pytest.fixture
def right(spark):
    return spark.range(0, 100, 1, 2).selectExpr("IF(id % 10 = 0, -1L, id) AS k", "id AS w")


def bag(df):
    return Counter(map(tuple, df.collect()))


SURE = {  # side, and columns whose hash numbers the rows; None: positions
    "files": (lambda df: df, None),
    "shuffle": (lambda df: df.repartition(3, "v"), None),
    "avg of doubles": (lambda df: df.groupBy("k", "day").agg(F.avg("x").alias("x")), {"k", "day"}),
    "text of an avg": (lambda df: df.groupBy("k", "day").agg(F.avg("x").cast("string").alias("x")), {"k", "day"}),
    "dropDuplicates": (lambda df: df.dropDuplicates(["k", "day"]), {"k", "day"}),
    "rand": (lambda df: df.repartition(3, "v").withColumn("r", F.rand(7)), {"k", "v", "day", "x"}),
    "window": (
        lambda df: df.selectExpr("k", "v", "row_number() OVER (PARTITION BY k ORDER BY day) AS n"),
        {"k", "v"},
    ),
}


@pytest.mark.parametrize("case", SURE)
def test_what_is_not_sure_is_left_out(rows, case):
    make, columns = SURE[case]
    found = numbers_of(make(rows), ["k"])
    assert found.missing_because is None
    assert found.are_positions == (columns is None)
    if columns is not None:
        assert {*re.findall(r"\w+", str(found.by))} & {*make(rows).columns} == columns


@pytest.mark.parametrize("number", range(len(SURE)))
@pytest.mark.slow
def test_hot_keys_are_cut_all_the_same(rows, right, number):
    case, how = [*SURE][number], ["inner", "left", "full"][number % 3]
    side = SURE[case][0](rows)
    watch = Watch()
    if how == "full":
        warnings.simplefilter("ignore")  # it stays whole if rows may change between counting and joining
    # Which row dropDuplicates keeps is up to Spark.
    sure = [name for name in side.columns if SURE[case][1] is None or name in SURE[case][1]]
    ours = join(side, right, "k", how, watch=watch).select(*sure, "w")
    assert watch.way.name == "planned" or (how == "full" and case in ("dropDuplicates", "rand"))
    assert bag(ours) == bag(side.join(right, "k", how).select(*sure, "w"))


CHANGING = {
    "limit": lambda df: df.repartition(3, "v").limit(900),
    "first rows of an order": lambda df: df.repartition(3, "v").orderBy("day").limit(1900),
    "latest row per key": lambda df: df.selectExpr(
        "*", "row_number() OVER (PARTITION BY v % 1900 ORDER BY day) AS n"
    ).where("n = 1"),
    "function in Python": lambda df: df.repartition(3, "v").mapInPandas(lambda each: each, df.schema),
}


@pytest.mark.parametrize("case", CHANGING)
def test_otherwise_the_join_is_sparks_own_and_says_why(rows, right, case):
    side = CHANGING[case](rows)
    assert numbers_of(side, ["k"]).rows_may_change
    watch = Watch()
    with pytest.warns(UserWarning, match="the join is left to Spark, its hot keys cannot be cut: left side: ") as seen:
        ours = join(side, right, "k", "left", watch=watch)
    assert seen[0].filename == __file__
    assert watch.way.name == "join"
    assert "its hot keys cannot be cut: left side: a retried task may compute other rows" in watch.way.reason
    assert "keyspread" not in physical_plan(ours)
    assert ours.columns == side.join(right, "k", "left").columns
    if case == "limit":
        with pytest.warns(UserWarning, match="right side: a retried task"):
            assert "left to Spark, its hot keys cannot be cut" in str(plan_join(right, side, "k"))


ONLY_COPIED = {
    # Grouped by v alone, a range needs no shuffle.
    "only the key": lambda df: df.groupBy("day", "k").agg(F.avg("x").alias("x")).select("k", "x"),
    "two columns of one name": lambda df: df.repartition(3, "v").select("k", "v", F.col("v")),
}


@pytest.mark.parametrize("case", ONLY_COPIED)
def test_the_other_side_is_cut_if_that_is_enough(rows, right, case):
    side = ONLY_COPIED[case](rows)
    found = numbers_of(side, ["k"])
    assert found.missing_because is not None
    assert not found.rows_may_change
    hot = plan_join(side, right, "k").hot
    assert {key.pieces[0] for key in hot} == {1}
    assert max(key.pieces[1] for key in hot) > 1
    watch = Watch()
    ours = join(side, right, "k", watch=watch)
    assert watch.way.name == "planned"
    assert ours.groupBy(F.spark_partition_id()).count().count() == 4
    assert ours.count() == side.join(right, "k").count()
    # Its rows must not be copied if they are preserved, and cannot be cut.
    with pytest.warns(UserWarning, match="its hot keys cannot be cut: left side: "):
        join(side, right, "k", "left", condition="w > 3")


def test_cogroup_falls_back_too(spark, rows, right):
    side = rows.select("k", "v").repartition(3, "v").limit(900)
    with pytest.warns(UserWarning, match="hot keys cannot be cut: left side: a retried task may compute other rows"):
        found = cogroup(side, right, "k", lambda one, other: one, "k long, v long", per_left=True)
    assert found.count() == 900


def test_a_content_hash_does_not_depend_on_the_order_of_rows(rows, right):
    """Rows in another order, with other last digits, have the same parts."""

    def parts(salt):
        mixed = rows.repartition(2, "v").sortWithinPartitions(F.xxhash64(F.col("v"), F.lit(salt)))
        kept = mixed.observe(f"order {salt}", F.count("*"))  # or the optimizer would drop the sort
        side = kept.groupBy("k", "day").agg(F.avg("x").alias("x"))
        by = numbers_of(side, ["k"]).by
        return bag(side.select("k", "day", by))

    assert parts(1) == parts(2)
