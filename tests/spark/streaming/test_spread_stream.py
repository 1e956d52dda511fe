"""`spread` of a stream: every micro-batch even, dealt alike on every attempt, and remembered under the checkpoint."""

import os
import shutil
import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyspread.online.carried import carry
from keyspread.spark.streaming.remembered import Remembered

from keyspread import InputError, hash_keys
from keyspread.planned.look_ahead import Memory, common_plan, deal
from keyspread.spark import aggregate, spread
from keyspread.streams import DriftingZipfStream

WORKERS, ROWS, BATCHES = 6, 3000, 5


@pytest.fixture(scope="module")
def batches():
    """Keys of five batches of two files each: a drifting stream, so that batches differ."""
    keys = DriftingZipfStream(1.3, 400, ROWS * BATCHES, every=4000, hottest=20).law().draw(0, ROWS * BATCHES)
    return [keys[begin : begin + ROWS] for begin in range(0, keys.size, ROWS)]


def put(folder, number, keys):
    """One file a batch half; a file is a partition, the larger one first."""
    os.makedirs(folder, exist_ok=True)
    for half, part in enumerate((keys[: ROWS // 2 + 100], keys[ROWS // 2 + 100 :])):
        path = folder / f"{number:03d}-{half}.parquet"
        pq.write_table(pa.table({"key": pa.array(part, pa.int64()), "place": np.arange(part.size)}), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes files by age, and several are of one moment


class Query:
    """A query over a folder of files, two a batch, that keeps (batch, key, place, file, partition) of every row."""

    def __init__(self, spark, folder, kept, **options):
        self.spark, self.folder, self.kept, self.options = spark, folder, kept, options
        self.seen = {}

    def run(self):
        """Take what is there, then stop."""
        stream = (
            self.spark.readStream.schema("key bigint, place bigint")
            .option("maxFilesPerTrigger", 2)
            .parquet(str(self.folder))
            .selectExpr("*", "_metadata.file_name AS file")
        )
        dealt = spread(stream, "key", WORKERS, **self.options).selectExpr("*", "spark_partition_id() AS worker")

        def keep(rows, batch):
            self.seen[batch] = sorted(map(tuple, rows.collect()))

        query = (
            dealt.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.kept))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        return self.seen


def loads_of(rows):
    return np.bincount([row[-1] for row in rows], minlength=WORKERS)


def test_every_batch_is_even_and_dealt_as_the_core_deals_it(spark, tmp_path, batches):
    for number, keys in enumerate(batches):
        put(tmp_path / "in", number, keys)
    checkpoint = tmp_path / "checkpoint"
    seen = Query(spark, tmp_path / "in", checkpoint, checkpoint=str(checkpoint)).run()
    assert sorted(seen) == list(range(BATCHES))
    memories = []
    for batch, keys in enumerate(batches):
        loads = loads_of(seen[batch])
        assert loads.sum() == ROWS
        assert loads.max() <= ROWS / WORKERS + 2  # one message a sender
        common = common_plan(memories, WORKERS)
        expected, memories = [], []
        for source, part in enumerate((keys[: ROWS // 2 + 100], keys[ROWS // 2 + 100 :])):
            routed, memory = deal(hash_keys(part.astype(np.int64)), common, source=source)
            memories.append(memory)
            name = f"{batch:03d}-{source}.parquet"
            expected += [
                (int(key), place, name, int(worker))
                for place, (key, worker) in enumerate(zip(part, routed, strict=True))
            ]
        assert seen[batch] == sorted(expected)


def test_a_restart_deals_as_if_nothing_had_happened(spark, tmp_path, batches):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for number, keys in enumerate(batches):
        put(whole / "in", number, keys)
    one = Query(spark, whole / "in", whole / "checkpoint", checkpoint=str(whole / "checkpoint"))
    one.run()
    seen = {}
    for number, keys in enumerate(batches):  # a new query for every batch, from the checkpoint
        put(cut / "in", number, keys)
        seen |= Query(spark, cut / "in", cut / "checkpoint", checkpoint=str(cut / "checkpoint")).run()
    assert seen == one.seen


def test_a_lost_or_damaged_memory_costs_no_row(spark, tmp_path, batches):
    checkpoint = tmp_path / "checkpoint"
    put(tmp_path / "in", 0, batches[0])
    Query(spark, tmp_path / "in", checkpoint, checkpoint=str(checkpoint)).run()
    kept = checkpoint / "keyspread" / f"{0:012d}"
    assert sorted(os.listdir(kept)) == ["000000", "000001"]
    (kept / "000000").write_bytes(b"damaged")
    os.remove(kept / "000001")
    put(tmp_path / "in", 1, batches[1])
    seen = Query(spark, tmp_path / "in", checkpoint, checkpoint=str(checkpoint)).run()
    assert loads_of(seen[1]).sum() == ROWS
    assert loads_of(seen[1]).max() <= ROWS / WORKERS + 2
    shutil.rmtree(checkpoint / "keyspread")
    put(tmp_path / "in", 2, batches[2])
    seen = Query(spark, tmp_path / "in", checkpoint, checkpoint=str(checkpoint)).run()
    assert loads_of(seen[2]).sum() == ROWS


@pytest.mark.parametrize("scheme", ["look-ahead", "d-choices"])
def test_without_a_checkpoint_every_batch_starts_afresh(spark, tmp_path, batches, scheme):
    put(tmp_path / "in", 0, batches[0])
    put(tmp_path / "in", 1, batches[1])
    seen = Query(spark, tmp_path / "in", tmp_path / "checkpoint", scheme=scheme).run()
    assert [loads_of(rows).sum() for rows in seen.values()] == [ROWS, ROWS]
    assert not (tmp_path / "checkpoint" / "keyspread").exists()


def test_a_batch_can_look_ahead_too(spark, batches):
    rows = spark.createDataFrame([(int(key),) for key in batches[0]], "key bigint").repartition(3)
    dealt = spread(rows, "key", WORKERS, "look-ahead").selectExpr("key", "spark_partition_id() AS worker").collect()
    assert sorted(row.key for row in dealt) == sorted(batches[0].tolist())
    assert loads_of([tuple(row) for row in dealt]).max() <= ROWS / WORKERS + 3


def test_what_cannot_be(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InputError, match="checkpoint= is for streams, got a bounded DataFrame"):
        spread(spark.range(3), "id", 4, "look-ahead", checkpoint="x")
    with pytest.raises(InputError, match="checkpoint must be the folder of the query's checkpoint, got ' '"):
        spread(stream, "value", 4, checkpoint=" ")
    with pytest.raises(InputError, match="unknown option 'sped'; look-ahead takes threshold"):
        spread(stream, "value", 4, sped=1)


def test_aggregates_of_micro_batches(spark, tmp_path, batches):
    put(tmp_path / "in", 0, batches[0])
    stream = spark.readStream.schema("key bigint, place bigint").parquet(str(tmp_path / "in"))
    seen = {}

    def keep(rows, batch):
        seen[batch] = {row.key: row.n for row in aggregate(rows, "key", {"n": "count(*)"}, 4).collect()}

    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    assert seen == {0: dict(Counter(batches[0].tolist()))}


def test_senders_remember_too(spark, tmp_path, batches):
    """d-choices goes on with the heavy hitters of all senders of the batch before, also if these were more."""
    checkpoint = tmp_path / "checkpoint"
    for number, keys in enumerate(batches[:2]):
        put(tmp_path / "in", number, keys)
    query = Query(spark, tmp_path / "in", checkpoint, scheme="d-choices", checkpoint=str(checkpoint))
    seen = query.run()
    put(tmp_path / "in", 2, batches[2])
    os.remove(tmp_path / "in" / "002-1.parquet")
    seen |= query.run()
    left = []
    for batch, keys in enumerate(batches[:3]):
        parts = (keys[: ROWS // 2 + 100], keys[ROWS // 2 + 100 :])[: 2 if batch < 2 else 1]
        senders = [carry(left, "d-choices", WORKERS, source=source) for source in range(len(parts))]
        expected = [
            (int(key), place, f"{batch:03d}-{source}.parquet", int(worker))
            for source, (sender, part) in enumerate(zip(senders, parts, strict=True))
            for place, (key, worker) in enumerate(
                zip(part, sender.route(hash_keys(part.astype(np.int64))), strict=True)
            )
        ]
        assert seen[batch] == sorted(expected)
        left = senders
    stream = spark.readStream.schema("key bigint, place bigint").parquet(str(tmp_path / "in"))
    with pytest.raises(InputError, match=r"key was \['key'\] and is now \['place'\]"):
        spread(stream, "place", 4, checkpoint=str(checkpoint))


def memory_of(source):
    return deal(np.arange(20) + source, common_plan([], 3), source=source)[1].to_bytes()


def test_remembered_files(tmp_path):
    remembered = Remembered.under(str(tmp_path))
    assert remembered.before(5, bytes) == []
    for batch in range(15):
        for source in (1, 0):
            remembered.write(batch, source, memory_of(source))
    assert remembered.before(15, bytes) == [memory_of(0), memory_of(1)]
    assert [memory.counts.total for memory in remembered.before(6, Memory.from_bytes)] == [20, 20]
    assert sorted(os.listdir(tmp_path / "keyspread")) == [f"{batch:012d}" for batch in range(4, 15)]
    assert remembered.before(4, bytes) == []
    for address in (f"file://{tmp_path}", f"file:{tmp_path}"):
        assert Remembered.under(address).before(15, bytes) == remembered.before(15, bytes)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="cannot be written .* the next batch starts afresh"):
        Remembered.under(str(tmp_path / "file")).write(0, 0, b"x")


def test_attempts_that_write_at_once_leave_one_file(tmp_path):
    remembered = Remembered.under(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            remembered.write(3, 2, memory_of(2))
    assert os.listdir(tmp_path / "keyspread" / f"{3:012d}") == ["000002"]
