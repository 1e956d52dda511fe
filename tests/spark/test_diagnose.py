"""`diagnose` of a DataFrame: hot keys as values, and the loads that Spark's own hash partitioning has."""

from collections import Counter
from importlib import import_module

import pytest

from keyspread.errors import InputError
from keyspread.spark import diagnose
from keyspread.spark.diagnose import candidate_keys, natural_loads

ROWS = 4000


@pytest.fixture(scope="module")
def df(spark):
    return spark.range(ROWS).selectExpr(
        "CASE WHEN id % 5 < 2 THEN 7 WHEN id % 10 = 2 THEN NULL ELSE id + 10 END AS customer",
        "cast(id % 1000 AS string) AS region",
        "id AS unique",
        "if(id > 2000, 'late', cast(id AS string)) AS sorted",
        "array(id) AS list",
        "cast(id % 3 AS int) AS `größe.x`",
    )


def spark_loads(df, columns, workers):
    """Return the rows of every partition as Spark itself shuffles them."""
    counted = Counter(
        {
            row[0]: row[1]
            for row in df.repartition(workers, *columns)
            .selectExpr("spark_partition_id() p")
            .groupBy("p")
            .count()
            .collect()
        }
    )
    return [counted[partition] for partition in range(workers)]


@pytest.mark.parametrize("columns", [["customer"], ["region"], ["sorted"], ["customer", "region"], ["`größe.x`"]])
def test_loads_are_those_of_spark_itself(columns, df):
    names = [name.strip("`") for name in columns]
    (load,) = natural_loads(df, [names], 8, 1 / 40)
    assert load.partitions.tolist() == spark_loads(df, columns, 8)
    assert load.total == ROWS


def test_hot_keys_are_values_with_rows_and_shares(df):
    (finding,) = diagnose(df, "customer", workers=8).skew
    assert [(value["key"], value["rows"], value["null"]) for value in finding.values] == [
        ("7", 1600, False),
        ("null (no value)", 400, True),
    ]
    assert finding.values[0]["share"] == 0.4
    assert finding.ratio > 3
    assert finding.planned == pytest.approx(1.0, abs=0.01)
    assert finding.remedies[0].code == 'keyspread.spark.spread(df, "customer", workers=8)'


def test_a_hot_key_behind_the_first_rows_is_found(df, monkeypatch):
    monkeypatch.setattr(import_module("keyspread.spark.diagnose"), "_ROWS_OF_A_LOOK", 1000)
    (finding,) = diagnose(df, "sorted", workers=8).skew
    assert [(value["key"], value["rows"]) for value in finding.values] == [("late", 1999)]


def test_several_keys_in_one_scan_the_most_skewed_first(df):
    diagnosis = candidate_keys(df, ["unique", "customer", ["customer", "region"], "sorted"], workers=8)
    assert [finding.keys for finding in diagnosis.findings[:2]] == [("sorted",), ("customer",)]
    assert {finding.keys for finding in diagnosis.findings} == {
        ("unique",),
        ("customer",),
        ("customer", "region"),
        ("sorted",),
    }
    alone = diagnose(df, "customer", workers=8).skew[0]
    assert diagnosis.findings[1] == alone
    even = {finding.keys for finding in diagnosis.findings if "You need nothing" in finding.text}
    assert even == {("unique",), ("customer", "region")}


def test_a_sample_names_its_error(df):
    diagnosis = diagnose(df, "customer", sample=0.5)
    assert diagnosis.facts["workers"] == int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    assert "sample of 0.5" in diagnosis.notes[0]
    assert diagnosis.skew[0].values[0]["share"] == pytest.approx(0.4, abs=0.05)


def test_no_rows_and_bad_arguments(df, spark):
    assert diagnose(df.limit(0), "customer", workers=8).verdict == "Nothing to diagnose."
    with pytest.raises(InputError, match="there is no column 'nobody'"):
        diagnose(df, "nobody")
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        diagnose(df, "customer", workers=0)
    with pytest.raises(InputError, match="got a stream"):
        diagnose(spark.readStream.format("rate").load(), "value")


def test_a_key_is_to_blame_only_if_it_fills_the_busiest_partition(spark, df):
    """Unique keys and keys of the same size are never hot; a hot key is, however many partitions there are."""
    assert not diagnose(df, "unique", workers=2000).skew
    alike = spark.range(2000).selectExpr("id % 9 AS k")
    assert not diagnose(alike, "k", workers=6).skew
    (finding,) = diagnose(df, "customer", workers=ROWS * 2).skew
    assert finding.values[0]["key"] == "7"
    assert not diagnose(spark.range(1), "id", workers=4).skew
