"""What works on this version of Spark, on classic Spark and over Connect; `./dev matrix` runs it on every version.

The first line of each docstring is a row of the table in docs/versions.md. Every test compares with plain Spark or
with the routing in this process, so that "yes" means the same result as on every other version.
"""

import datetime
import json
import os
import sys
from collections import Counter
from functools import reduce

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.sql import functions as F

import keyspread as ks
from frames import ONLINE, hashes, places, sent_by, sent_online, setting, skewed
from keyspread.errors import InputError, KeyspreadError
from keyspread.operators import Count, Operator
from keyspread.planned import look_ahead
from keyspread.spark import (
    StreamWatch,
    Totals,
    Watch,
    aggregate,
    balance,
    for_write,
    join,
    join_batches,
    join_streams,
    plan,
    plan_join,
    spread,
    stream_settings,
)
from keyspread.spark._engine.capabilities import can_observe, has_function, has_python_state

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORKERS = 4
SCHEMES = ["look-ahead", *ONLINE]
CONNECT = "KEYSPREAD_TEST_REMOTE" in os.environ
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
pytestmark = [pytest.mark.spark, pytest.mark.connect]


class Reach(Operator):
    """Count and largest value."""

    schema = "n bigint, most bigint"
    state = "n bigint, most bigint"

    def zero(self):
        return {"n": 0, "most": -1}

    def update(self, state, rows):
        return {"n": state["n"] + len(rows), "most": max(state["most"], int(rows["value"].max()))}

    def merge(self, state, other):
        return {"n": state["n"] + other["n"], "most": max(state["most"], other["most"])}

    def finish(self, state):
        return state


REACH = {"n": "count(*)", "most": "max(value)"}
KNOWN = [row for row in range(2000) if row % 97]  # the others have no key
HOTTEST = (("hot", sum(row % 10 < 4 for row in KNOWN)), ("warm", sum(4 <= row % 10 < 6 for row in KNOWN)))
COUNTS = [rows for _, rows in HOTTEST]


@pytest.fixture
def rows(spark):
    return skewed(spark, 2000, 2)


@pytest.fixture
def stream(spark, rows, tmp_path):
    """Return a stream of two batches with the rows, a time column included, in files."""
    folder = str(tmp_path / "rows")
    timed = rows.withColumn("time", F.lit(BEGIN) + F.expr("make_dt_interval(0, 0, 0, id)"))
    for part in range(2):
        timed.where(f"id div 1000 = {part}").coalesce(1).write.mode("append").parquet(folder)
    return spark.readStream.schema(timed.schema).option("maxFilesPerTrigger", 1).parquet(folder)


def written(out, tmp_path, mode="append", name="out"):
    """Run a stream to its end and return the rows that it wrote, with the number of their batch."""
    folder = str(tmp_path / name)

    def keep(batch, number):
        batch.withColumn("batch", F.lit(number)).write.mode("append").parquet(folder)

    writer = out.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
    query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return out.sparkSession.read.parquet(folder)


def bag(df):
    return Counter(tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row) for row in df.collect())


def test_plan(rows):
    """`plan`, counted exactly."""
    found = plan(rows, "key", WORKERS)
    assert found.loads.sum() == 2000
    assert found.loads.max() - found.loads.min() <= 20
    assert [key.messages for key in found.head][:2] == COUNTS


def test_plan_by_sample(rows):
    """`plan` from a sample."""
    found = plan(rows, "key", WORKERS, sample=0.5)
    assert {key.hash for key in found.head} >= set(ks.hash_keys(["hot", "warm"]).tolist())


def test_spread_planned(rows):
    """`spread` of a batch: `planned`."""
    found = plan(rows, "key", WORKERS)
    assert places(spread(rows, "key", WORKERS, plan=found)) == sent_by(found, hashes(rows, "key"))


def test_spread_online(rows):
    """`spread` of a batch: `look-ahead` and every online scheme."""
    expected = hashes(rows, "key")
    found = union_of_schemes(rows).collect()
    assert len(found) == 2000 * len(SCHEMES)
    for number, scheme in enumerate(SCHEMES):
        own = {row.id: row.place - number * WORKERS for row in found if row.scheme == number}
        assert own == routed(expected, scheme)


def sender_of(scheme):
    return ks.Settings(**ONLINE[scheme]) if scheme in ONLINE else None


def union_of_schemes(df):
    """Spread the rows by every scheme, in one job: those of the third scheme are in partitions 8 to 11."""
    spreads = [spread(df, "key", WORKERS, scheme, sender=sender_of(scheme)).select("id") for scheme in SCHEMES]
    marked = [one.withColumn("scheme", F.lit(number)) for number, one in enumerate(spreads)]
    return reduce(lambda one, other: one.union(other), marked).withColumn("place", F.spark_partition_id())


def routed(rows, scheme):
    if scheme == "look-ahead":
        from frames import sent

        return sent(rows, lambda partition, own: look_ahead.route(own, WORKERS, source=partition))
    return sent_online(rows, scheme, WORKERS, **ONLINE[scheme])


def test_spread_with_weights(rows):
    """`spread` with `weight=`."""
    for scheme in ("planned", "look-ahead", "d-choices"):
        out = spread(rows, "key", WORKERS, scheme, weight="value")
        loads = dict(out.groupBy(F.spark_partition_id().alias("w")).agg(F.sum("value")).collect())
        total = sum(loads.values())
        assert total == sum(row.value for row in rows.collect())
        assert max(abs(load / total - 1 / WORKERS) for load in loads.values()) < 0.05


def test_rows_behind_a_shuffle(rows):
    """`spread` behind a shuffle: the order of rows is protected, or not used."""
    shuffled = rows.repartition(3, "id")
    for scheme in ("planned", "look-ahead", "d-choices"):
        found = balance(spread(shuffled, "key", WORKERS, scheme), WORKERS)
        assert found.rows == 2000
        assert found.imbalance < 0.02


def test_spread_stream(spark, stream, tmp_path):
    """`spread` of a stream: `look-ahead` and every online scheme."""
    found = written(union_of_schemes(stream), tmp_path).collect()
    batches = [hashes(skewed_of(spark.range(begin, begin + 1000, 1, 1)), "key") for begin in (0, 1000)]
    for number, scheme in enumerate(SCHEMES):
        own = [row for row in found if row.scheme == number]
        assert sorted(row.id for row in own) == list(range(2000))
        for batch in range(2):
            places = {row.id: row.place - number * WORKERS for row in own if row.batch == batch}
            assert places == routed(batches[next(iter(places)) // 1000], scheme)


def skewed_of(ids):
    from frames import HOT

    return ids.selectExpr("id", f"{HOT} AS key")


@pytest.fixture
def others(spark):
    """Return the other side of a join: some partners of each hot key, and rows without one."""
    made = spark.range(0, 120, 1, 2)
    return made.selectExpr(
        "CASE WHEN id % 10 = 0 THEN 'hot' WHEN id % 97 = 1 THEN NULL ELSE concat('k', id) END AS key", "id AS w"
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_join(spark, rows, others, how):
    """`join` of batches, all types."""
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        found = plan_join(rows, others, "key", how, workers=WORKERS)
        assert found.plain_because is None
        assert max(key.pieces for key in found.hot) > (1, 1)
        ours, plain = join(rows, others, "key", how, workers=WORKERS, plan=found), rows.join(others, "key", how)
        assert ours.schema == plain.schema
        assert bag(ours) == bag(plain)
        if how == "inner":
            loads = [row["count"] for row in ours.groupBy(F.spark_partition_id()).count().collect()]
            assert max(loads) <= 1.15 * sum(loads) / WORKERS


def test_join_behind_a_shuffle(spark, rows, others):
    """`join` behind a shuffle, with a condition and null-safe keys."""
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        shuffled = rows.repartition(3, "id")
        ours = join(shuffled, others, "key", "left", workers=WORKERS, condition="value > w", null_safe=True)
        renamed = others.withColumnRenamed("key", "other")
        plain = rows.join(renamed, F.expr("key <=> other AND value > w"), "left").select("key", "id", "value", "w")
        assert bag(ours) == bag(plain)


def test_join_of_streams(spark, stream, rows, others, tmp_path):
    """`join_batches` and `join_streams`."""
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        history = plan_join(rows, others, "key", workers=int(spark.conf.get("spark.sql.shuffle.partitions")))
        others.write.parquet(str(tmp_path / "others"))
        second = spark.readStream.schema(others.schema).parquet(str(tmp_path / "others"))
        plain = bag(rows.join(others, "key").select("key", "id", "w"))
        joined = join_streams(stream.drop("time"), second, "key", plan=history)
        assert bag(written(joined, tmp_path).select("key", "id", "w")) == plain
        folder = str(tmp_path / "batches")
        path = str(tmp_path / "others")
        if CONNECT:
            with pytest.raises(InputError, match="a batch runs in a session of its own: pass right as"):
                join_batches(others, "key", then=print)
        table = (lambda spark: spark.read.parquet(path)) if CONNECT else others
        work = join_batches(table, "key", then=lambda found, number: found.write.mode("append").parquet(folder))
        writer = stream.drop("time").writeStream.foreachBatch(work).trigger(availableNow=True)
        assert writer.option("checkpointLocation", f"{folder}-checkpoint").start().awaitTermination(300)
        assert bag(spark.read.parquet(folder).select("key", "id", "w")) == plain


def test_for_write(rows, tmp_path):
    """`for_write`: few files, even writers."""
    out = for_write(rows, "key", 4_000, file_cost=50)
    found = out.groupBy(F.spark_partition_id().alias("writer"), "key").count().collect()
    loads = Counter()
    for row in found:
        loads[row.writer] += row["count"]
    assert sum(loads.values()) == 2000
    assert max(loads.values()) <= 1.2 * 2000 / len(loads)
    assert max(row["count"] for row in found) <= 1.1 * 4_000 / 16
    out.write.partitionBy("key").parquet(str(tmp_path / "out"))
    assert bag(out) == bag(rows)


def test_aggregate_count(rows):
    """`aggregate` with a ColumnOperator: `Count`."""
    assert bag(aggregate(rows, F.lower("key"), Count(), WORKERS, "d-choices")) == bag(
        rows.groupBy(F.lower("key")).count()
    )


def test_aggregate_operator(rows):
    """`aggregate` with an Operator."""
    plain = rows.groupBy("key").agg(*(F.expr(call).alias(name) for name, call in REACH.items()))
    assert bag(aggregate(rows, "key", Reach(), WORKERS)) == bag(plain)


def latest(df):
    """Return the last row of every key, without the number of its batch."""
    found = {}
    for row in sorted(df.collect(), key=lambda row: row.batch):
        found[row.key] = tuple(row)[:-1]
    return Counter(found.values())


@pytest.mark.parametrize("windowed", [False, True], ids=["totals", "windows"])
def test_stream_aggregate_operator(spark, rows, stream, tmp_path, windowed, instead):
    """`aggregate` of a stream with an Operator (state in Python), running totals and windows."""
    if not has_python_state(stream):
        with pytest.raises(InputError, match=r"transformWithState.*Totals"):
            aggregate(stream, "key", Reach(), WORKERS)
        instead("refused: use `Totals`")
        return
    (_, provider) = list(stream_settings(WORKERS).items())[1]
    with setting(spark, "spark.sql.streaming.stateStore.providerClass", provider):
        if not windowed:
            last = latest(written(aggregate(stream, "key", Reach(), WORKERS), tmp_path, "update"))
            assert last == bag(rows.groupBy("key").agg(*(F.expr(c).alias(n) for n, c in REACH.items())))
            return
        late = stream.withWatermark("time", "0 seconds")
        found = written(aggregate(late, "key", Reach(), WORKERS, window="5 minutes"), tmp_path).drop("batch")
        timed = spark.read.parquet(str(tmp_path / "rows"))
        plain = timed.groupBy(F.window("time", "5 minutes"), "key").agg(*(F.expr(c).alias(n) for n, c in REACH.items()))
        over = plain.where(F.col("window.end") <= F.lit(BEGIN + datetime.timedelta(seconds=1999)))
        assert bag(found) == bag(over)
        assert sum(bag(found).values()) > 100


def test_totals(spark, rows, stream, tmp_path):
    """`Totals` in `foreachBatch`, with an Operator."""
    totals = Totals(tmp_path / "totals", "key", Reach(), WORKERS)
    writer = stream.writeStream.foreachBatch(totals).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    plain = rows.groupBy("key").agg(*(F.expr(call).alias(name) for name, call in REACH.items()))
    assert bag(totals.read(spark)) == bag(plain)


def refuses(call, message, instead):
    """Check that something is refused with a message, and say so in the table."""
    with pytest.raises(InputError, match=message):
        call()
    instead("refused")


def test_watch(rows, instead):
    """`Watch`: the load of every worker."""
    watch = Watch()
    if not can_observe(rows):
        refuses(
            lambda: spread(rows, "key", WORKERS, watch=watch), "a Watch over Spark Connect needs Spark 4.0", instead
        )
        return
    counted_as_placed(rows, "key", WORKERS, "d-choices")
    # parts of odd sizes, of which a histogram of many workers is merged
    counted_as_placed(rows.repartition(7, "id"), "id", 31, "key")


def counted_as_placed(rows, key, workers, scheme):
    """Check the loads of a watch. Two threads of Spark may damage them, which the watch must say; then run again."""
    for _ in range(3):
        watch = Watch()
        loads = Counter(places(spread(rows, key, workers, scheme, watch=watch)).values())
        try:
            counted = watch.balance.loads.tolist()
        except KeyspreadError as problem:
            if "returned the counts of this watch damaged" not in str(problem):
                raise
        else:
            assert counted == [loads[worker] for worker in range(workers)]
            return
    raise AssertionError("the counts were damaged three times in a row")


def test_watch_hottest(spark, rows, instead):
    """`Watch`: the hottest keys."""
    watch = Watch(hottest=2)
    if not can_observe(rows):
        refuses(
            lambda: spread(rows, "key", WORKERS, watch=watch), "a Watch over Spark Connect needs Spark 4.0", instead
        )
        return
    spread(rows, "key", WORKERS, watch=watch).write.format("noop").mode("overwrite").save()
    if has_function(spark, "approx_top_k"):
        assert watch.balance.hottest == HOTTEST
    else:
        assert watch.balance.hottest == ()
        instead("none; `balance(…, key=)` counts them")


def test_balance(rows):
    """`balance`: loads and hottest keys."""
    found = balance(spread(rows, "key", WORKERS), WORKERS, key="key", hottest=2)
    assert found.hottest == HOTTEST
    assert found.rows == 2000


def test_stream_watch(stream, tmp_path, instead):
    """`StreamWatch`: the load of every worker in every batch."""
    watch = StreamWatch(hottest=1)
    if not can_observe(stream):
        refuses(lambda: spread(stream, "key", WORKERS, watch=watch), "StreamWatch over Spark Connect needs", instead)
        return
    out = spread(stream, "key", WORKERS, watch=watch)
    writer = out.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert watch.wait(query)
    watch.close()
    assert [seen.rows for seen in watch.batches] == [1000, 1000]
    assert all(seen.imbalance < 0.01 for seen in watch.batches)
    assert sum(rows for seen in watch.batches for _, rows in seen.hottest) in (0, COUNTS[0])


@pytest.mark.skipif(CONNECT, reason="the command starts a session of its own")
@pytest.mark.parametrize("arguments", [[], ["--scheme", "d-choices"]], ids=["planned", "d-choices"])
def test_run(spark, capsys, arguments):
    """`keyspread run` of a bounded source."""
    from keyspread.cli import main

    small = ["run", "--messages", "5e3", "--keys", "200", "--workers", "4", "--json"]
    assert main([*small, *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 5000


@pytest.mark.skipif(CONNECT, reason="the command starts a session of its own")
def test_run_streaming(spark, capsys, tmp_path):
    """`keyspread run` of a stream."""
    from keyspread.cli import main

    arguments = [
        "run",
        "--streaming",
        "--keys",
        "200",
        "--option",
        "rate=500",
        "--batches",
        "2",
        "--workers",
        "4",
        "--json",
    ]
    assert main([*arguments, "--checkpoint", str(tmp_path / "checkpoint")]) == 0
    assert "imbalance" in capsys.readouterr().out


def test_the_hash_of_keys(spark):
    """Keys are hashed as by `keyspread.hash_keys`."""
    df = spark.createDataFrame([("a",), ("ü",), (None,)], "k string")
    found = [row[0] for row in df.select(F.xxhash64("k")).collect()]
    assert found == ks.hash_keys(["a", "ü", None]).tolist()
