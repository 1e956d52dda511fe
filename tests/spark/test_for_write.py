"""`for_write`: few files of the wanted size, even writers, the same rows."""

import re
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import setting
from keyspread.errors import InputError
from keyspread.spark import for_write
from keyspread.spark._routing.repeatable import PROTECTION
from keyspread.spark.for_write import fewest_files, pack

ROW = 100 + 4  # bytes: a text of 100 characters and its length


@pytest.fixture
def rows(spark):
    """5,000 rows of about 104 bytes: one day has half of them, one in ten has none."""
    return spark.range(0, 5000, 1, 3).selectExpr(
        "CASE WHEN id % 2 = 0 THEN 'monday' WHEN id % 10 = 5 THEN NULL ELSE concat('day ', id % 37) END AS day",
        "repeat('x', 100 - length(id)) || id AS text",
    )


def files_of(folder):
    return list(folder.rglob("*.parquet"))


@pytest.mark.connect
def test_files_and_writers(rows, tmp_path, static):
    target = 20_000
    out = for_write(rows, "day", target, file_cost=100)
    found = out.groupBy(F.spark_partition_id().alias("writer"), "day").agg(F.count("*").alias("rows")).collect()
    sizes = Counter()
    writers = Counter()
    for row in found:
        sizes[row.day] += row.rows * ROW
        writers[row.writer] += row.rows * ROW
    assert sum(writers.values()) == 5000 * ROW
    assert len(found) <= 1.1 * fewest_files([*sizes.values()], target)
    loads = np.array([*writers.values()])
    assert loads.max() <= 1.2 * loads.mean()
    assert max(row.rows for row in found) * ROW <= 1.1 * target
    out.write.partitionBy("day").parquet(str(tmp_path / "out"))
    assert len(files_of(tmp_path / "out")) == len(found)
    assert out.schema == rows.schema


def test_in_a_stream(spark, rows, tmp_path, static):
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))

    def write(batch, number):
        for_write(batch, "day", 20_000, file_cost=100).write.partitionBy("day").mode("append").parquet(
            str(tmp_path / "out")
        )

    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    sizes = [row["count"] * ROW for row in rows.groupBy("day").count().collect()]
    assert len(files_of(tmp_path / "out")) <= 1.1 * fewest_files(sizes, 20_000)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 5000


@pytest.mark.parametrize("seed", range(12))
def test_packing(seed):
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, rng.integers(2, 400)) ** rng.choice([0.5, 1.0, 1.5])
    sizes = law / law.sum() * rng.choice([3e4, 1e6, 1e7])
    packed = pack(sizes.tolist(), 1e5, 1e3)
    assert sum(map(len, packed.files)) == fewest_files(sizes, 1e5)
    assert packed.busiest <= 1.2
    loads = np.zeros(packed.writers)
    for size, files in zip(sizes, packed.files, strict=True):
        assert size / len(files) <= 1e5 * (1 + 1e-9)
        np.add.at(loads, files, size / len(files) + 1e3)
    assert loads == pytest.approx(packed.loads)


def test_an_absurd_number_of_files_is_refused(spark, rows, static):
    with pytest.raises(InputError, match=r"target 1 makes 52\d,\d\d\d files of 52\d,\d\d\d bytes, and at most 200,000"):
        for_write(rows, "day", 1)
    assert for_write(rows, "day", 1, writers=2).count() == 5000


@pytest.mark.connect
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"writers": 10**9}, "writers must be at most 100000, got 1000000000"),
        ({"columns": "nope"}, "there is no column 'nope'; the columns are day, text"),
        ({"columns": []}, "columns must be the name of a column or a list of names, got []"),
        ({"target": "big"}, "target must be a size such as '256MB', or a number of bytes, got 'big'"),
        ({"file_cost": False}, "file_cost must be a size such as '256MB', or a number of bytes, got False"),
        ({"columns": ["day", "text"]}, "columns has all columns, so no data is left to write"),
        ({"ratio": 0}, "ratio must be above 0, got 0"),
        ({"columns": ["day", "DAY"]}, "columns has 'DAY' twice; name each column once"),
        ({"df": "rows"}, "df must be a DataFrame, got 'rows'"),
    ],
    ids=str,
)
def test_bad_input(rows, options, match):
    with pytest.raises(InputError, match=re.escape(match)):
        for_write(**{"df": rows, "columns": "day", **options})


def test_rows_that_may_change_are_refused_only_if_a_value_is_cut(spark, rows, static):
    with setting(spark, PROTECTION[0], "false"):
        means = rows.groupBy("day", "text").agg(F.avg(F.length("text")).alias("mean"))
        assert for_write(means, "day", "1MB").count() == 5000
        with pytest.raises(InputError, match="avg of floating-point numbers"):
            for_write(means, "day", 20_000)


def test_columns_of_the_same_name_are_refused(rows):
    with pytest.raises(InputError, match="2 columns are called 'text', which Spark cannot write; rename them"):
        for_write(rows.select("day", "text", F.col("day").alias("TEXT")), "day")
