"""StreamWatch: its counts of every micro-batch equal those of plain Python, and it never stops a query."""

import json
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import keyspread as ks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.planned import look_ahead
from keyspread.spark import StreamWatch, Watch, spread
from keyspread.spark.stream_watch import JsonLines, count_hottest
from keyspread.spark.watch import read_hottest
from keyspread.streams import DriftingZipfStream

WORKERS, ROWS, BATCHES = 6, 3000, 3


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """A folder with one file per batch, oldest first, and its keys. The first batch has null keys too."""
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
    """Two queries at once, each with its own watch: one with look-ahead, one with another scheme."""
    folder = tmp_path_factory.mktemp("seen")
    lines = folder / "batches.jsonl"
    watch = StreamWatch(hottest=4, keep=2, then=[JsonLines(lines)])
    other = StreamWatch(hottest=0)
    queries = [
        start(spark, batches[0], folder / "one", watch),
        start(spark, batches[0], folder / "other", other, scheme="key"),
    ]
    for query, one in zip(queries, (watch, other), strict=True):
        assert query.awaitTermination(120)
        assert one.wait(query)
        one.close()
    return watch, other, [json.loads(line) for line in lines.read_text().splitlines()], queries


def oracle(batches):
    """Yield the loads and the counts by key of every batch, routed in-process."""
    for keys in batches[1]:
        routed = look_ahead.route(ks.hash_keys(keys), WORKERS)
        yield np.bincount(routed, minlength=WORKERS), Counter(keys)


def test_every_batch_is_reported_with_its_true_counts(batches, seen):
    _, _, lines, queries = seen
    assert [line["batch"] for line in lines] == list(range(BATCHES))
    for line, (loads, counts) in zip(lines, oracle(batches), strict=True):
        assert line["loads"] == loads.tolist()
        assert (line["rows"], line["malformed"]) == (ROWS, 0)
        assert line["imbalance"] == metrics.imbalance(loads)
        assert line["skew_score"] == metrics.skew_score(loads)
        assert line["head"] == sum(rows >= ROWS / (5 * WORKERS) for rows in counts.values())
        assert line["seconds"] > 0
        assert line["query"] == str(queries[0].id)
        assert [hot["rows"] for hot in line["hottest"]] == [rows for _, rows in counts.most_common(4)]
        for hot in line["hottest"]:
            assert hot["rows"] == counts[hot["key"]]
            assert hot["share"] == counts[hot["key"]] / ROWS
    assert lines[0]["hottest"][0]["key"] is None
    assert set(lines[0]["hottest"][0]) == {"key", "rows", "share"}


def test_only_the_last_batches_are_kept_and_each_watch_has_its_own(batches, seen):
    watch, other, lines, queries = seen
    assert [one.to_dict() for one in watch.batches] == lines[-2:]
    sender = [ks.Sender("key", WORKERS).route(ks.hash_keys(keys)) for keys in batches[1]]
    assert [one.loads.tolist() for one in other.batches] == [
        np.bincount(routed, minlength=WORKERS).tolist() for routed in sender
    ]
    assert {(one.query, one.hottest) for one in other.batches} == {(str(queries[1].id), ())}
    assert all(one.head > 0 for one in other.batches)


@pytest.mark.connect
def test_a_function_that_fails_causes_one_warning_and_the_query_continues(spark, batches, tmp_path):
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
    messages = [str(one.message) for one in warned if "was not passed on" in str(one.message)]
    assert len(messages) == 2
    assert messages[0] == "batch 0 was not passed on (the disk is full): the query continues"
    watch.close()


@pytest.mark.connect
@pytest.mark.usefixtures("static")
@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("string", {"0": 5, "1": 4, None: 1}),
        ("tinyint", {"0": 5, "1": 4, None: 1}),
        ("decimal(9,1)", {"0.0": 5, "1.0": 4, None: 1}),
        ("", {'{"k":"a:0","m":1}': 5, '{"k":"a:1","m":1}': 4, '{"m":1}': 1}),
    ],
)
def test_hottest_keys_of_every_type(spark, key, texts):
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, NULL, id % 2) AS k", "1 AS m")
    rows = rows.selectExpr(f"cast(k AS {key}) AS k") if key else rows.selectExpr("'a:' || k AS k", "m")
    counted = count_hottest(rows, rows.columns, 5).alias("hottest")
    found = read_hottest(rows.agg(counted).collect()[0]["hottest"])
    assert dict(found) == texts
    assert [count for _, count in found] == [5, 4, 1]


def test_bad_input(spark):
    stream = spark.readStream.format("rate").load()
    watch = StreamWatch()
    spread(stream, "value", 2, watch=watch)
    with pytest.raises(InputError, match="this StreamWatch is used already; make a new one for every spread"):
        spread(stream, "value", 2, watch=watch)
    watch.close()
    with pytest.raises(InputError, match="a StreamWatch is for streams, got a bounded DataFrame; use a Watch"):
        spread(spark.range(3), "id", 2, watch=StreamWatch())
    with pytest.raises(InputError, match="a Watch is for a bounded DataFrame, got a stream; use a StreamWatch"):
        spread(stream, "value", 2, watch=Watch())
    with pytest.raises(InputError, match="keep must be at least 1, got 0"):
        StreamWatch(keep=0)


def by_plain_hashing(spark, keys, workers):
    """Return the rows per partition of Spark's own hash partitioning."""
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = rows.selectExpr(f"pmod(hash(key), {workers}) AS w").groupBy("w").count().collect()
    loads = np.zeros(workers, int)
    for row in found:
        loads[row["w"]] = row["count"]
    return loads.tolist()


def test_a_page_also_counts_plain_hashing_and_the_workers_of_hot_keys(spark, batches, tmp_path):
    lines = tmp_path / "batches.jsonl"
    watch = StreamWatch(hottest=4, then=[JsonLines(lines)])
    history = watch.record("counted")
    query = start(spark, batches[0], tmp_path / "checkpoint", watch)
    assert query.awaitTermination(120)
    assert watch.wait(query)
    watch.close()
    assert len(watch.batches) == BATCHES
    for seen, keys in zip(watch.batches, batches[1], strict=True):
        assert seen.by_hash.tolist() == by_plain_hashing(spark, keys, WORKERS)
        routed = look_ahead.route(ks.hash_keys(keys), WORKERS).tolist()
        for (key, _), workers in zip(seen.hottest, seen.workers_of, strict=True):
            assert set(workers) == {worker for worker, one in zip(routed, keys, strict=True) if one == key}
    line = json.loads(lines.read_text().splitlines()[-1])
    assert line["loads_by_hash"] == watch.batches[-1].by_hash.tolist()
    assert line["hottest"][0]["workers"] == list(watch.batches[-1].workers_of[0])
    found = history.snapshot()
    assert (found["batches"], found["rows"], found["running"]) == (BATCHES, ROWS * BATCHES, False)
    assert found["last"]["by_hash"] > found["last"]["busiest"]


def test_hidden_keys_are_nowhere_and_the_same_key_has_the_same_hash(spark, batches, tmp_path):
    lines = tmp_path / "batches.jsonl"
    watch = StreamWatch(hottest=5, hide_keys=True, then=[JsonLines(lines)])
    history = watch.record("hidden")
    query = start(spark, batches[0], tmp_path / "checkpoint", watch)
    assert query.awaitTermination(120)
    assert watch.wait(query)
    watch.close()
    history.save(str(tmp_path / "run.html"))
    everywhere = lines.read_text() + (tmp_path / "run.html").read_text() + repr(watch.batches)
    for keys in batches[1]:
        assert not any(f'"{key}"' in everywhere or f"'{key}'" in everywhere for key in set(keys) if key)
    counts = [Counter(keys) for keys in batches[1]]
    names = {}
    for seen, counted in zip(watch.batches, counts, strict=True):
        for key, rows in seen.hottest:
            assert key is None or (key.startswith("#") and len(key) == 11)
            names.setdefault(key, []).append({one for one, count in counted.items() if count == rows})
    assert any(len(found) > 1 for found in names.values())  # a key that is hot in several batches
    for found in names.values():
        assert set.intersection(*found)  # one key explains all of them
    other = StreamWatch(hide_keys=True)
    assert other._shown("k1") != watch._shown("k1")  # nobody can look a hash up


def test_a_page_is_asked_for_before_spread_and_once(spark):
    watch = StreamWatch()
    page = watch.serve(port=0)
    with pytest.raises(InputError, match=r"has a page already, at http://127\.0\.0\.1:\d+/: open that one"):
        watch.serve()
    page.close()
    late = StreamWatch()
    spread(spark.readStream.format("rate").load(), "value", 2, watch=late)
    for ask in (late.serve, late.record):
        with pytest.raises(InputError, match="ask for the page before spread: it needs counts that are part of the"):
            ask()
    late.close()


def test_the_end_of_another_query_of_the_session_is_not_the_end_of_this_one():
    watch = StreamWatch()
    history = watch.record()
    watch._workers = 2
    counted = {"rows": 10, "loads": "#[{0, 6}, {1, 4}]"}
    progress = SimpleNamespace(
        observedMetrics={watch._name: counted}, id="q", runId="mine", batchId=0, timestamp="", batchDuration=5
    )
    watch.onQueryProgress(SimpleNamespace(progress=progress))
    watch.onQueryTerminated(SimpleNamespace(runId="other"))
    assert history.snapshot()["running"]
    watch.onQueryTerminated(SimpleNamespace(runId="mine"))
    assert not history.snapshot()["running"]
