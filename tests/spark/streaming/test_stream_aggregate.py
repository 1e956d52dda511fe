"""`aggregate` of a stream: equal to `groupBy` for any cut into batches and after any restart, late rows included.

`stream_machine.py` tries many more schedules without Spark.
"""

import datetime
import os
import random
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as F

from frames import needs_state, setting
from keyspread import InputError, hash_keys
from keyspread.framing import Frame
from keyspread.operators import ColumnOperator, Operator
from keyspread.spark import aggregate, stream_settings
from keyspread.spark._routing.exchange import tags_of
from keyspread.spark._streaming.blobs import StateError, from_blob, to_blob
from keyspread.spark._streaming.state import StateRules, processor

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORKERS = 3
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = "time timestamp, key string, value bigint"
# The result of the operator below, as SQL.
REACH = {"n": "count(*)", "most": "max(coalesce(value, -1))"}


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


class ColumnReach(ColumnOperator):
    """The same by column."""

    state = schema = "n bigint, most bigint"

    def partial(self, rows, key):
        found = rows.group_by(key).aggregate([([], "count_all"), ("value", "max")]).rename_columns([*key, "n", "most"])
        return found.set_column(found.num_columns - 1, "most", found["most"].fill_null(-1))

    def merge(self, states, key):
        return states.group_by(key).aggregate([("n", "sum"), ("most", "max")]).rename_columns([*key, "n", "most"])


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
        rows.append((BEGIN + datetime.timedelta(seconds=round(at, 3)), key, value))
    return rows


def put(folder, number, rows):
    """Write a file; each file is a micro-batch."""
    os.makedirs(folder, exist_ok=True)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 3
    kinds = {"time": pa.timestamp("us", tz="UTC"), "key": pa.string(), "value": pa.int64()}
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds.values(), strict=True)]
    path = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table(arrays, names=[*kinds]), path)
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


def assert_alike(found, expected, key):
    """Check that both have the same rows, one per key."""
    assert len({key(row) for row in found}) == len(found) == len(expected)
    assert sorted(found, key=lambda row: repr(key(row))) == sorted(expected, key=lambda row: repr(key(row)))


def by_key(row):
    return row["key"]


def by_window(row):
    return row["window"]["start"], row["window"]["end"], row["key"]


def latest(rows, key=by_key):
    return list({key(row): row for row in rows}.values())


@pytest.mark.parametrize("operator", [Reach, ColumnReach])
def test_running_totals_after_any_cuts_and_restarts(streaming, tmp_path, operator):
    """Batches of any size, one of them empty; the query is restarted, also with another scheme."""
    seen = []
    for number, (many, restart) in enumerate(((40, None), (0, None), (200, "d-choices"))):
        put(tmp_path / "in", number, drawn(number, many, 10.0 * number))
        if number != 1:
            totals = aggregate(stream_of(streaming, tmp_path / "in"), "key", operator(), WORKERS, restart)
            seen += run(totals, tmp_path / "checkpoint", "update")
    assert_alike(latest(seen), plain(streaming.read.parquet(str(tmp_path / "in")), REACH, "key"), by_key)


@pytest.mark.parametrize(
    ("slide", "operator"), [pytest.param(None, Reach, marks=pytest.mark.slow), ("4 seconds", ColumnReach)]
)
def test_windows_equal_those_of_spark_itself(streaming, tmp_path, slide, operator):
    """Rows are late, too late, or on the edge of a window; a key is hot in one window only; a window has no rows."""
    for number, begin in enumerate((0, 30, 90)):
        put(tmp_path / "in", number, drawn(number, 60, begin))
    put(tmp_path / "in", 3, [(BEGIN + datetime.timedelta(seconds=at), "edge", 1) for at in (100, 110, 130, 400)])
    stream = stream_of(streaming, tmp_path / "in").withWatermark("time", "10 seconds")
    by = (F.window("time", "10 seconds", slide), "key")
    options = {"window": "10 seconds", "slide": slide}
    ours = run(aggregate(stream, "key", operator(), WORKERS, **options), tmp_path / "ours", "append")
    theirs = stream.groupBy(*by).agg(*(F.expr(a).alias(n) for n, a in REACH.items()))
    assert_alike(ours, run(theirs, tmp_path / "theirs", "append"), by_window)
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    expected = plain(bounded, REACH, *by)
    assert sum(row["n"] for row in ours) < sum(row["n"] for row in expected)  # some were too late
    found = aggregate(bounded, "key", operator(), WORKERS, time="time", **options).collect()
    assert_alike([row.asDict(True) for row in found], expected, by_window)


@pytest.mark.slow
def test_a_key_of_columns(streaming, tmp_path):
    """Expressions are named as `groupBy` names them."""
    for number in range(2):
        put(tmp_path / "in", number, drawn(number, 60, 5.0 * number, late=0))
    stream = stream_of(streaming, tmp_path / "in").withWatermark("time", "1 minute")
    key = [F.upper("key"), (stream.value % 2).alias("odd")]
    counts = aggregate(stream, key, Reach(), WORKERS, window="10 seconds", mode="update")
    found = run(counts, tmp_path / "windows", "update")
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    expected = plain(bounded, REACH, F.window("time", "10 seconds"), key[0], (F.col("value") % 2).alias("odd"))
    assert list(found[0]) == list(expected[0]) == ["window", "upper(key)", "odd", "n", "most"]

    def by(row):
        return row["window"]["start"], row["upper(key)"], row["odd"]

    assert_alike(latest(found, by), expected, by)


class TypedReach(Reach):
    """The same, with a state of columns."""

    state = "n bigint, most bigint"

    def __init__(self, least=-1):
        self.least = least

    def zero(self):
        return {"n": 0, "most": self.least}

    def update(self, state, rows):
        n, most = super().update((state["n"], state["most"]), rows)
        return {"n": n, "most": most}

    def merge(self, state, other):
        return {"n": state["n"] + other["n"], "most": max(state["most"], other["most"])}

    def finish(self, state):
        return state


@pytest.mark.slow
def test_a_restart_with_another_time_zone_and_a_key_that_is_never_null(streaming, tmp_path):
    """The key is a time, so its Arrow type depends on the session; another operator is refused."""
    keyed = F.date_trunc("minute", "time").alias("minute")
    checkpoint, seen = tmp_path / "checkpoint", []
    for number, zone in enumerate(("UTC", "America/New_York")):
        put(tmp_path / "in", number, drawn(number, 40, 30.0 * number))
        stream = stream_of(streaming, tmp_path / "in")
        key = keyed if number == 0 else F.coalesce(keyed, F.lit(BEGIN)).alias("minute")
        with setting(streaming, "spark.sql.session.timeZone", zone):
            rows = stream.select("value", F.lit("k").alias("key"), key)
            seen += run(aggregate(rows, "minute", TypedReach(), WORKERS), checkpoint, "update")
    bounded = streaming.read.parquet(str(tmp_path / "in"))
    assert_alike(latest(seen, lambda row: row["minute"]), plain(bounded, REACH, keyed), lambda row: row["minute"])
    put(tmp_path / "in", 2, drawn(2, 40))
    with pytest.raises(StreamingQueryException, match=r"'least': '-1'.* and is now .*'least': '0'"):
        run(aggregate(rows, "minute", TypedReach(0), WORKERS), checkpoint, "update")


@pytest.mark.slow
def test_the_state_of_worker_w_is_in_state_partition_w(streaming, tmp_path):
    put(tmp_path / "in", 0, drawn(0, 200))
    run(aggregate(stream_of(streaming, tmp_path / "in"), "key", Reach(), WORKERS), tmp_path / "c", "update")
    state = streaming.read.format("statestore").option("stateVarName", "parts").load(str(tmp_path / "c"))
    found = {row.key.tag: row.partition_id for row in state.select("key", "partition_id").collect()}
    assert found == {tag: partition for partition, tag in enumerate(tags_of(WORKERS))}


@pytest.mark.parametrize(
    ("window", "key", "kind"),
    [("10 seconds", "value", "bigint"), (None, "date_from_unix_date(int(value))", "date")],
    ids=["append", "totals"],
)
def test_a_checkpoint_of_other_types_is_refused_at_the_start(streaming, tmp_path, window, key, kind):
    """Rows of the first batch are in a new window only: they touch no state of the old query."""
    put(tmp_path / "in", 0, drawn(0, 50, late=0))
    stream, checkpoint = stream_of(streaming, tmp_path / "in").withWatermark("time", "1 second"), tmp_path / "c"
    mode = "append" if window else "update"

    def start(key, rows=stream):
        found = aggregate(rows, F.expr(key).alias("k"), ColumnReach(), WORKERS, window=window)
        return run(found, checkpoint, mode)

    start("int(value)")
    committed = sorted((checkpoint / "commits").iterdir())
    put(tmp_path / "in", 1, [(BEGIN + datetime.timedelta(days=9), None, 4)])
    message = rf"key types was \['int'\] and is now \['{kind}'\].*resume that query unchanged, or use a new"
    with pytest.raises(StreamingQueryException, match=message):
        start(key)
    if window is None:
        with pytest.raises(StreamingQueryException, match=r"rows was 'struct<.*value:bigint.* and is now .*value:int"):
            start("int(value)", stream.withColumn("value", F.col("value").cast("int")))
    assert sorted((checkpoint / "commits").iterdir()) == committed
    assert start("int(value)")  # the old query goes on


@pytest.mark.slow
def test_a_restart_with_another_number_of_workers_is_refused_where_no_state_is_read(streaming, tmp_path):
    """With one worker, the rows of a key come to state partition 0. Its old state, in partition 1 or 2, is not read."""
    rows = [row for row in drawn(0, 200) if hash_keys([row[1] or ""]).view("uint64")[0] % WORKERS and row[1]]
    assert rows
    put(tmp_path / "in", 0, rows)
    stream, checkpoint = stream_of(streaming, tmp_path / "in"), tmp_path / "checkpoint"
    run(aggregate(stream, "key", Reach(), WORKERS), checkpoint, "update")
    put(tmp_path / "in", 1, rows)
    with (
        setting(streaming, "spark.sql.shuffle.partitions", "1"),
        pytest.raises(
            StreamingQueryException, match="worker 0 of 1 would be in state partition 0 of 3: the checkpoint"
        ),
    ):
        run(aggregate(stream, "key", Reach(), 1), checkpoint, "update")


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


def task_in(partition, partitions):
    """Return the context of a task in this state partition."""
    return SimpleNamespace(partitionId=lambda: partition, getLocalProperty=lambda name: partitions)


def summed(table):
    """Merge partial counts: one row per key, in order of appearance."""
    found = table.group_by(["hash", "key"], use_threads=False).aggregate([("n", "sum")])
    return found.rename_columns(["hash", "key", "n"])


@needs_state
def test_the_state_knows_whose_it_is(monkeypatch):
    """The state of another query is refused when it is read; a blob may have more fields than are compared."""

    def merged(workers, aggregate, partition=0, partitions=None):
        monkeypatch.setattr(TaskContext, "get", lambda: task_in(partition, partitions))
        state = processor(StateRules(summed, {"aggregates": {"n": aggregate}}, workers, mode="update"))
        state.init(handle)
        blob = to_blob(pa.table({"hash": [1, 2], "key": ["a", "b"], "n": [1, 5]}))
        (row,) = state.handleInputRows((tags_of(workers)[0],), iter([Row(blob=b""), Row(blob=blob)]), None)
        return dict(zip(*(from_blob(row.blob)[name].to_pylist() for name in ("key", "n")), strict=True))

    handle = Handle()
    assert merged(3, "count(*)") == {"a": 1, "b": 5}
    assert merged(3, "count(*)") == {"a": 2, "b": 10}
    message = r"belongs to another query .aggregates was {'n': 'count\(\*\)'} and is now {'n': 'sum\(v\)'}"
    with pytest.raises(StateError, match=message):
        merged(3, "sum(v)")
    with pytest.raises(StateError, match="worker 0 of 4 would be in state partition 2: the checkpoint was made with"):
        merged(4, "count(*)", partition=2)
    # The tag of the only worker leads to partition 0 of 3, too: only the number of partitions tells.
    handle = Handle()
    with pytest.raises(StateError, match="worker 0 of 1 would be in state partition 0 of 3: the checkpoint was made"):
        merged(1, "count(*)", partitions="3")
    assert merged(1, "count(*)", partitions="1") == {"a": 1, "b": 5}


def test_bad_input(streaming, tmp_path):
    put(tmp_path / "in", 0, [])
    stream = stream_of(streaming, tmp_path / "in")
    marked = stream.withWatermark("time", "1 minute")
    cases = [
        (stream, {"window": "5 seconds"}, "windows of a stream need a watermark: call .withWatermark"),
        (marked, {"window": "soon"}, "window='soon', slide=None is not possible: "),
        (marked, {"window": "5 seconds", "time": "value"}, "time must be a column of timestamps, 'value' is bigint"),
        (marked, {"slide": "5 seconds"}, "slide='5 seconds' has no effect without window="),
        (marked, {"mode": "append"}, "mode 'append' needs window="),
        (marked, {"mode": "complete"}, "mode 'complete' is not supported; use append (every window once"),
        (marked.withColumnRenamed("value", "window"), {"window": "5 seconds"}, "there is a column 'window'"),
        (streaming.read.parquet(str(tmp_path / "in")), {"mode": "update"}, "mode= is for streams, got 'update'"),
        (streaming.read.parquet(str(tmp_path / "in")), {"window": "1 day"}, "name the column of the event time"),
    ]
    for df, options, message in cases:
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace("[", r"\[")):
            aggregate(df, "key", Reach(), WORKERS, **options)
    with (
        setting(streaming, "spark.sql.shuffle.partitions", "7"),
        setting(streaming, "spark.sql.streaming.stateStore.providerClass", "org.example.Other"),
        pytest.raises(InputError, match=r"shuffle.partitions=3 \(is 7\), .*RocksDB.* \(is org.example.Other\)"),
    ):
        aggregate(stream, "key", Reach(), WORKERS)


def test_a_blob_of_another_version_or_damaged_is_one_line():
    blob = to_blob(pa.table({"hash": [1], "key": ["a"], "n": [5]}))
    assert from_blob(blob)["n"].to_pylist() == [5]
    newer = Frame(b"kspS", 2, "a blob of states", "to_blob").seal(b"anything")
    with pa.BufferOutputStream() as old, pa.ipc.new_stream(old, pa.schema([("n", pa.int64())])):
        pass
    for wrong, message in (
        (newer, r"cannot be read \(a blob of states has format 2, this keyspread reads 1: use the version"),
        (blob[:-1], r"cannot be read \(a blob of states of \d+ bytes is damaged or cut short"),
        (blob[:40] + b"x" + blob[41:], r"cannot be read \(.* is damaged"),
        (old.getvalue(), "was not written by this version of keyspread: restart the query with the version that"),
        (b"", "was not written by this version of keyspread"),
    ):
        with pytest.raises(StateError, match=f"^the state in the checkpoint {message}") as caught:
            from_blob(wrong)
        assert "\n" not in str(caught.value)


@needs_state
def test_a_window_that_ends_between_two_milliseconds_is_open_until_the_second(monkeypatch):
    """Spark counts watermarks and timers in milliseconds. A row of the last microseconds is not late before that."""
    monkeypatch.setattr(TaskContext, "get", lambda: task_in(0, "3"))
    handle = Handle()
    state = processor(StateRules(summed, {}, 3, "append", pa.timestamp("us")))
    state.init(handle)
    blob = to_blob(pa.table({"hash": [1], "key": ["a"], "n": [5]}))
    assert not list(state.handleInputRows((tags_of(3)[0],), iter([Row(start=0, end=10_000_500, blob=blob)]), None))
    assert handle.timers == [10_001]
    for at, windows in ((10_000, 0), (10_001, 1)):
        expired = SimpleNamespace(getExpiryTimeInMs=lambda at=at: at)
        assert len(list(state.handleExpiredTimer((tags_of(3)[0],), None, expired))) == windows
