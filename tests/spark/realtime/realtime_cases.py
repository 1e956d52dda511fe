"""Real queries in real-time mode with a real broker: test_realtime.py runs this in a process of its own."""

import json
import time
from collections import Counter

import numpy as np
import pytest
from kafka_broker import RegistryOutOfReachError, broker, connector_jars

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import keyspread as ks
from frames import HOT, setting
from keyspread.errors import InputError
from keyspread.spark import session, spread
from keyspread.spark._engine.capabilities import has_realtime_exchange
from keyspread.spark.kafka import as_messages, kafka_source
from keyspread.spark.realtime import RealtimeParts, realtime_settings

WORKERS, SOURCES, ROWS = 3, 2, 600
LONG, SHORT = "60 seconds", "5 seconds"  # of a batch; senders are new in each, and the state stays


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
        _, jars = connector_jars()
    except RegistryOutOfReachError as problem:
        pytest.skip(str(problem))
    needed = realtime_settings()
    running = session(
        **{
            "master": "local[8]",
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.shuffle.partitions": WORKERS,
            "spark.python.daemon.module": "keyspread.paper.deployment.kernel_daemon",
            **needed.application,
            **needed.session,
        }
    )
    if not has_realtime_exchange(running):
        running.stop()
        pytest.skip("this Spark has no exchange in real-time mode")
    yield running
    running.stop()


@pytest.fixture
def topics(kafka, request):
    """Create an input and an output topic for this test only."""
    names = [f"{kind}-{time.time_ns()}" for kind in ("in", "out")]
    kafka.create_topic(names[0], SOURCES)
    kafka.create_topic(names[1], 1)
    return names


def send(spark, kafka, topic):
    """Send messages of which 60 % have the same two keys, alternating between the partitions, and return the rows."""
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        f"{HOT} AS key", "string(id) AS value", f"int(id % {SOURCES}) AS partition"
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", topic).save()
    return rows.collect()


def written(spark, kafka, rows, topic, folder, enough, batch=LONG):
    """Run a query in real-time mode until the output topic has enough messages; return them."""
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", topic)
    query = writer.option("checkpointLocation", str(folder)).outputMode("update").trigger(realTime=batch).start()
    try:
        end = time.monotonic() + 60
        found = kafka_source(spark, kafka.address, topic, streaming=False)
        while found.count() < enough:
            assert query.exception() is None, query.exception()
            assert time.monotonic() < end, f"{found.count()} of {enough} messages within 60 s"
            time.sleep(0.3)
        return found
    finally:
        query.stop()


def with_place(rows):
    return rows.select("key", F.to_json(F.struct("value", F.spark_partition_id().alias("place"))).alias("value"))


@pytest.mark.parametrize("scheme", [None, "d-choices", "key"])
def test_every_record_is_on_the_worker_that_its_sender_chose(spark, kafka, topics, tmp_path, scheme):
    source, sink = topics
    sent = send(spark, kafka, source)
    stream = kafka_source(spark, kafka.address, source)
    rows = with_place(spread(stream, "key", WORKERS, scheme, realtime=True))
    found = [json.loads(row.value) for row in written(spark, kafka, rows, sink, tmp_path, ROWS).collect()]
    places = {int(one["value"]): one["place"] for one in found}
    assert sorted(int(one["value"]) for one in found) == list(range(ROWS))
    for partition in range(SOURCES):
        mine = [row for row in sent if row.partition == partition]
        sender = ks.Sender(scheme or "per-key", WORKERS, source=partition)
        expected = sender.route(ks.hash_keys([row.key for row in mine])).tolist()
        assert [places[int(row.value)] for row in mine] == expected


def test_a_plan_routes_without_python(spark, kafka, topics, tmp_path):
    source, sink = topics
    sent = send(spark, kafka, source)
    made = ks.plan(ks.hash_keys([row.key for row in sent]), WORKERS)
    assert made.head
    rows = spread(kafka_source(spark, kafka.address, source), "key", WORKERS, plan=made, realtime=True)
    assert "PythonUDF" not in rows._jdf.queryExecution().analyzed().toString()
    with setting(spark, "spark.sql.streaming.realTimeMode.allowlistCheck", "true"):  # Spark's default
        found = written(spark, kafka, with_place(rows), sink, tmp_path, ROWS).collect()
    places = {int(json.loads(row.value)["value"]): json.loads(row.value)["place"] for row in found}
    assert len(places) == len(found) == ROWS
    hot = {key.hash for key in made.head}
    hashes = ks.hash_keys([row.key for row in sent])
    expected = made.route(hashes)
    for row, hash_, worker in zip(sent, hashes.tolist(), expected.tolist(), strict=True):
        assert hash_ in hot or places[int(row.value)] == worker
    assert np.bincount([*places.values()], minlength=WORKERS).max() < 1.25 * ROWS / WORKERS


def test_parts_per_worker_merge_to_the_plain_answer(spark, kafka, topics, tmp_path):
    source, sink = topics
    sent = send(spark, kafka, source)
    stream = kafka_source(spark, kafka.address, source).withColumn("number", F.col("value").cast("bigint"))
    aggregates = {"n": "count(*)", "total": "sum(number)", "most": "max(number)", "mean": "avg(number)"}
    parts = RealtimeParts(stream, "key", aggregates, WORKERS, "d-choices")
    place = parts.rows.withColumn("place", F.spark_partition_id())
    out = as_messages(place.select(F.col("keyspread_tag").alias("key"), F.to_json(F.struct("*")).alias("value")))
    messages = written(spark, kafka, out, sink, tmp_path, ROWS, SHORT)
    back = messages.select(F.from_json("value", parts.schema).alias("part"), "offset", "value").select(
        "part.*", "offset", F.get_json_object("value", "$.place").cast("int").alias("place")
    )
    answer = {row.key: (row.n, row.total, row.most, row.mean) for row in parts.result(back, "offset").collect()}
    numbers = {}
    for row in sent:
        numbers.setdefault(row.key, []).append(int(row.value))
    assert answer == {key: (len(v), sum(v), max(v), sum(v) / len(v)) for key, v in numbers.items()}
    hottest = Counter(row.key for row in sent).most_common(1)[0][0]
    where = {row.place for row in back.collect() if row.keyspread_key_0 == hottest}
    assert len(where) > 1  # the hot key has parts on several workers
    loads = Counter(row.place for row in back.collect())
    assert max(loads.values()) < 1.25 * ROWS / WORKERS


def test_parts_need_as_many_workers_as_partitions_of_the_state(spark, kafka, topics):
    stream = kafka_source(spark, kafka.address, topics[0])
    with pytest.raises(InputError, match=r"needs this setting of the session: spark.sql.shuffle.partitions=5 \(is 3\)"):
        RealtimeParts(stream, "key", {"n": "count(*)"}, 5)
