"""Counts as an observed text: every item comes back as it was, and what Spark damaged is refused."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import setting
from keyspread.errors import KeyspreadError
from keyspread.spark import Watch, spread
from keyspread.spark._engine.capabilities import has_function
from keyspread.spark.watch import read_counts, read_loads, top_items

pytestmark = pytest.mark.usefixtures("static")

STRANGE = [
    "",
    " ",
    "a",
    "null",
    "\\N",
    "\\",
    "\\\\",
    "}",
    "]",
    "{",
    "[",
    ", 3}, {b, 4",
    "], [",
    "\\)",
    "\\>",
    "é\n\t",
    "=",
    "#",
]


@pytest.mark.connect
@pytest.mark.parametrize("legacy", ["false", "true"])
def test_every_text_comes_back(spark, legacy):
    if not has_function(spark, "approx_top_k"):
        pytest.skip("this Spark has no approx_top_k")
    rows = spark.createDataFrame([(text,) for text in [*STRANGE, None] for _ in range(2)], "key string")
    with setting(spark, "spark.sql.legacy.castComplexTypesToString.enabled", legacy):
        found = rows.agg(top_items(F.col("key"), 50, 100, is_text=True)).collect()[0][0]
        assert dict(read_counts(found)) == dict.fromkeys([*STRANGE, None], 2)
        numbers = rows.select(F.length("key").alias("key")).filter("key IS NULL OR key < 2")
        found = numbers.agg(top_items(F.col("key"), 50, 100, is_text=False)).collect()[0][0]
        expected = {str(size): 2 * sum(len(text) == size for text in STRANGE) for size in (0, 1)}
        assert dict(read_counts(found)) == {**expected, None: 2}


def test_nothing_counted_is_nothing():
    assert read_counts(None) == read_counts("=[]") == read_counts("#[]") == []
    assert read_loads(None, 2, None).tolist() == read_loads("#[]", 2, 0).tolist() == [0, 0]


@pytest.mark.parametrize(
    "text", ["", "#", "#[{0, 6}, {1, 4}", "#[{0, 6}, {1, }]", "[{0, 6}]", "#[{0, 6}] ", "\0[{0, 6}]"]
)
def test_a_damaged_text_is_refused(text):
    with pytest.raises(KeyspreadError, match="Spark returned the counts of this watch damaged"):
        read_counts(text)


@pytest.mark.parametrize(("text", "rows"), [("#[{0, 6}, {1, 4}]", 11), ("#[{0, 6}, {2, 4}]", 10), (None, 10)])
def test_loads_that_cannot_be_are_refused(text, rows):
    assert read_loads("#[{0, 6}, {1, 4}]", 2, 10).tolist() == [6, 4]
    with pytest.raises(KeyspreadError, match="damaged"):
        read_loads(text, 2, rows)


@pytest.mark.slow
@pytest.mark.connect
def test_a_watch_never_fails_the_query(spark):
    """Over Connect two threads of Spark read what was observed: with JSON, one of six such queries failed."""
    rows = spark.range(0, 4000, 1, 2)
    for _ in range(25):
        watch = Watch(hottest=0)
        assert len(spread(rows, "id", 1000, "key", watch=watch).collect()) == 4000
        try:
            assert watch.balance.rows == 4000
        except KeyspreadError as problem:
            assert "damaged" in str(problem)  # noqa: PT017  (Spark's own fault, about 1 in 400)
