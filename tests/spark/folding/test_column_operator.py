"""`ColumnOperator` on Spark: equal to plain `groupBy`, in batch and with windows; mistakes are one line."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.sql import functions as F

from frames import setting, skewed
from keyspread import ColumnOperator
from keyspread.errors import InputError
from keyspread.spark import aggregate

pytestmark = pytest.mark.usefixtures("static")
cloudpickle.register_pickle_by_value(sys.modules[__name__])

DOCS = Path(__file__).parents[3] / "docs"


class Total(ColumnOperator):
    """Count and sum, with pyarrow's own group_by; the state is the result."""

    state = schema = "n bigint, total bigint"

    def partial(self, rows, key):
        assert rows.num_rows > 0
        return rows.group_by(key).aggregate([([], "count_all"), ("value", "sum")]).rename_columns([*key, "n", "total"])

    def merge(self, states, key):
        return states.group_by(key).aggregate([("n", "sum"), ("total", "sum")]).rename_columns([*key, "n", "total"])


def plain(df, *keys):
    return sorted(map(repr, df.groupBy(*keys).agg(F.count("*").alias("n"), F.sum("value").alias("total")).collect()))


def collected(df):
    return sorted(map(repr, df.collect()))


@pytest.fixture(scope="module")
def rows(spark):
    df = skewed(spark, 1500).withColumn("at", F.timestamp_seconds(F.col("id") % 100)).cache()
    df.count()
    return df


@pytest.mark.connect
@pytest.mark.parametrize("scheme", [None, "shuffle"])
def test_equal_to_plain(spark, rows, scheme):
    """A null key is a key; workers get many small batches; some have no rows."""
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 100):
        found = aggregate(rows, "key", Total(), 4, scheme)
        assert found.schema.simpleString() == "struct<key:string,n:bigint,total:bigint>"
        assert collected(found) == plain(rows, "key")
    assert aggregate(rows.limit(0), "key", Total(), 3, scheme).collect() == []


def test_several_key_columns_and_expressions(rows):
    keys = ["key", F.upper("key"), (F.col("id") % 3).cast("double").alias("value")]  # it replaces the column `value`

    class Count(Total):
        state = schema = "n bigint"

        def partial(self, rows, key):
            assert rows.column_names == ["key", "upper(key)", "value", "id", "at"]
            return rows.group_by(key).aggregate([([], "count_all")]).rename_columns([*key, "n"])

        def merge(self, states, key):
            return states.group_by(key).aggregate([("n", "sum")]).rename_columns([*key, "n"])

    found = aggregate(rows, keys, Count(), 3, "d-choices")
    assert collected(found) == collected(rows.groupBy(*keys).agg(F.count("*").alias("n")))


def test_windows_of_a_bounded_frame(rows):
    found = aggregate(rows, "key", Total(), 3, window="20 seconds", slide="10 seconds", time="at")
    assert collected(found) == plain(rows, F.window("at", "20 seconds", "10 seconds"), "key")


class NoState(Total):
    state = None


class Clash(Total):
    state = "n bigint, key bigint"


@pytest.mark.parametrize(
    ("operator", "key", "message"),
    [
        (NoState, "key", "NoState has no state: declare the columns of a state, as in state = 'n long, total double'"),
        (Clash, "key", "state of Clash has 'key', which is a column of the key: rename it"),
        (Total, ["key", "key"], "2 columns of the key are called 'key'; rename them with .alias"),
    ],
)
def test_an_incomplete_operator_is_refused(rows, operator, key, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        aggregate(rows, key, operator(), 3)
    assert "\n" not in str(caught.value)
