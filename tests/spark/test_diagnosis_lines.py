"""The lines of code that a diagnosis suggests run on Spark, also for computed keys and odd names."""

import pytest
from pyspark.sql import functions as F

import keyspread
import keyspread.spark
from keyspread.operators import Operator
from made_logs import exchange, join_by, node, skew_of


class MyOperator(Operator):
    """Counts rows."""

    schema = "n bigint"

    def zero(self):
        return 0

    def update(self, state, rows):
        return state + len(rows)

    def merge(self, state, other):
        return state + other

    def finish(self, state):
        return {"n": state}


@pytest.fixture(scope="module")
def names(spark):
    rows = spark.range(60).selectExpr(
        "if(id % 2 = 0, 7, id) AS customer", "concat('c', id % 5) AS name", "id AS `client id`", "id AS `client.code`"
    )
    plain = rows.drop("client.code")  # Spark's own mapInPandas refuses a name with a dot
    right = spark.range(60).selectExpr("id", "id AS customer", "concat('c', id) AS title")
    return {
        "keyspread": keyspread,
        "F": F,
        "MyOperator": MyOperator,
        "f": lambda batches: batches,
        "schema": plain.schema,
        "spark": spark,
        "df": plain,
        "windowed": rows,
        "left": rows,
        "right": right,
        "key": F.expr("coalesce(name, 'none')"),
        "left_key": F.expr("coalesce(name, 'none')"),
        "condition": F.expr("title != name"),
    }


def lines(plan, folder):
    (finding,) = skew_of(plan, folder, other_rows=[1] * 16)
    return [remedy.code.replace("workers=16", "workers=4") for remedy in finding.remedies if remedy.code]


def by(name, keys, *below):
    return node(name, None, exchange(keys, *below))


COMPUTED = node("Project", "Project [upper(name#3) AS _groupingexpression#5]")
UNKNOWN = node("Project", "Project [coalesce(name#3, none) AS _groupingexpression#5]")
WRITE = "Execute InsertIntoHadoopFsRelationCommand file:/out, false, {}Parquet, [path=/out]"


@pytest.mark.parametrize(
    ("plan", "many"),
    [
        (by("Window", "upper(name#3), client id#4L"), 1),
        (by("Window", "client.code#4L"), 1),
        (by("FlatMapGroupsInPandas", "_groupingexpression#5", COMPUTED), 2),
        (node("ObjectHashAggregate", "ObjectHashAggregate(keys=[x])", exchange("_groupingexpression#5", UNKNOWN)), 1),
        (by("Project", "(customer#1L % 50)"), 1),
        (node("InMemoryTableScan", None, exchange("customer#1L")), 1),
        (node("X", WRITE.format("[customer#1L], "), node("WriteFiles", None, exchange("customer#1L"))), 1),
        (node("X", WRITE.format("[b#5], "), node("WriteFiles", None, exchange("upper(name#3)"))), 1),
        (node("X", WRITE.format(""), node("WriteFiles", None, exchange("customer#1L"))), 2),
        (node("Sort", None, {**exchange("x"), "simpleString": "Exchange rangepartitioning(upper(name#3) ASC, 16)"}), 1),
        (join_by("customer#1L", "customer#2L"), 2),
        (join_by("client id#1L", "id#2L"), 2),
        (join_by("client.code#1L", "id#2L"), 2),
        (join_by("upper(name#3)", "upper(title#4)"), 2),
        (join_by("coalesce(name#3, none)", "title#4"), 2),
        (join_by("coalesce(customer#1L, 0), isnull(customer#1L)", "coalesce(id#2L, 0), isnull(id#2L)"), 2),
        (join_by("customer#1L", "id#2L", ", NOT (title#4 = name#3)"), 2),
    ],
)
def test_every_line_runs(plan, many, names, tmp_path):
    found = lines(plan, tmp_path)
    assert len(found) == many
    for line in found:
        result = eval(compile(line, "line", "eval"), dict(names))
        assert result.columns
        result.unpersist()
