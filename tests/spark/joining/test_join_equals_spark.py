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


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_any_grid_gives_the_same_rows(spark, part):
    """Each kind of key in two types of joins, each type with several kinds; as a script join_cases.py tries all."""
    rng, cases = random.Random(part), []
    with setting(spark, "spark.sql.adaptive.enabled", str(part % 2 == 0).lower()):
        for number in range(part, len(KINDS), 4):
            hows = [HOWS[(number + part) % 6], HOWS[(number + part + 3) % 6]]
            cases += cases_of(spark, rng, [*KINDS.values()][number], hows)
        assert differences(cases) == []


@pytest.mark.parametrize("kind", WHOLE | COLLATED)
def test_keys_that_cannot_be_cut_are_joined_by_spark(spark, kind):
    if kind in COLLATED and not has_collations(spark):
        pytest.skip("this Spark has no collations")
    left, right = tables(spark, random.Random(kind), (WHOLE | COLLATED)[kind])
    cases = [(how, join(left, right, "k0", how), left.join(right, "k0", how)) for how in ("inner", "full", "left_anti")]
    assert [ours.schema == plain.schema for _, ours, plain in cases] == [True] * len(cases)
    assert differences(cases) == []
