"""`spread` of a stream: every micro-batch is balanced by itself, and routed the same after a restart or a retry."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyspread import Sender, hash_keys
from keyspread.planned import look_ahead
from keyspread.spark import spread
from keyspread.streams import DriftingZipfStream

WORKERS, ROWS, BATCHES = 6, 3000, 5


@pytest.fixture(scope="module")
def batches():
    """Keys of five batches of two files each. The stream drifts, so that batches differ."""
    keys = DriftingZipfStream(1.3, 400, ROWS * BATCHES, every=4000, hottest=20).law().draw(0, ROWS * BATCHES)
    return [keys[begin : begin + ROWS] for begin in range(0, keys.size, ROWS)]


def put(folder, number, keys):
    """Write one file per half of a batch. A file is a partition, the larger one first."""
    os.makedirs(folder, exist_ok=True)
    for half, part in enumerate((keys[: ROWS // 2 + 100], keys[ROWS // 2 + 100 :])):
        path = folder / f"{number:03d}-{half}.parquet"
        pq.write_table(pa.table({"key": pa.array(part, pa.int64()), "place": np.arange(part.size)}), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads files by age; those of a batch are equally old


class Query:
    """A query over a folder of files, two per batch, that keeps (key, place, file, worker) of every row by batch."""

    def __init__(self, spark, folder, kept, **options):
        self.spark, self.folder, self.kept, self.options = spark, folder, kept, options
        self.seen = {}

    def run(self):
        """Process the files that are there, then stop."""
        stream = (
            self.spark.readStream.schema("key bigint, place bigint")
            .option("maxFilesPerTrigger", 2)
            .parquet(str(self.folder))
            .selectExpr("*", "_metadata.file_name AS file")
        )
        out = spread(stream, "key", WORKERS, **self.options).selectExpr("*", "spark_partition_id() AS worker")

        def keep(rows, batch):
            self.seen[batch] = sorted(map(tuple, rows.collect()))

        query = (
            out.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.kept))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        return self.seen


def loads_of(rows):
    return np.bincount([row[-1] for row in rows], minlength=WORKERS)


def expected(batch, keys, route):
    """Return the rows of a batch with the worker that `route(source, hashes)` chooses."""
    rows = []
    for source, part in enumerate((keys[: ROWS // 2 + 100], keys[ROWS // 2 + 100 :])):
        workers = route(source, hash_keys(part.astype(np.int64)))
        name = f"{batch:03d}-{source}.parquet"
        rows += [
            (int(key), place, name, int(worker)) for place, (key, worker) in enumerate(zip(part, workers, strict=True))
        ]
    return sorted(rows)


ROUTES = {
    "look-ahead": lambda source, hashes: look_ahead.route(hashes, WORKERS, source=source),
    "d-choices": lambda source, hashes: Sender("d-choices", WORKERS, source=source).route(hashes),
}


@pytest.mark.parametrize("scheme", ROUTES)
def test_every_batch_is_routed_as_in_process_by_new_senders(spark, tmp_path, batches, scheme):
    for number, keys in enumerate(batches):
        put(tmp_path / "in", number, keys)
    seen = Query(spark, tmp_path / "in", tmp_path / "checkpoint", scheme=scheme).run()
    assert sorted(seen) == list(range(BATCHES))
    for batch, keys in enumerate(batches):
        assert seen[batch] == expected(batch, keys, ROUTES[scheme])
        if scheme == "look-ahead":
            assert loads_of(seen[batch]).max() <= ROWS / WORKERS + 2  # at most one message per sender above
    assert not (tmp_path / "checkpoint" / "keyspread").exists()


def test_a_restart_and_a_retried_batch_route_the_same(spark, tmp_path, batches):
    """A new query per batch from one checkpoint; then the last batch again, as if its commit had been lost."""
    for number, keys in enumerate(batches[:3]):
        put(tmp_path / "in", number, keys)
        seen = Query(spark, tmp_path / "in", tmp_path / "checkpoint").run()
        assert seen == {number: expected(number, keys, ROUTES["look-ahead"])}
    commits = tmp_path / "checkpoint" / "commits"
    for file in (commits / "2", commits / ".2.crc"):
        file.unlink(missing_ok=True)
    again = Query(spark, tmp_path / "in", tmp_path / "checkpoint").run()
    assert again == seen


def test_another_scheme_may_resume_from_the_checkpoint(spark, tmp_path, batches):
    """`spread` itself has no state: it is Spark's offsets that the query resumes from."""
    put(tmp_path / "in", 0, batches[0])
    Query(spark, tmp_path / "in", tmp_path / "checkpoint").run()
    put(tmp_path / "in", 1, batches[1])
    seen = Query(spark, tmp_path / "in", tmp_path / "checkpoint", scheme="d-choices").run()
    assert list(seen) == [1]
    assert loads_of(seen[1]).sum() == ROWS
