"""Key columns from the text of a plan, and expressions of a plan as SQL: the same, or none."""

import pytest

from keyspread.diagnosis.log.expressions import (
    as_sql,
    bare,
    definitions,
    partitioning,
    shown,
    split_arguments,
    without_null_safety,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Exchange hashpartitioning(customer#2L, 16), ENSURE_REQUIREMENTS", ("hash", ["customer#2L"], 16)),
        ("Exchange hashpartitioning(a#1, coalesce(b#2, 0), 200)", ("hash", ["a#1", "coalesce(b#2, 0)"], 200)),
        ("Exchange rangepartitioning(a#1 ASC NULLS FIRST, 8), x", ("range", ["a#1"], 8)),
        ("GpuColumnarExchange gpuhashpartitioning(a#57, 200), true", ("hash", ["a#57"], 200)),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS", ("single", [], None)),
        ("Exchange RoundRobinPartitioning(10), REPARTITION_BY_NUM", ("round robin", [], None)),
        ("Exchange hashpartitioning(kunde ä, b#1, 16)", ("hash", ["kunde ä", "b#1"], 16)),
        ("Exchange hashpartitioning(cut off", ("hash", ["cut off"], None)),
        ("Exchange", ("", [], None)),
    ],
)
def test_partitioning(text, expected):
    assert partitioning(text) == expected


@pytest.mark.parametrize(
    ("name", "definition", "expected"),
    [
        ("customer#2L", None, "customer"),
        ("bucket#821L", "(customer#2L % 50)", "bucket (customer % 50)"),
        ("customer#6L", "id#5L", "customer"),
        ("day#1", "cast(time#2 as date)", "day (cast(time as date))"),
        ("customer#1L", "CASE WHEN ((hash(id#0L, 3, 42) % 1000) < -200) THEN 7 ELSE 8 END", "customer"),
        ("_groupingexpression#9", "lower(name#1)", "lower(name)"),
        ("_groupingexpression#9", f"concat({'a#1, ' * 20}b#2)", "concat(a, a, a, a, a, a, a, a, a, a, a,…"),
        ("Größe#3", None, "Größe"),
        ("at#3-T600000ms", None, "at"),
    ],
)
def test_shown(name, definition, expected):
    assert shown(name, definition) == expected


def test_what_spark_adds_is_not_part_of_the_key():
    for added in ("cast(x#1 as bigint)", "cast(cast(x#1 as bigint) as decimal(20,0))", "normalizenanandzero(x#1)"):
        assert bare(added) == "x#1"
    for own in ("cast(lower(name#1) as bigint)", "cast((a#1 + b#2) as bigint)", "cast(at#1 as date)"):
        assert bare(own) == own


def test_definitions_arguments_and_null_safe_keys():
    assert definitions("Project [(a#1 % 50) AS b#2, c#3, 1 AS 1#825]") == {"b#2": "(a#1 % 50)", "1#825": "1"}
    assert definitions("Filter (a#1 > 2)") == {}
    assert split_arguments("a, f(b, [c, d]), 'x, y', `p, q`") == ["a", "f(b, [c, d])", "'x, y'", "`p, q`"]
    keys = ["coalesce(a#1L, 0)", "isnull(a#1L)", "b#2"]
    assert without_null_safety(keys) == (["a#1L", "b#2"], [True, False])
    assert without_null_safety(["coalesce(a#1L, 0)", "b#2"]) == (["coalesce(a#1L, 0)", "b#2"], [False, False])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("customer#2L % 50", "customer % 50"),
        ("cast(at#5 as date)", "cast(at as date)"),
        ("pmod((a#1 + b#2L), 10)", "pmod((a + b), 10)"),
        ("((a#1 <=> b#2) AND NOT (c#3 = d#4))", "((a <=> b) AND NOT (c = d))"),
        ("größe.x#1", "`größe.x`"),
        ("year(at#7-T600000ms)", "year(at)"),
        ("-amount#1L", "-amount"),
        ("substring(a#1, 1, 3)", "substring(a, 1, 3)"),
        ("(cast(a#1 as double) / 3.0)", "(cast(a as double) / 3.0)"),
        ("concat(a#1, upper(a#1))", "concat(a, upper(a))"),
    ],
)
def test_what_a_plan_shows_exactly(expression, expected):
    assert as_sql(expression) == expected


# Texts of letters, signs, digits and words of SQL: a plan prints them without quotes.
TEXTS = [
    "",
    "none",
    "-",
    "/",
    "(",
    "=",
    "#",
    "007",
    "1",
    "1 + 2",
    "-1",
    "null",
    "true",
    "True",
    "and",
    "b#2 - x",
    "2020-10-10",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("around", ["concat(a#1, {}, c#3)", "coalesce(a#1, {})", "a#1 = {}"])
def test_what_may_be_a_text_is_refused(text, around):
    assert as_sql(around.format(text)) is None


@pytest.mark.parametrize(
    "expression",
    [
        "xxhash64(a#1, 42)",  # the seed is no argument in SQL
        "if (isnull(a#1)) b#2 else c#3",
        "CASE WHEN (a#1 > b#2) THEN null ELSE a#1 END",
        "date_trunc(hour, at#1, Some(Etc/UTC))",
        "upper(client id#5)",
        "my_function(a#1)#7",
        "pythonUDF0#12 + x",
        "a#1 b#2",
        "a#1--b#2",
        "(a#1",
    ],
)
def test_what_sql_reads_in_another_way_is_refused(expression):
    assert as_sql(expression) is None
