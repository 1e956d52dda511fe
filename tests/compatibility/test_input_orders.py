"""Every aggregate and window function of this Spark: what may be behind a shuffle is the same for any order of rows."""

import pytest

pytest.importorskip("pyspark")

from input_orders import accepted, changing, groups, windows

from frames import setting

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_what_is_accepted_is_the_same_in_any_order(spark):
    """Aggregates and windows behind a shuffle, without Spark's checksums."""
    with setting(spark, "spark.sql.ansi.enabled", "false"):  # casts of texts that are no numbers
        check(spark)


def check(spark):
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row[0].replace("_", "").isalnum()]
    expressions = {"aggregates": groups(spark, names), "windows": windows(spark, names)}
    for kind, texts in expressions.items():
        changed = changing(spark, texts)
        unchanged = [text for text in texts if text not in changed]
        assert len(changed) > 30, kind
        assert accepted(spark, sorted(changed)) == []
        # The rule is of use only if it accepts what people need.
        kept = accepted(spark, [text for text in unchanged if text.startswith(("sum(", "max(", "count(", "rank("))])
        assert len(kept) > 5, kind
