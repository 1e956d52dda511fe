"""Our join is Spark's own, as multisets of rows: random tables, all types of joins and keys, random grids."""

import random
from contextlib import ExitStack

import pytest

pytest.importorskip("pyspark")

from join_cases import COLLATED, HOWS, KINDS, WHOLE, cases_of, differences, has_collations, settings, tables

from frames import setting
from keyspread.spark import join


@pytest.fixture(autouse=True)
def small(spark):
    """Joins that shuffle, in jobs that start fast."""
    with ExitStack() as stack:
        for name, value in settings().items():
            if name.startswith("spark.sql."):
                stack.enter_context(setting(spark, name, str(value)))
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_any_grid_gives_the_same_rows(spark, kind):
    number = [*KINDS].index(kind)
    with setting(spark, "spark.sql.adaptive.enabled", str(number % 2 == 0).lower()):
        assert differences(cases_of(spark, random.Random(number), KINDS[kind])) == []


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_several_keys_and_conditions(spark, adaptive):
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        rng = random.Random(f"several {adaptive}")
        assert differences(cases_of(spark, rng, KINDS["bigint"]) + cases_of(spark, rng, KINDS["string"])) == []


@pytest.mark.parametrize("kind", WHOLE | COLLATED)
def test_keys_that_cannot_be_cut_are_joined_by_spark(spark, kind):
    if kind in COLLATED and not has_collations(spark):
        pytest.skip("this Spark has no collations")
    left, right = tables(spark, random.Random(kind), (WHOLE | COLLATED)[kind])
    cases = [(how, join(left, right, "k0", how), left.join(right, "k0", how)) for how in HOWS]
    assert [ours.schema == plain.schema for _, ours, plain in cases] == [True] * len(cases)
    assert differences(cases) == []
