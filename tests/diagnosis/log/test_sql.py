"""Expressions of a plan as SQL: the same, or none."""

import pytest

from keyspread.diagnosis.log.expressions import as_sql, quoted


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("customer#2L", "customer"),
        ("customer#2L % 50", "customer % 50"),
        ("upper(name#3)", "upper(name)"),
        ("cast(at#5 as date)", "cast(at as date)"),
        ("pmod((a#1 + b#2L), 10)", "pmod((a + b), 10)"),
        ("CASE WHEN (a#1 > b#2) THEN a#1 ELSE b#2 END", "CASE WHEN (a > b) THEN a ELSE b END"),
        ("größe.x#1", "`größe.x`"),
        ("year(at#7-T600000ms)", "year(at)"),
        ("NOT flag#1", "NOT flag"),
        ("-amount#1L", "-amount"),
        ("round(x#1, 2)", "round(x, 2)"),
        ("substring(a#1, 1, 3)", "substring(a, 1, 3)"),
        ("(cast(a#1 as double) / 3.0)", "(cast(a as double) / 3.0)"),
        ("concat(a#1, upper(b#2))", "concat(a, upper(b))"),
    ],
)
def test_what_a_plan_shows_exactly(expression, expected):
    assert as_sql(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "coalesce(name#3, none)",  # the text 'none'
        "concat(a#1, , b#2)",  # a blank or a comma
        "CASE WHEN (name#3 = c7) THEN x#1 ELSE y#2 END",
        "name#3 = 7",  # the number, or the text '7'
        "coalesce(day#1, 2020-01-01)",  # 2018 for SQL
        "xxhash64(a#1, 42)",  # the seed is no argument in SQL
        "if (isnull(a#1)) b#2 else c#3",
        "date_trunc(hour, at#1, Some(Etc/UTC))",
        "upper(client id#5)",
        "my_function(a#1)#7",
        "pythonUDF0#12 + x",
        "concat(a#1, -, b#2)",  # texts of signs, digits and words of SQL
        "concat(a#1, /, b#2)",
        "concat(a#1, (, b#2)",
        "concat(a#1, =, b#2)",
        "concat(a#1, 007)",
        "concat(a#1, 1, b#2)",
        "concat(a#1, null)",
        "concat(a#1, true)",
        "concat(a#1, and, b#2)",
        "coalesce(a#1, 0)",
        "coalesce(a#1, )",
        "coalesce(flag#1, false)",
        "greatest(a#1, 10)",
        "CASE WHEN (a#1 > b#2) THEN null ELSE a#1 END",
        "CASE WHEN f#1 THEN 01 ELSE 02 END",
        "CASE WHEN f#1 THEN 1 ELSE 0 END",
        "a#1 b#2",
        "(a#1",
    ],
)
def test_what_it_does_not_show_is_refused(expression):
    assert as_sql(expression) is None


def test_names():
    assert [quoted(name) for name in ("a", "a b", "a.b", "a`b", "Größe")] == [
        "a",
        "`a b`",
        "`a.b`",
        "`a``b`",
        "`Größe`",
    ]
