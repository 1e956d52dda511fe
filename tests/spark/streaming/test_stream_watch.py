"""StreamWatch: what it says of every micro-batch is what plain Python counts, and nothing it does stops a query."""

import json
import warnings
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import keyspread as ks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.planned.look_ahead import Memory, common_plan, deal, workers_of
from keyspread.spark import BatchSeen, JsonLines, StreamWatch, Watch, spread
from keyspread.spark.routing.hot_keys import count_hottest
from keyspread.streams import DriftingZipfStream

WORKERS, ROWS, BATCHES = 6, 3000, 3


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """A folder of one file a batch, oldest first, and its keys: the first batch has null keys too."""
    folder = tmp_path_factory.mktemp("batches")
    drawn = DriftingZipfStream(1.3, 400, ROWS * BATCHES, every=4000, hottest=20).law().draw(0, ROWS * BATCHES)
    found = []
    for number, part in enumerate(np.split(drawn, BATCHES)):
        keys = [f"k{key}" if number or key > 2 else None for key in part.tolist()]
        pq.write_table(pa.table({"key": keys}), folder / f"{number}.parquet")
        found.append(keys)
    return folder, found


def start(spark, folder, kept, watch, **options):
    stream = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = spread(stream, "key", WORKERS, watch=watch, **options).writeStream.format("noop")
    return writer.option("checkpointLocation", str(kept)).trigger(availableNow=True).start()


@pytest.fixture(scope="module")
def seen(spark, batches, tmp_path_factory):
    """Two queries at once, each with a watch of its own: one that remembers, one by another scheme."""
    folder = tmp_path_factory.mktemp("seen")
    lines = folder / "batches.jsonl"
    watch = StreamWatch(hottest=4, keep=2, then=[JsonLines(lines)])
    other = StreamWatch(hottest=0)
    queries = [
        start(spark, batches[0], folder / "one", watch, checkpoint=str(folder / "one")),
        start(spark, batches[0], folder / "other", other, scheme="key"),
    ]
    for query, one in zip(queries, (watch, other), strict=True):
        assert query.awaitTermination(120)
        assert one.wait(query)
        one.close()
    return watch, other, [json.loads(line) for line in lines.read_text().splitlines()], queries


def oracle(batches):
    """Loads, counts, and the workers of each key of every batch, dealt by the core."""
    memories = {}
    for keys in batches[1]:
        common = common_plan(memories.values(), WORKERS)
        routed, memory = deal(ks.hash_keys(keys), common, source=0)
        memories = {0: memory}
        workers = defaultdict(set)
        for key, worker in zip(keys, routed.tolist(), strict=True):
            workers[key].add(worker)
        yield np.bincount(routed, minlength=WORKERS), Counter(keys), workers, common.moved


def test_every_batch_is_told_as_it_was(batches, seen):
    _, _, lines, queries = seen
    assert [line["batch"] for line in lines] == list(range(BATCHES))
    for line, (loads, counts, workers, moved) in zip(lines, oracle(batches), strict=True):
        assert line["loads"] == loads.tolist()
        assert (line["rows"], line["malformed"]) == (ROWS, 0)
        assert line["imbalance"] == metrics.imbalance(loads)
        assert line["skew_score"] == metrics.skew_score(loads)
        assert line["head"] == sum(rows >= ROWS / (5 * WORKERS) for rows in counts.values())
        assert line["moved"] == moved
        assert line["seconds"] > 0
        assert line["query"] == str(queries[0].id)
        assert [hot["rows"] for hot in line["hottest"]] == [rows for _, rows in counts.most_common(4)]
        for hot in line["hottest"]:
            assert hot["rows"] == counts[hot["key"]]
            assert hot["share"] == counts[hot["key"]] / ROWS
            assert hot["workers"] == len(workers[hot["key"]])
    assert lines[0]["hottest"][0]["key"] is None
    assert lines[2]["moved"] > 0


def test_only_the_last_batches_are_kept_and_each_watch_has_its_own(batches, seen):
    watch, other, lines, queries = seen
    assert [one.to_dict() for one in watch.batches] == lines[-2:]
    sender = [ks.Sender("key", WORKERS).route(ks.hash_keys(keys)) for keys in batches[1]]
    assert [one.loads.tolist() for one in other.batches] == [
        np.bincount(routed, minlength=WORKERS).tolist() for routed in sender
    ]
    assert {(one.query, one.hottest, one.choices, one.moved) for one in other.batches} == {
        (str(queries[1].id), (), None, None)
    }
    assert all(one.head > 0 for one in other.batches)


@pytest.mark.connect
def test_a_function_that_fails_is_warned_of_once_and_the_query_goes_on(spark, batches, tmp_path):
    got = []

    def pass_on(batch):
        got.append(batch.batch)
        raise OSError("the disk is full")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        watch = StreamWatch(
            then=[pass_on, JsonLines(tmp_path / "no folder" / "lines"), lambda batch: got.append("then")]
        )
        query = start(spark, batches[0], tmp_path / "checkpoint", watch)
        assert query.awaitTermination(120)
        assert watch.wait(query)
    assert query.exception() is None
    assert got == [0, "then", 1, "then", 2, "then"]
    assert [one.rows for one in watch.batches] == [ROWS] * BATCHES
    told = [str(one.message) for one in warned if "was not passed on" in str(one.message)]
    assert len(told) == 2
    assert told[0] == "batch 0 was not passed on (the disk is full): the query goes on"
    watch.close()


@pytest.mark.connect
@pytest.mark.usefixtures("static")
@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("string", {"0": 5, "1": 4, None: 1}),
        ("bigint", {"0": 5, "1": 4, None: 1}),
        ("int", {"0": 5, "1": 4, None: 1}),
        ("tinyint", {"0": 5, "1": 4, None: 1}),
        ("double", {"0.0": 5, "1.0": 4, None: 1}),
        ("decimal(9,1)", {"0.0": 5, "1.0": 4, None: 1}),
        ("", {'{"k":"a:0","m":1}': 5, '{"k":"a:1","m":1}': 4, '{"m":1}': 1}),
    ],
)
def test_hottest_keys_of_every_type_have_their_hash_and_text(spark, key, texts):
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, NULL, id % 2) AS k", "1 AS m")
    rows = rows.selectExpr(f"cast(k AS {key}) AS k") if key else rows.selectExpr("'a:' || k AS k", "m")
    counted, read = count_hottest(rows, rows.columns, 5)
    found = read(rows.agg(counted.alias("hottest")).collect()[0]["hottest"])
    assert {text: count for _, text, count in found} == texts
    assert [count for _, _, count in found] == [5, 4, 1]
    hashes = rows.groupBy(F.xxhash64(*rows.columns).alias("hash")).count().collect()
    assert {(hashed, count) for hashed, _, count in found} == {(row["hash"], row["count"]) for row in hashes}


def test_a_batch_without_rows():
    nothing = BatchSeen(np.zeros(2, np.int64), query="q", batch=1, time="", seconds=0.1, head=0)
    assert (nothing.to_dict()["imbalance"], nothing.to_dict()["hottest"]) == (0.0, [])


def test_the_workers_of_a_key_that_only_some_senders_hold_for_hot():
    """Key 7 is hot at sender 0, in a bucket at sender 1, and unknown to sender 2."""
    common = common_plan([], 4)
    parts = [np.array([7] * 80 + list(range(100, 120))), np.array([7, *range(200, 299)]), np.array([9] * 5)]
    memories, had = {}, set()
    for source, part in enumerate(parts):
        routed, memories[source] = deal(part, common, source=source)
        had |= set(routed[part == 7].tolist())
        memories[source] = Memory.from_bytes(memories[source].to_bytes())
    assert workers_of([7], memories) == {7: len(had)}
    assert workers_of([7], {}) == {7: 0}


def test_bad_input(spark):
    stream = spark.readStream.format("rate").load()
    watch = StreamWatch()
    spread(stream, "value", 2, watch=watch)
    with pytest.raises(InputError, match="this StreamWatch has been on a spread already; make another one"):
        spread(stream, "value", 2, watch=watch)
    watch.close()
    with pytest.raises(InputError, match="a StreamWatch is for streams, got a bounded DataFrame; use a Watch"):
        spread(spark.range(3), "id", 2, watch=StreamWatch())
    with pytest.raises(InputError, match="a Watch is for a bounded DataFrame, got a stream; use a StreamWatch"):
        spread(stream, "value", 2, watch=Watch())
    with pytest.raises(InputError, match="keep must be at least 1, got 0"):
        StreamWatch(keep=0)
