"""A sample by input splits: the chosen splits are read, the others are not."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from keyspread.spark import plan
from keyspread.spark.routing.split_sample import sample_splits, sparsest_step

pytestmark = pytest.mark.usefixtures("static")

SPLITS, ROWS = 8, 50_000


def recorded(rows, folder):
    """Return the same rows; each task leaves a file with the number of rows that it has passed on."""

    def pass_on(batches):
        from pathlib import Path

        from pyspark import TaskContext

        passed, split = 0, TaskContext.get().partitionId()
        for batch in batches:
            passed += batch.num_rows
            (Path(folder) / str(split)).write_text(str(passed))
            yield batch

    return rows.mapInArrow(pass_on, rows.schema)


def read(folder):
    return {int(file.name): int(file.read_text()) for file in folder.iterdir()}


@pytest.mark.parametrize(("share", "chosen"), [(0.25, {1, 5}), (0.5, {1, 3, 5, 7})])
def test_only_the_chosen_splits_are_read(spark, tmp_path, share, chosen):
    rows = recorded(spark.range(0, SPLITS * ROWS, 1, SPLITS), tmp_path)
    found = sample_splits(rows, share, seed=1, step=sparsest_step(share))
    kept = {row[0] for row in found.select(F.spark_partition_id()).distinct().collect()}
    assert kept == chosen
    assert found.count() == len(chosen) * ROWS
    for split, passed in read(tmp_path).items():
        if split in chosen:
            assert passed == ROWS
        else:  # what was already on its way when the task ended
            assert passed < ROWS


def test_rows_of_few_splits(spark):
    """Splits of which one is read in 32, but there are two: then both, and a share of their rows."""
    rows = spark.range(0, 20_000, 1, 2).withColumn("key", F.col("id") % 100)
    made = plan(rows, "key", 4, sample=0.01, seed=7)
    assert 50 < made.loads.sum() < 400
    assert made == plan(rows, "key", 4, sample=0.01, seed=7)


def test_steps():
    assert [sparsest_step(share) for share in (1.0, 0.6, 0.5, 0.25, 0.05, 0.001)] == [1, 1, 2, 4, 20, 32]
