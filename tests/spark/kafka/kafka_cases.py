"""Kafka with a real broker: test_kafka.py runs this in a separate process, whose Spark starts with the connector."""

import json
import time
from collections import Counter

import pytest
from kafka_broker import RegistryOutOfReachError, broker, connector_jars

from frames import HOT

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.errors import InputError
from keyspread.spark import session, spread
from keyspread.spark._engine.capabilities import has_function
from keyspread.spark.kafka import (
    as_messages,
    connector,
    kafka_sink,
    kafka_source,
    parsed,
    split,
    with_kafka,
)

WORKERS = 8


@pytest.fixture(scope="module")
def kafka():
    try:
        with broker() as running:
            yield running
    except RegistryOutOfReachError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def spark():
    try:
        name, jars = connector_jars()
    except RegistryOutOfReachError as problem:
        pytest.skip(str(problem))
    config = {"master": "local[2,4]", "spark.sql.shuffle.partitions": 4}
    if not connector().endswith(name):  # the registry lacks the one that belongs to this Spark
        config["spark.jars"] = ",".join(map(str, jars))
    running = session(**with_kafka(config))
    yield running
    running.stop()


@pytest.fixture
def topic(kafka, request):
    """Create a topic of three partitions for this test only."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60] + f"-{time.time_ns()}"
    kafka.create_topic(name, 3)
    return name


def send(kafka, topic, df):
    # A producer that gives up on a slow broker fails its task, and the next attempt sends all its messages again.
    patient = {"kafka.delivery.timeout.ms": 600_000, "kafka.request.timeout.ms": 300_000, "kafka.max.block.ms": 600_000}
    to = {"kafka.bootstrap.servers": kafka.address, "topic": topic}
    df.write.format("kafka").options(**to, **patient).save()


def hot_messages(spark, start, end):
    """Return messages with ids from start to end: 60% in partition 0 with its hot key, one in 97 without a key."""
    rows = spark.range(start, end, 1, 2).selectExpr("id", f"{HOT} AS key")
    return rows.selectExpr(
        "key",
        "to_json(struct(id)) AS value",
        "if(key IN ('hot', 'warm'), 0, coalesce(pmod(hash(key), 3), 2)) AS partition",
    )


class Collected:
    """A foreachBatch sink that keeps rows by batch id: a batch that is retried replaces itself."""

    def __init__(self, fail_at=None):
        self.batches = {}
        self.again = {}
        self.partitions = set()
        self.fail_at = fail_at

    def __call__(self, df, batch):
        rows = df.select(
            F.spark_partition_id().alias("place"), F.get_json_object("value", "$.id").cast("int").alias("id"), "key"
        ).collect()
        if batch < 2:  # it costs a second
            self.partitions.add(df.rdd.getNumPartitions())
        if batch in self.batches:
            self.again[batch] = self.batches[batch]
        self.batches[batch] = rows
        if batch == self.fail_at:
            self.fail_at = None
            raise RuntimeError("the sink is full")

    @property
    def rows(self):
        return [row for rows in self.batches.values() for row in rows]

    @property
    def ids(self):
        return sorted(row.id for row in self.rows)


def run(df, sink, checkpoint):
    query = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return query.trigger(availableNow=True).start()


def until(true, seconds=40):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.2)


@pytest.mark.parametrize("scheme", [None, "key"])
def test_a_topic_with_a_hot_partition_is_spread_and_every_message_arrives_once(spark, kafka, topic, tmp_path, scheme):
    send(kafka, topic, hot_messages(spark, 0, 6000))
    stream = kafka_source(spark, kafka.address, topic, max_rows=3000)
    seen = Collected()
    run(spread(stream, "key", WORKERS, scheme), seen, tmp_path).awaitTermination()
    assert seen.ids == list(range(6000))
    assert len(seen.batches) >= 2
    assert seen.partitions == {WORKERS}
    assert sum(row.key is None for row in seen.rows) == len(range(0, 6000, 97))
    loads = Counter(row.place for row in seen.rows)
    if scheme == "key":
        keys = [row.key for row in seen.rows]
        expected = ks.Sender("key", WORKERS).route(ks.hash_keys(keys))
        assert [row.place for row in seen.rows] == expected.tolist()
        assert max(loads.values()) > 2000  # the load of a hot key that is not spread
    else:
        assert set(loads) == set(range(WORKERS))
        assert max(loads.values()) < 1.15 * 6000 / WORKERS


def test_a_query_resumes_from_its_offsets_after_a_failure_and_after_a_stop(spark, kafka, topic, tmp_path):
    send(kafka, topic, hot_messages(spark, 0, 3000))
    stream = kafka_source(spark, kafka.address, topic, max_rows=1000)
    seen = Collected(fail_at=1)
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run(spread(stream, "key", WORKERS), seen, tmp_path).awaitTermination()
    assert set(seen.batches) == {0, 1}
    send(kafka, topic, hot_messages(spark, 3000, 4000))
    run(spread(stream, "key", WORKERS), seen, tmp_path).awaitTermination()
    assert seen.ids == list(range(4000))
    assert sorted(row.id for row in seen.again[1]) == sorted(row.id for row in seen.batches[1])

    batches = len(seen.batches)
    send(kafka, topic, hot_messages(spark, 4000, 4500))
    run(spread(stream, "key", WORKERS), seen, tmp_path).awaitTermination()
    assert seen.ids == list(range(4500))
    assert len(seen.batches) > batches


GOOD = ['{"user":"a","spent":1.5}', ' {"spent": 2}\n', "{}", '{"user":null,"more":[1,{"x":"]}"}]}', None]
BAD = [
    *["", "  ", "hello", '{"user":"a"', '{"user":"a","spent":"much"}', "null", "7", '"text"', "[]", '[{"user":"a"}]'],
    *['{"user":"a"} {"user":"b"}', '{"user":"a"},{"user":"b"}', '{"user":"a"} and more', '{"user":"a"}}', "{}]"],
]


def as_dict(row):
    return row if isinstance(row, dict) else row.asDict()  # Spark 3.5 has dicts


def test_malformed_values_are_counted_and_set_aside(spark, kafka, topic, tmp_path):
    rows = [(f"k{i}", value) for i, value in enumerate(GOOD + BAD)]
    send(kafka, topic, spark.createDataFrame(rows, "key string, value string"))
    kafka.create_topic(f"{topic}-aside")
    stream = parsed(kafka_source(spark, kafka.address, topic), "user STRING, spent DOUBLE", observe="parsed")
    good, bad = split(stream)
    query = kafka_sink(bad, kafka.address, f"{topic}-aside", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    observed = [progress["observedMetrics"] for progress in query.recentProgress]
    counted = [as_dict(one["parsed"]) for one in observed if one]
    assert sum(one["rows"] for one in counted) == len(GOOD + BAD)
    assert sum(one["malformed"] for one in counted) == len(BAD)
    aside = kafka_source(spark, kafka.address, f"{topic}-aside", streaming=False).collect()
    assert {(row.key, row.value) for row in aside} == {row for row in rows if row[1] in BAD}
    assert len(aside) == len(BAD)

    assert good.columns == ["key", "topic", "partition", "offset", "timestamp", "user", "spent"]
    once = parsed(kafka_source(spark, kafka.address, topic, streaming=False), "user STRING, spent DOUBLE")
    found = {row.key: (row.user, row.spent) for row in split(once)[0].collect()}
    assert found == {"k0": ("a", 1.5), "k1": (None, 2.0), "k2": (None, None), "k3": (None, None), "k4": (None, None)}
    assert once.where("_malformed IS NOT NULL AND (user IS NOT NULL OR spent IS NOT NULL)").count() == 0
    with pytest.raises(
        InputError, match="the schema has a field 'Key', and the rows have a column of that name: rename"
    ):
        parsed(kafka_source(spark, kafka.address, topic), "Key STRING")
    with pytest.raises(InputError, match="schema 'user STRUNG' is not valid SQL"):
        parsed(kafka_source(spark, kafka.address, topic), "user STRUNG")


def test_rows_go_out_as_messages(spark, kafka, topic, tmp_path):
    kafka.create_topic(f"{topic}-out", 2)
    send(kafka, topic, hot_messages(spark, 0, 300))
    stream = kafka_source(spark, kafka.address, topic)
    sent = spread(stream, "key", WORKERS).select("key", "offset", F.array("partition").alias("from"))
    kafka_sink(sent, kafka.address, f"{topic}-out", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    back = parsed(
        kafka_source(spark, kafka.address, f"{topic}-out", streaming=False).select("key", "value"),
        "offset BIGINT, `from` ARRAY<INT>",
    )
    original = kafka_source(spark, kafka.address, topic, streaming=False)
    assert Counter((row.key, row.offset, row["from"][0]) for row in back.collect()) == Counter(
        (row.key, row.offset, row.partition) for row in original.collect()
    )
    numbers = as_messages(spark.range(1).selectExpr("id AS key", "named_struct('a', id) AS value", "id AS rest"))
    assert [tuple(row) for row in numbers.collect()] == [("0", '{"a":0}')]
    with pytest.raises(InputError, match="kafka_sink needs a streaming DataFrame, got a bounded one"):
        kafka_sink(original, kafka.address, topic, str(tmp_path))


def test_a_topic_that_does_not_exist(spark, kafka, topic, tmp_path):
    with pytest.raises(
        InputError, match=rf"no topic '{topic}x' at {kafka.address}; there are {topic}.*: check the name"
    ):
        kafka_source(spark, kafka.address, f"{topic}x")
    with pytest.raises(InputError, match="there is no topic 'none'"):
        kafka_source(spark, kafka.address, [topic, "none"])
    with pytest.raises(InputError, match="there is no topic 'none'"):
        kafka_sink(kafka_source(spark, kafka.address, topic), kafka.address, "none", str(tmp_path))


def command(capsys, *arguments):
    """Run `keyspread run` on the active session, and return its lines of JSON."""
    pytest.importorskip("typer")
    from keyspread.cli import main

    code = main(["run", "--format", "kafka", *(str(argument) for argument in arguments), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()], err


def test_the_command_runs_on_a_topic_bounded_and_streaming(spark, kafka, topic, tmp_path, capsys):
    rows = hot_messages(spark, 0, 3000)
    send(kafka, topic, rows)
    expected = Counter(row.key for row in rows.collect())
    of_topic = ["--input", topic, "--option", f"kafka.bootstrap.servers={kafka.address}", "--workers", WORKERS]
    (once,), _ = command(capsys, *of_topic, "--scheme", "key")
    assert (once["rows"], once["keys"], once["source"]) == (3000, len(expected), topic)

    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    streaming = ["--streaming", *of_topic, "--checkpoint", checkpoint, "--out", out]
    few = ["--option", "maxOffsetsPerTrigger=1000"]
    (first, second, last), _ = command(capsys, *streaming, *few, "--batches", 2)
    assert 900 < first["rows"] <= 1000  # each partition's part of it is rounded down
    done = last["total"]["rows"]
    assert first["rows"] + second["rows"] == done
    assert max(first["loads"]) < 1.1 * 1000 / WORKERS
    if has_function(spark, "approx_top_k"):
        assert first["hottest"][0]["key"] == "hot"
    while done < 3000:
        (one, last), _ = command(capsys, *streaming, "--batches", 1)
        assert one["rows"] > 0
        done += last["total"]["rows"]
    assert done == 3000
    found = {}
    for row in spark.read.parquet(str(out)).collect():
        found[row["key"]] = found.get(row["key"], 0) + row["count"]
    assert found == expected
