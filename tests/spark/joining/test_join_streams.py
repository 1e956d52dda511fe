"""Joins of streams: with a table in each batch, and of two streams by a plan from history."""

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import setting
from keyspread.errors import InputError
from keyspread.spark import JoinPlan, join_batches, join_streams, plan_join

N = 4


@pytest.fixture(autouse=True)
def shuffled(spark):
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        yield


@pytest.fixture
def clicks(spark):
    return spark.range(0, 600, 1, 2).selectExpr(
        "IF(id % 2 = 0, -1, id % 40) AS k", "id AS v", "timestamp_seconds(1700000000 + id) AS t"
    )


@pytest.fixture
def users(spark):
    return spark.range(0, 60, 1, 2).selectExpr(
        "IF(id % 10 = 0, -1, id) AS k", "id AS w", "timestamp_seconds(1700000000 + id * 10) AS u"
    )


def streamed(df, folder, parts=2):
    """Return a stream of the rows, in as many batches."""
    column = df.columns[1]
    for part in range(parts):
        df.where(f"{column} % {parts} = {part}").coalesce(1).write.mode("append").parquet(str(folder))
    return df.sparkSession.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def written(out, folder):
    query = (
        out.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    return Counter(map(tuple, out.sparkSession.read.schema(out.schema).parquet(str(folder / "out")).collect()))


def test_a_stream_and_a_table(spark, clicks, users, tmp_path):
    found = []
    work = join_batches(users, "k", "left", then=lambda rows, number: found.extend(map(tuple, rows.collect())))
    stream = streamed(clicks, tmp_path / "clicks")
    query = stream.writeStream.foreachBatch(work).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    assert Counter(found) == Counter(map(tuple, clicks.join(users, "k", "left").collect()))


def test_a_batch_that_the_caller_keeps_in_memory_stays_there(clicks, users):
    batch = clicks.select("*")
    work = join_batches(users, "k", then=lambda rows, number: rows.count())
    work(batch, 0)
    assert not batch.storageLevel.useMemory
    batch.persist()
    work(batch, 1)
    assert batch.storageLevel.useMemory
    batch.unpersist()


def test_two_streams(spark, clicks, users, tmp_path):
    sides = users, clicks  # the side with more rows of hot keys is cut
    plan = JoinPlan.from_json(plan_join(*sides, "k", workers=N).to_json())
    streams = [streamed(df, tmp_path / str(number)) for number, df in enumerate(sides)]
    joined = join_streams(*streams, "k", plan=plan)
    assert "keyspread" in text_of(joined)
    assert written(joined, tmp_path) == Counter(map(tuple, sides[0].join(sides[1], "k").collect()))


def test_an_outer_join_preserves_the_side_that_is_cut(spark, clicks, users, tmp_path):
    on = "k = key AND u BETWEEN t - INTERVAL 100 SECONDS AND t + INTERVAL 100 SECONDS"
    renamed = users.withColumnRenamed("k", "key")
    pairs, condition = [("k", "key")], on.split("AND ", 1)[1]
    plan = plan_join(clicks, renamed, pairs, "left", condition=condition, workers=N)
    assert plan.hot[0].pieces[0] > 1
    left = streamed(clicks, tmp_path / "left").withWatermark("t", "1000 seconds")
    right = streamed(renamed, tmp_path / "right").withWatermark("u", "1000 seconds")
    joined = join_streams(left, right, pairs, "left", plan=plan, condition=condition)
    found = written(joined, tmp_path)
    plain = Counter(map(tuple, clicks.join(renamed, F.expr(on), "left").collect()))
    matched = Counter({row: many for row, many in plain.items() if row[3] is not None})
    # Rows without a partner come when the watermark has passed them, which the last ones never see.
    assert Counter({row: many for row, many in found.items() if row[3] is not None}) == matched
    assert all(many <= plain[row] for row, many in found.items())


def text_of(df):
    from keyspread.spark._routing.plan_text import physical_plan

    return physical_plan(df)


def test_bad_input(spark, clicks, users, tmp_path):
    stream = spark.readStream.schema(clicks.schema).parquet(str(tmp_path))
    plan = plan_join(clicks, users, "k", workers=N)
    with pytest.raises(InputError, match="how='full' would repeat the rows of the table that have no partner in every"):
        join_batches(users, "k", "full", then=print)
    with pytest.raises(InputError, match=r"right is a stream; use keyspread.spark.join_streams"):
        join_batches(stream, "k", then=print)
    for condition in ("nope > 1", "k >", "k + 1"):
        with pytest.raises(InputError, match="these sides cannot be joined: ") as caught:
            join_streams(stream, stream, "k", plan=plan, condition=condition)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="then must be a function"):
        join_batches(users, "k", then=None)
    with pytest.raises(InputError, match="how must be inner, left or right for two streams, got 'full'"):
        join_streams(stream, stream, "k", "full", plan=plan)
    with pytest.raises(InputError, match="the right side is not a stream"):
        join_streams(stream, users, "k", plan=plan)
    with pytest.raises(InputError, match="plan must be a JoinPlan made from history by plan_join, got None"):
        join_streams(stream, stream, "k", plan=None)
    with pytest.raises(InputError, match=r"the plan is for on \[\('k', 'k', 'bigint'\)\], got .*; plan this join"):
        join_streams(stream, stream, "v", plan=plan)
    other = plan_join(clicks, users, "k", workers=N + 1)
    with pytest.raises(InputError, match=r"the plan is for 5 workers, but spark.sql.shuffle.partitions is 4; set it"):
        join_streams(stream, stream, "k", plan=other)
