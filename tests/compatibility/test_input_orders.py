"""Every aggregate and window function of this Spark: what may be behind a shuffle is the same for any order of rows."""

import pytest

pytest.importorskip("pyspark")

from input_orders import accepted, changing, functions, groups, over_windows, windows

from frames import setting

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_what_is_accepted_is_the_same_in_any_order(spark):
    """Aggregates and windows behind a shuffle, without Spark's checksums."""
    with setting(spark, "spark.sql.ansi.enabled", "false"):  # casts of texts that are no numbers
        check(spark)


def check(spark):
    calls = over_windows(spark, functions(spark))
    for kind, texts in {"aggregates": groups(spark, calls), "windows": windows(spark, calls)}.items():
        found = changing(spark, texts)
        changed = [text for text in texts if found.get(text)]
        assert len(changed) > 30, kind
        assert accepted(spark, changed) == []
        # The rule is of use only if it accepts what people need.
        useful = [text for text in texts if text.startswith(("sum(i)", "sum(d)", "max(i)", "count(", "rank("))]
        assert len(accepted(spark, [text for text in useful if found.get(text) is False])) > 5, kind
