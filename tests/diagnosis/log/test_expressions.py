"""Key columns from the text of a plan."""

import pytest

from keyspread.diagnosis.log.expressions import (
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


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("customer#1", "customer#1"),
        ("cast(customer#1 as bigint)", "customer#1"),
        ("cast(cast(customer#1 as bigint) as decimal(20,0))", "customer#1"),
        ("knownfloatingpointnormalized(normalizenanandzero(x#1))", "x#1"),
        ("cast(lower(name#1) as bigint)", "cast(lower(name#1) as bigint)"),
        ("cast((a#1 + b#2) as bigint)", "cast((a#1 + b#2) as bigint)"),
        ("cast(at#1 as date)", "cast(at#1 as date)"),  # many times are one day
    ],
)
def test_what_spark_adds_is_not_part_of_the_key(expression, column):
    assert bare(expression) == column


def test_definitions():
    assert definitions("Project [(a#1 % 50) AS b#2, c#3, 1 AS 1#825]") == {"b#2": "(a#1 % 50)", "1#825": "1"}
    assert definitions("Filter (a#1 > 2)") == {}


def test_split_arguments():
    assert split_arguments("a, f(b, [c, d]), 'x, y', `p, q`") == ["a", "f(b, [c, d])", "'x, y'", "`p, q`"]


def test_null_safe_keys():
    keys = ["coalesce(a#1L, 0)", "isnull(a#1L)", "b#2"]
    assert without_null_safety(keys) == (["a#1L", "b#2"], [True, False])
    assert without_null_safety(["coalesce(a#1L, 0)", "b#2"]) == (["coalesce(a#1L, 0)", "b#2"], [False, False])
