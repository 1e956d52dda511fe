"""Sides as people have them: hints, caches, unions, limits, one DataFrame twice, chains, threads, changed data."""

import warnings
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from join_cases import HOWS, same
from pyspark.sql import functions as F

from frames import setting
from keyspread.spark import JoinPlan, Watch, join, plan_join
from keyspread.spark._routing.plan_text import physical_plan

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def shuffled(spark, static):
    with (
        setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"),
        setting(spark, "spark.sql.codegen.wholeStage", "false"),
        setting(spark, "spark.sql.shuffle.partitions", "2"),
    ):
        yield


@pytest.fixture
def left(spark):
    return spark.range(0, 300, 1, 3).selectExpr(
        "CASE WHEN id % 2 = 0 THEN -1 WHEN id % 10 = 5 THEN NULL ELSE id % 47 END AS k", "id AS v"
    )


@pytest.fixture
def right(spark):
    return spark.range(0, 60, 1, 2).selectExpr("IF(id % 4 = 0, -1L, id) AS k", "id AS w")


def bag(df):
    return Counter(map(tuple, df.collect()))


# How each side changed since the plan was made: keys appeared and vanished, on either side.
CHANGES = {
    "the hot key vanished on the left": ("k <> -1", None, "true", None),
    "the hot key vanished on the right": ("true", None, "k <> -1", None),
    "another key is hot": ("k <> -1", "7", "k <> -1", "7"),
    "a key appeared on the left": ("true", "1000", "true", None),
    "a key appeared on both sides": ("true", "1000", "true", "1000"),
    "nulls appeared": ("true", "NULL", "true", "NULL"),
    "the left side is empty": ("false", None, "true", None),
    "the right side is empty": ("true", None, "false", None),
}


def changed(df, keep, added):
    kept = df.where(keep)
    return kept if added is None else kept.union(df.selectExpr(f"CAST({added} AS BIGINT)", df.columns[1]))


@pytest.mark.parametrize("first", range(2))
def test_a_stored_plan_and_changed_data(left, right, first):
    """Each type of join, each change, with a condition or without one, but not each with each."""
    cases = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a full join says that its keys stay whole
        for number, how in enumerate(HOWS[first::2]):
            condition = "v > w * 3" if (number + first) % 2 else None
            plan = plan_join(left, right, [("k", "k")], how, threshold=0.01, condition=condition)
            assert plan.hot
            plan = JoinPlan.from_json(plan.to_json())
            for name in [*CHANGES][(first + 2 * number) % 4 :: 4]:
                keep_left, add_left, keep_right, add_right = CHANGES[name]
                lefts, rights = changed(left, keep_left, add_left), changed(right, keep_right, add_right)
                equal = lefts.k == rights.k
                plain = lefts.join(rights, equal if condition is None else equal & F.expr(condition), how)
                ours = join(lefts, rights, [("k", "k")], how, plan=plan, condition=condition)
                cases.append((f"{how} {name} {condition}", ours, plain))
    same(cases)


@pytest.mark.parametrize("how", ["right", "full"])
def test_files_that_change_between_planning_and_running(spark, tmp_path, how):
    """A key was on one side only when it was counted; then both sides have it, one of them few rows."""

    def write(name, hot):
        keys = [0] * hot + [1 + number % 40 for number in range(400 - hot)]
        lines = (f"{key:03d},{number:04d}\n" for number, key in enumerate(sorted(keys, key=lambda key: key * 7 % 41)))
        (tmp_path / f"{name}.csv").write_text("".join(lines))  # always of the same length

    def read(name):
        return spark.read.schema(f"k int, {name} int").csv(str(tmp_path / f"{name}.csv"))

    for counted, then in (((0, 300), (5, 2)), ((300, 0), (2, 5)), ((300, 300), (0, 5))):
        write("l", counted[0])
        write("r", counted[1])
        left, right = read("l"), read("r")
        ours = join(left, right, "k", how, plan=plan_join(left, right, "k", how))
        write("l", then[0])
        write("r", then[1])
        assert bag(ours) == bag(left.join(right, "k", how)), counted


@pytest.mark.parametrize("hint", ["broadcast", "merge", "shuffle_hash", "shuffle_replicate_nl"])
def test_hints(left, right, hint):
    cases = []
    for how, lefts, rights in (("inner", left, right.hint(hint)), ("full", left.hint(hint), right)):
        watch = Watch()
        ours = join(lefts, rights, "k", how, watch=watch)
        cases.append((how, ours, left.join(right, "k", how)))
        if hint in ("merge", "shuffle_hash"):
            assert watch.way.name == "planned", how
            if how == "inner":
                assert {"merge": "SortMergeJoin", "shuffle_hash": "ShuffledHashJoin"}[hint] in physical_plan(ours)
        elif how == "inner":
            assert watch.way.name == "join"
    same(cases)


def test_sides_behind_other_operators(spark, left, right):
    with setting(spark, "spark.sql.adaptive.enabled", "true"):
        sides = {
            "union": left.union(left.where("v % 3 = 0")),
            "aggregate": left.groupBy("k", (F.col("v") % 50).alias("v")).count().select("k", "v"),
            "limit": left.coalesce(1).limit(250),
            "sort": left.orderBy("v"),
            "cached": left.cache(),
            "checkpoint": left.localCheckpoint(),
            "spread": left.repartition(7),
            "distinct": left.distinct(),
        }
        cases = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, (name, side) in enumerate(sides.items()):
                one, other, how = (side, right, "left") if number % 2 else (right, side, "full")
                cases.append((f"{name} {how}", join(one, other, "k", how), one.join(other, "k", how)))
        same(cases)
        left.unpersist()


def test_one_dataframe_on_both_sides_and_columns_of_the_same_names(left, right):
    few, rights = left.where("v < 120"), right.selectExpr("k", "w AS v", "w")
    pairs = few.alias("one").join(few.alias("other"), F.expr("one.k = other.k"), "full")
    equal = left.k == rights.k
    same(
        [
            ("itself", join(few, few, "k", "left_anti"), few.join(few, "k", "left_anti")),
            ("itself by pairs", join(few, few, [("k", "k")], "full"), pairs),
            ("same names", join(left, rights, "k", "full"), left.join(rights, "k", "full")),
            ("same names by pairs", join(left, rights, [("k", "k")]), left.join(rights, equal)),
            ("a semi join", join(left, rights, [("k", "k")], "semi"), left.join(rights, equal, "semi")),
        ]
    )
