"""A sample of rows that are in files: the other files are not opened."""

import pytest

pytest.importorskip("pyspark")

from keyspread.spark import plan
from keyspread.spark._routing.counting import sample_files

pytestmark = pytest.mark.usefixtures("static")

FILES, ROWS = 8, 1000


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "with space"
    spark.range(0, FILES * ROWS, 1, FILES).selectExpr("id", "id % 50 AS key").write.parquet(str(path))
    return path


def files_of(df):
    return {row[0] for row in df.select("_metadata.file_name").distinct().collect()}


@pytest.mark.connect
def test_a_share_of_the_files(spark, folder):
    rows = spark.read.parquet(str(folder))
    found = sample_files(rows, 0.25, seed=1)
    assert len(files_of(found)) == 2
    assert found.count() == 2 * ROWS
    assert files_of(found) == files_of(sample_files(rows, 0.25, seed=1))
    assert len({frozenset(files_of(sample_files(rows, 0.25, seed=seed))) for seed in range(5)}) > 1


@pytest.mark.connect
def test_the_share_is_right_whatever_the_files_are_called(spark, folder, tmp_path):
    names = ["a b", "ä", "p%20q", "x+y", "h#i", "q?r", "eq=1,&", "d%41"]
    for name, file in zip(names, sorted(folder.glob("*.parquet")), strict=True):
        (tmp_path / f"{name}.parquet").write_bytes(file.read_bytes())
    rows = spark.read.parquet(str(tmp_path))
    for seed in range(4):
        assert sample_files(rows, 0.25, seed=seed).count() == 2 * ROWS


def test_the_other_files_are_not_opened(spark, folder, tmp_path):
    """They may be unreadable: only a job that opens them fails."""
    for file in folder.glob("*.parquet"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rows = spark.read.schema("id long, key long").parquet(str(tmp_path))
    chosen = files_of(sample_files(rows, 0.25, seed=1))
    for file in tmp_path.glob("*.parquet"):
        if file.name not in chosen:
            file.write_bytes(b"x" * file.stat().st_size)
    for checksum in tmp_path.glob(".*.crc"):
        checksum.unlink()
    rows = spark.read.schema("id long, key long").parquet(str(tmp_path))
    assert int(plan(rows, "key", 4, sample=0.25, seed=1).loads.sum()) == 2 * ROWS


def test_part_of_the_rows_of_few_files(spark, folder):
    made = plan(spark.read.parquet(str(folder)), "key", 4, sample=0.05, seed=3)
    assert 300 < made.loads.sum() < 500  # one file of eight, and 40 % of its rows
    assert made == plan(spark.read.parquet(str(folder)), "key", 4, sample=0.05, seed=3)


def test_rows_that_are_not_in_files(spark, folder):
    assert sample_files(spark.range(10), 0.5, seed=0) is None
    rows = spark.read.parquet(str(folder))
    assert sample_files(rows.groupBy("key").count(), 0.5, seed=0) is None
