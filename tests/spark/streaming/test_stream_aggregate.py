"""`aggregate` of a stream: equal to `groupBy` for any cut into batches and after any restart, late rows included."""

import datetime
import math
import os
import random
import sys
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as F

from frames import setting
from keyspread import InputError
from keyspread.operators import Operator
from keyspread.spark import aggregate, stream_settings
from keyspread.spark.aggregation.folds import add, fold_table
from keyspread.spark.routing.tags import tags_of
from keyspread.spark.streaming.state import StateError, StateRules, from_blob, processor, to_blob

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORKERS = 3
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = "time timestamp, key string, value bigint, part double, price decimal(10,2)"
# Every aggregate that a stream can keep.
ALL = {
    "n": "count(*)",
    "known": "count(value)",
    "total": "sum(value)",
    "money": "sum(price)",
    "mean": "avg(value)",
    "price": "avg(price)",
    "least": "min(part)",
    "most": "max(part)",
    "last": "max_by(value, time)",
    "first": "min_by(value, time)",
    "many": "count(DISTINCT value)",
    "set": "collect_set(value)",
    "list": "collect_list(value)",
    "some": "bool_or(value > 90)",
    "every": "bool_and(value > 2)",
    "bits": "bit_xor(value)",
    "low": "bit_and(value)",
    "high": "bit_or(value)",
    "v1": "var_samp(part)",
    "v2": "var_pop(part)",
    "s1": "stddev(part)",
    "s2": "stddev_pop(part)",
}


class Reach(Operator):
    """Count and largest value, from pandas."""

    schema = "n bigint, most bigint"

    def zero(self):
        return (0, -1)

    def update(self, state, rows):
        assert rows["key"].nunique(dropna=False) == 1
        return state[0] + len(rows), max(state[1], int(rows["value"].fillna(-1).max()))

    def merge(self, state, other):
        return state[0] + other[0], max(state[1], other[1])

    def finish(self, state):
        return {"n": state[0], "most": state[1]}


@pytest.fixture(scope="module")
def streaming(spark):
    """A session with the settings that a streaming aggregate needs."""
    with ExitStack() as stack:
        for name, value in {**stream_settings(WORKERS), "spark.sql.adaptive.enabled": "false"}.items():
            stack.enter_context(setting(spark, name, value))
        yield spark


def drawn(seed, many, begin=0.0, late=0.05):
    """Return rows around a moment: half of them have one key, some have no key or no value, some are late."""
    dice = random.Random(seed)
    rows = []
    for _ in range(many):
        at = begin + dice.random() * 20 - (60 if dice.random() < late else 0)
        key = dice.choice(["hot", "hot", "hot", None, *"abcdefgh"])
        value = None if dice.random() < 0.1 else dice.randrange(100)
        part = None if value is None else (math.nan if value == 7 else value / 7)
        rows.append((BEGIN + datetime.timedelta(seconds=round(at, 3)), key, value, part, value))
    return rows


def put(folder, number, rows):
    """Write a file; each file is a micro-batch."""
    os.makedirs(folder, exist_ok=True)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = [pa.timestamp("us", tz="UTC"), pa.string(), pa.int64(), pa.float64(), pa.decimal128(10, 2)]
    names = ["time", "key", "value", "part", "price"]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    path = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table(arrays, names=names), path)
    os.utime(path, (1e9 + number, 1e9 + number))


def stream_of(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(df, checkpoint, mode):
    """Process the files that are there; return the rows in the order in which they came."""
    seen = []
    query = (
        df.writeStream.foreachBatch(lambda rows, batch: seen.extend(row.asDict(True) for row in rows.collect()))
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    if query.exception():
        raise query.exception()
    return seen


def plain(df, aggregates, *key):
    return [
        row.asDict(True) for row in df.groupBy(*key).agg(*(F.expr(a).alias(n) for n, a in aggregates.items())).collect()
    ]


def alike(found, expected):
    """Equal, lists in any order, floats to nine digits: their sums depend on the order."""
    if isinstance(expected, list):
        return sorted(found) == sorted(expected)
    if isinstance(expected, float):
        return math.isnan(found) if math.isnan(expected) else math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return found == expected


def assert_alike(found, expected, key):
    of = {key(row): row for row in found}
    assert len(of) == len(found)
    assert of.keys() == {key(row) for row in expected}
    for row in expected:
        differing = {n: (of[key(row)][n], v) for n, v in row.items() if not alike(of[key(row)][n], v)}
        assert not differing, key(row)


def by_key(row):
    return row["key"]


def by_window(row):
    return row["window"]["start"], row["window"]["end"], row["key"]


def latest(rows, key=by_key):
    return list({key(row): row for row in rows}.values())


def test_tags_lead_where_spark_hashes_them(spark):
    for many in (1, 3, 8, 50):
        tags = ", ".join(map(str, tags_of(many)))
        found = spark.sql(f"SELECT transform(array({tags}), t -> pmod(hash(t), {many})) AS places").collect()[0]
        assert found.places == list(range(many))


@pytest.mark.parametrize("seed", [1, 2])
def test_running_totals_after_any_cuts_and_restarts(streaming, tmp_path, seed):
    """Batches of any size, one of them empty; the query is restarted at random, also with another scheme."""
    dice = random.Random(seed)
    seen = []
    for number in range(4):
        put(tmp_path / "in", number, drawn(f"{seed}/{number}", dice.choice([0, 1, 40, 200]), 10.0 * number))
        if number == 3 or dice.random() < 0.4:
            stream = stream_of(streaming, tmp_path / "in")
            totals = aggregate(stream, "key", ALL, WORKERS, dice.choice([None, "d-choices"]))
            seen += run(totals, tmp_path / "checkpoint", "update")
            assert_alike(latest(seen), plain(streaming.read.parquet(str(tmp_path / "in")), ALL, "key"), by_key)


@pytest.mark.parametrize("slide", [None, "4 seconds"], ids=["tumbling", "sliding"])
def test_windows_equal_those_of_spark_itself(streaming, tmp_path, slide):
    """Rows are late, too late, or on the edge of a window; a key is hot in one window only; a window has no rows."""
    for number, begin in enumerate((0, 30, 90)):
        put(tmp_path / "in", number, drawn(number, 60, begin))
    edges = [(BEGIN + datetime.timedelta(seconds=at), "edge", 1, 1.0, 1) for at in (100, 110, 130, 400)]
    put(tmp_path / "in", 3, edges)
    stream = stream_of(streaming, tmp_path / "in").withWatermark("time", "10 seconds")
    wanted = {name: ALL[name] for name in ("n", "total", "last", "set", "v1", "price")}
    by = (F.window("time", "10 seconds", slide), "key")
    ours = run(aggregate(stream, "key", wanted, WORKERS, window="10 seconds", slide=slide), tmp_path / "ours", "append")
    theirs = stream.groupBy(*by).agg(*(F.expr(a).alias(n) for n, a in wanted.items()))
    assert_alike(ours, run(theirs, tmp_path / "theirs", "append"), by_window)
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    expected = plain(bounded, wanted, *by)
    assert sum(row["n"] for row in ours) < sum(row["n"] for row in expected)  # some were too late
    found = aggregate(bounded, "key", wanted, WORKERS, window="10 seconds", slide=slide, time="time").collect()
    assert_alike([row.asDict(True) for row in found], expected, by_window)


def test_windows_as_they_change_and_an_operator(streaming, tmp_path):
    wanted = {"n": "count(*)", "most": "max(coalesce(value, -1))"}
    for number in range(3):
        put(tmp_path / "in", number, drawn(number, 100, 5.0 * number, late=0))
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    stream = stream_of(streaming, tmp_path / "in").withWatermark("time", "1 minute")
    windows = run(
        aggregate(stream, "key", Reach(), WORKERS, window="10 seconds", mode="update"), tmp_path / "windows", "update"
    )
    expected = plain(bounded, wanted, F.window("time", "10 seconds"), "key")
    assert_alike(latest(windows, by_window), expected, by_window)
    totals = run(aggregate(stream, "key", Reach(), WORKERS, "d-choices"), tmp_path / "totals", "update")
    assert_alike(latest(totals), plain(bounded, wanted, "key"), by_key)


def test_a_key_of_columns_in_windows_and_in_totals(streaming, tmp_path):
    """Expressions are named as `groupBy` names them; `F.col` and a column of the stream itself are the same key."""
    for number in range(2):
        put(tmp_path / "in", number, drawn(number, 60, 5.0 * number, late=0))
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    stream = stream_of(streaming, tmp_path / "in").withWatermark("time", "1 minute")
    wanted = {"n": "count(*)", "most": "max(value)"}
    key = [F.upper("key"), (F.col("value") % 2).alias("odd")]
    found = run(
        aggregate(stream, key, wanted, WORKERS, window="10 seconds", mode="update"), tmp_path / "windows", "update"
    )
    expected = plain(bounded, wanted, F.window("time", "10 seconds"), *key)
    assert list(found[0]) == list(expected[0]) == ["window", "upper(key)", "odd", "n", "most"]

    def by(row):
        return row["window"]["start"], row["upper(key)"], row["odd"]

    assert_alike(latest(found, by), expected, by)
    totals = run(aggregate(stream, stream.key, Reach(), WORKERS), tmp_path / "totals", "update")
    assert {row["key"]: row["n"] for row in latest(totals)} == {
        row.key: row["count"] for row in bounded.groupBy("key").count().collect()
    }


def test_the_state_of_worker_w_is_in_state_partition_w(streaming, tmp_path):
    put(tmp_path / "in", 0, drawn(0, 200))
    run(aggregate(stream_of(streaming, tmp_path / "in"), "key", {"n": "count(*)"}, WORKERS), tmp_path / "c", "update")
    state = streaming.read.format("statestore").option("stateVarName", "parts").load(str(tmp_path / "c"))
    found = {row.key.tag: row.partition_id for row in state.select("key", "partition_id").collect()}
    assert found == {tag: partition for partition, tag in enumerate(tags_of(WORKERS))}


def test_a_checkpoint_of_another_query_is_refused(streaming, tmp_path):
    put(tmp_path / "in", 0, drawn(0, 50))
    stream, checkpoint = stream_of(streaming, tmp_path / "in"), tmp_path / "checkpoint"
    run(aggregate(stream, "key", {"n": "count(*)"}, WORKERS), checkpoint, "update")
    put(tmp_path / "in", 1, drawn(1, 50))
    for key, sql, message in (
        (F.lower("key"), "count(*)", r"key was \['key'\] and is now \['lower\(key\)'\]"),
        ("key", "sum(value)", r"aggregates was {'n': 'count\(\*\)'} and is now {'n': 'sum\(value\)'}"),
    ):
        with pytest.raises(StreamingQueryException, match=f"{message}.*resume that query unchanged"):
            run(aggregate(stream, key, {"n": sql}, WORKERS), checkpoint, "update")


class Handle:
    """Stands in for Spark's, which would retry a failing task four times."""

    def __init__(self):
        self.kept, self.timers = {}, []

    def getMapState(self, name, key, value):  # noqa: N802
        return self

    def registerTimer(self, at):  # noqa: N802
        self.timers.append(at)

    def getValue(self, key):  # noqa: N802
        return self.kept.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.kept[key] = value

    def removeKey(self, key):  # noqa: N802
        del self.kept[key]

    def keys(self):
        return iter(list(self.kept))


def test_the_state_knows_whose_it_is(monkeypatch):
    """The state of another query is refused when it is read; a blob may have more fields than are compared."""

    def merged(workers, aggregate, partition=0, **more):
        monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: partition))
        identity = {"aggregates": {"n": aggregate}, "workers": workers, **more}
        fold = partial(fold_table, keys=2, folds=[(1, add)])
        state = processor(StateRules(fold, identity, workers, windowed=False, mode="update"))
        state.init(handle)
        blob = to_blob(pa.table({"hash": [1, 2], "key": ["a", "b"], "n": [1, 5]}), identity)
        (row,) = state.handleInputRows((tags_of(workers)[0],), iter([Row(blob=blob)]), None)
        return dict(zip(*(from_blob(row.blob)[name].to_pylist() for name in ("key", "n")), strict=True))

    handle = Handle()
    assert merged(3, "count(*)", scheme="look-ahead") == {"a": 1, "b": 5}  # an older version stored the scheme
    assert merged(3, "count(*)") == {"a": 2, "b": 10}
    message = r"belongs to another query .aggregates was {'n': 'count\(\*\)'} and is now {'n': 'sum\(v\)'}"
    with pytest.raises(StateError, match=message):
        merged(3, "sum(v)")
    with pytest.raises(StateError, match="worker 0 of 4 would be in state partition 2: the checkpoint was made with"):
        merged(4, "count(*)", partition=2)


def test_bad_input(streaming, tmp_path):
    put(tmp_path / "in", 0, [])
    stream = stream_of(streaming, tmp_path / "in")
    marked = stream.withWatermark("time", "1 minute")
    count = {"n": "count(*)"}
    cases = [
        (stream, {"window": "5 seconds"}, "windows of a stream need a watermark: call .withWatermark"),
        (stream, {"window": "5 seconds", "time": "time"}, "windows of a stream need a watermark on 'time', otherwise"),
        (marked, {"window": "soon"}, "window='soon', slide=None is not possible: "),
        (
            marked,
            {"window": "5 seconds", "slide": "8 seconds"},
            "slide='8 seconds' is not possible: ",
        ),
        (marked, {"window": "5 seconds", "time": "value"}, "time must be a column of timestamps, 'value' is bigint"),
        (marked, {"window": "5 seconds", "time": 5}, "time must be the name of a column, got 5"),
        (marked, {"checkpoint": "folder"}, "unknown option 'checkpoint'; it is no longer needed"),
        (marked, {"slide": "5 seconds"}, "slide='5 seconds' has no effect without window="),
        (marked, {"mode": "append"}, "mode 'append' needs window="),
        (
            marked,
            {"mode": "complete"},
            "mode 'complete' is not supported; use append (every window once",
        ),
        (marked.withColumnRenamed("part", "window"), {"window": "5 seconds"}, "there is a column 'window'"),
        (streaming.read.parquet(str(tmp_path / "in")), {"mode": "update"}, "mode= is for streams, got 'update'"),
        (streaming.read.parquet(str(tmp_path / "in")), {"window": "1 day"}, "name the column of the event time"),
    ]
    for df, options, message in cases:
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace("[", r"\[")):
            aggregate(df, "key", count, WORKERS, **options)
    with pytest.raises(InputError, match=r"'approx_count_distinct\(value\)' is a sketch, .* keyspread.spark.Totals"):
        aggregate(stream, "key", {"n": "approx_count_distinct(value)"}, WORKERS)
    with (
        setting(streaming, "spark.sql.shuffle.partitions", "7"),
        setting(streaming, "spark.sql.streaming.stateStore.providerClass", "org.example.Other"),
        pytest.raises(InputError, match=r"shuffle.partitions=3 \(is 7\), .*RocksDB.* \(is org.example.Other\)"),
    ):
        aggregate(stream, "key", count, WORKERS)


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_window_that_is_over_leaves_the_state(monkeypatch, mode):
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 0))
    own, handle = {"workers": 3}, Handle()
    fold = partial(fold_table, keys=2, folds=[(1, add)])
    state = processor(StateRules(fold, own, 3, windowed=True, mode=mode))
    state.init(handle)
    blob = to_blob(pa.table({"hash": [1], "key": ["a"], "n": [5]}), own)
    rows = [Row(start=start, end=start + 10_000_000, blob=blob) for start in (0, 10_000_000, 0)]
    emitted = list(state.handleInputRows((tags_of(3)[0],), iter(rows), None))
    assert len(emitted) == (2 if mode == "update" else 0)
    assert handle.timers == [10_000, 20_000]
    expired = SimpleNamespace(getExpiryTimeInMs=lambda: 10_000)
    closed = list(state.handleExpiredTimer((tags_of(3)[0],), None, expired))
    assert [from_blob(row.blob)["n"].to_pylist() for row in closed] == ([[10]] if mode == "append" else [])
    assert list(handle.kept) == [(10_000_000, 20_000_000)]
