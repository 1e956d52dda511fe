"""Aggregates as Columns: equal to plain groupBy().agg() of the same Columns, or refused in one line."""

import datetime
import decimal

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from pyspark.sql.utils import is_remote

from keyspread.errors import InputError
from keyspread.spark import aggregate

pytestmark = [pytest.mark.usefixtures("static"), pytest.mark.connect]


@pytest.fixture(scope="module")
def rows(spark):
    return (
        spark.range(0, 300, 1, 3)
        .selectExpr(
            "if(id % 3 = 0, 'hot', concat('k', id % 7)) AS k",
            "if(id % 11 = 0, NULL, int(id % 50)) AS amount",
            "(id % 17) / 8D AS price",
            "cast(id % 13 AS decimal(10,2)) AS money",
            "CASE id % 5 WHEN 0 THEN \"it's\" WHEN 1 THEN 'a \"b\"' WHEN 2 THEN '(amount' WHEN 3 THEN 'x`y' END AS s",
            "date_add(date'2024-01-01', int(id % 400)) AS day",
            "id % 9 AS `a b`",
            "id % 8 AS `a.b`",
            "id % 7 AS `a``b`",
            "id % 6 AS `sum(amount)`",
            "id % 4 AS `größe`",
            "id % 3 AS `order`",
            "named_struct('x', id % 10) AS p",
        )
        .cache()
    )


def in_order(df):
    return sorted(repr([sorted(v, key=repr) if isinstance(v, list) else v for v in row]) for row in df.collect())


def check(rows, columns, key="k"):
    found, plain = aggregate(rows, key, columns, 4, "shuffle"), rows.groupBy(key).agg(*columns)
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in plain.schema]
    assert in_order(found) == in_order(plain)


def test_simple_calls_are_equal_to_plain(rows):
    check(
        rows,
        [
            F.count("*"),
            F.count(F.lit(1)).alias("n"),
            F.count("amount"),
            F.sum("amount"),
            F.sum("amount").alias("total"),
            F.sum("amount").alias("a").alias("b"),
            F.sum("amount").alias("my total AS `x`"),
            F.avg("amount"),
            F.mean("money"),
            F.min("s"),
            F.max("day"),
            F.count_distinct("s"),
            F.count_distinct("s").alias("different"),
            F.collect_list("amount"),
            F.collect_set("s"),
            F.max_by("price", F.col("amount") * 1000 + F.col("a b")),
            F.bit_xor("amount"),
            F.every(F.col("amount") >= 0),
            F.bool_or(~(F.col("amount") > 40)),
            F.expr("sum(amount)"),
            F.expr("max(amount -(1)) AS less"),
        ],
    )


def test_odd_names_are_equal_to_plain(rows):
    check(
        rows,
        [
            F.sum("a b"),
            F.sum("`a.b`").alias("a.b"),
            F.sum("`a``b`").alias("a`b"),
            F.sum(F.col("a b") + F.col("`a.b`") - F.col("`a``b`")),
            F.max("sum(amount)"),
            F.max(F.col("sum(amount)") + F.col("amount")),
            F.sum("größe"),
            F.sum("order"),
            F.max("p.x"),
            F.max(F.col("p")["x"]),
            F.max(rows["a b"]),
            F.max(rows["`a.b`"]),
        ],
    )


def test_expressions_and_literals_are_equal_to_plain(rows):
    check(
        rows,
        [
            F.sum(F.col("amount") * 2 + 1),
            F.sum(F.col("price") * 1.5),
            F.sum(-F.col("amount") % 7),
            F.sum(F.col("amount").cast("long")),
            F.sum(F.col("amount").cast(LongType())),
            F.max(F.col("amount").cast("string")),
            F.max(F.when(F.col("s") == "it's", 1).when(F.col("a b") > 4, 2).otherwise(3)),
            F.max(F.when(F.col("a b") > 4, F.lit("a b")).otherwise("(a.b")),
            F.max(F.concat(F.coalesce("s", F.lit("-(")), F.lit("q'\\\"`),( AS x\n"))).alias("quotes"),
            F.sum(F.col("s").isin("it's", "x`y").cast("int")),
            F.max(F.col("amount").between(1, 3)),
            F.max(F.col("s").like('%b"')),
            F.max(F.col("s").rlike("^i|y\\w*$")),
            F.max(F.col("s").isNull() & F.col("amount").isNotNull() | (F.col("amount") != 3)),
            F.max(F.col("amount").eqNullSafe(3)),
            F.max(F.col("s").substr(1, 2)),
            F.max(F.greatest(F.col("day"), F.lit(datetime.date(2024, 6, 1)))),
            F.max(F.lit(datetime.datetime(2024, 6, 1, 3, 4, 5, 678))),
            F.max(F.lit(2**40)),
            F.max(F.lit(None)),
            F.max(F.lit(True)),
            F.max(F.lit("amount")),
            F.collect_set(F.struct("s", F.col("amount").alias("x"))),
            F.sum(F.expr("amount - 1")),
        ],
    )


def test_a_sketch_is_within_its_bound(rows):
    found = aggregate(rows, "k", [F.approx_count_distinct("amount"), F.percentile_approx("amount", 0.5)], 4, "shuffle")
    plain = rows.groupBy("k").agg(F.approx_count_distinct("amount"), F.percentile_approx("amount", 0.5))
    assert found.schema.names == plain.schema.names
    for row, wanted in zip(found.orderBy("k").collect(), plain.orderBy("k").collect(), strict=True):
        assert abs(row[1] - wanted[1]) <= 2
        assert abs(row[2] - wanted[2]) <= 2


def test_a_dict_names_the_columns_and_may_mix_text_and_columns(rows):
    found = aggregate(
        rows, "k", {"n": F.count("*"), "total": F.sum("amount").alias("unused"), "most": "max(price)"}, 4, "shuffle"
    )
    plain = rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("amount").alias("total"), F.max("price").alias("most"))
    assert found.columns == ["k", "n", "total", "most"]
    assert in_order(found) == in_order(plain)


def test_a_single_column_and_a_tuple_are_taken_too(rows):
    assert aggregate(rows, "k", F.count("*"), 4, "shuffle").columns == ["k", "count(1)"]
    assert aggregate(rows, "k", (F.max("amount"),) * 2, 4, "shuffle").columns == ["k", "max(amount)", "max(amount)"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: F.sum("amount") + 1, r"aggregate '\+\(sum\(amount\), 1\)' must be one call such as F.sum\('amount'\)"),
        (lambda: F.col("amount"), "aggregate 'amount' must be one call"),
        (lambda: F.first("s"), "'first' cannot be merged from parts; these can: "),
        (lambda: F.sum_distinct("amount"), r"'sum\(distinct\)' cannot be merged from parts"),
        (lambda: F.count_distinct("s", "amount"), r"'count\(distinct\)' cannot be merged from parts"),
        (lambda: F.sum("amount").cast("double"), "'cast' cannot be merged from parts"),
        (lambda: F.approx_count_distinct("s", 0.01), r"takes 1 argument\(s\) here, got 2"),
        (lambda: F.percentile_approx("amount", 0.5, 100), r"takes 2 argument\(s\) here, got 3"),
        (lambda: F.expr("sum(amount) FILTER (WHERE price > 1)"), "must be one call such as 'sum"),
        (lambda: F.collect_list(F.struct("*")), r"name the columns instead of \* in "),
        (lambda: F.max(F.lit(float("nan"))), "cannot be read from a Column: write it as SQL text"),
        (lambda: F.max(F.lit(datetime.timedelta(5))), "cannot be read from a Column: write it as SQL text"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_in_one_line(rows, make, message, capfd):
    with pytest.raises(InputError, match=message) as refused:
        aggregate(rows, "k", [make()], 4, "shuffle")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_decimals_are_exact_or_refused(rows):
    column = F.sum(F.col("money") * F.lit(decimal.Decimal("1.50")))
    if is_remote():  # the type of the literal is not what SQL makes of its text
        with pytest.raises(InputError, match="write it as SQL text"):
            aggregate(rows, "k", [column], 4, "shuffle")
    else:
        check(rows, [column])


def test_what_is_no_column_is_refused(rows):
    with pytest.raises(InputError, match=r"a list of Columns such as \[F.sum\('amount'\)\] or an Operator, got \['sum"):
        aggregate(rows, "k", ["sum(amount)"], 4)
    with pytest.raises(InputError, match="aggregate 'n' must be SQL text such as 'sum\\(amount\\)' or a Column, got 3"):
        aggregate(rows, "k", {"n": 3}, 4)


@pytest.mark.connect
def test_errors_of_other_queries_stay_those_of_spark(spark):
    """Looking for the SQL of a Column must not disturb PySpark's own reports of errors."""
    rows = spark.range(10).selectExpr("id AS k", "id AS v")
    aggregate(rows, "k", [F.sum("v")], 2, "shuffle")
    with pytest.raises(AnalysisException, match="nope"):
        rows.selectExpr("nope + 1").count()


@pytest.mark.connect
def test_a_wrong_column_is_one_line(spark):
    rows = spark.range(10).selectExpr("id AS k", "id AS v")
    for column in (F.sum("nope"), F.sum(F.sum("v")), F.sum(F.rand())):
        with pytest.raises(InputError, match=r"^aggregate Column<") as caught:
            aggregate(rows, "k", [column], 2, "shuffle")
        assert "\n" not in str(caught.value)
