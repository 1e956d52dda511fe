"""Weights of rows on Spark: the same as in-process, and balanced."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import keyspread as ks
from frames import hashes, places, same_counts, sent
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.operators import Count
from keyspread.spark import Watch, aggregate, plan, spread
from keyspread.spark._engine.capabilities import to_arrow
from keyspread.spark._routing.options import Routing
from keyspread.spark.spread import with_worker
from keyspread.streams import zipf

pytestmark = pytest.mark.usefixtures("static")

WORKERS = 6


@pytest.fixture(scope="module")
def rows(spark):
    """Zipf 1.2 in 3 partitions, rows of 1 to 1,000 bytes; those of one rare key have 20,000 bytes each."""
    import pyarrow as pa

    random = np.random.default_rng(1)
    keys = zipf(1.2, 3000, 30_000, seed=3)
    size = random.integers(1, 1000, keys.size)
    size[keys == keys[17]] = 20_000
    table = pa.table({"id": np.arange(keys.size), "key": keys, "size": size.astype(np.int32)})
    return spark.createDataFrame(table).repartitionByRange(3, "id").sortWithinPartitions("id").cache()


def loads_by_weight(out):
    found = out.groupBy(F.spark_partition_id().alias("worker")).agg(F.sum("size").alias("load")).collect()
    loads = np.zeros(WORKERS, np.int64)
    for row in found:
        loads[row.worker] = row.load
    return loads


def busiest(loads):
    return loads.max() / loads.mean()


def test_a_plan_counts_weights_as_the_core_does(rows):
    keys = np.array([hash_ for _, _, hash_ in hashes(rows, "key")], np.int64)
    weights = np.array([row.size_ for row in rows.select(F.col("size").alias("size_")).collect()])
    expected = ks.plan(keys, WORKERS, weights=weights)
    made = plan(rows, "key", WORKERS, weight="size")
    same_counts(made, expected)


def test_load_is_even_by_weight(rows):
    """Four schemes as columns of one job."""
    routed, names = rows, {}
    for scheme in ("planned", "look-ahead", "per-key", "w-choices"):
        routed, names[scheme] = with_worker(routed, ["key"], Routing.of(WORKERS, scheme, scheme, weight="size"))
    found = to_arrow(routed.select("size", *names.values()))
    for scheme, name in names.items():
        loads = np.bincount(np.asarray(found[name]), np.asarray(found["size"]), minlength=WORKERS)
        assert busiest(loads) < 1.05, scheme


def test_a_sender_of_a_partition_weighs_as_a_sender_does(rows):
    """A partition is routed as a Sender with its number routes it."""
    options = {"seed": 3}
    sizes = dict(rows.select("id", "size").toPandas().itertuples(index=False))
    by_partition = {}
    for partition, number, _ in hashes(rows, "key"):
        by_partition.setdefault(partition, []).append(sizes[number])

    def route(partition, own):
        sender = ks.Sender("d-choices", WORKERS, source=partition, **options)
        return sender.route(own, np.array(by_partition[partition]))

    out = spread(rows, "key", WORKERS, "d-choices", weight="size", sender=Settings(**options))
    assert places(out) == sent(hashes(rows, "key"), route)


def test_a_weight_may_be_an_expression_and_null_weighs_nothing(rows):
    half = F.when(F.col("id") % 2 == 0, F.col("size"))
    made = plan(rows, "key", WORKERS, weight=half)
    assert made.loads.sum() == rows.where("id % 2 = 0").agg(F.sum("size")).first()[0]


def test_an_aggregate_in_balance_by_weight(rows):
    watch = Watch()
    found = aggregate(rows, "key", Count(), WORKERS, "planned", weight="size", watch=watch)
    assert sorted(found.collect()) == sorted(rows.groupBy("key").count().collect())
    assert watch.balance.loads.max() / watch.balance.loads.mean() > 1.1  # rows are uneven where their weights are even


# Streams


def test_a_stream_looks_ahead_by_weight(rows, spark, tmp_path):
    rows.select("key", "size").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("key bigint, size int").parquet(str(tmp_path / "in"))
    out = spread(stream, "key", WORKERS, weight="size")
    found = []
    query = out.writeStream.foreachBatch(lambda batch, _: found.append(loads_by_weight(batch)))
    query.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start().awaitTermination()
    assert sum(loads.sum() for loads in found) == rows.agg(F.sum("size")).first()[0]
    assert busiest(sum(found)) < 1.05


# Wrong ones


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "nope"}, "there is no column 'nope'; the columns are id, key, size"),
        ({"weight": 7}, "weight must be the name of a column, or a column, got 7"),
        ({"weight": "size / 2"}, "weight has type double, a weight is a whole number: use bytes"),
        ({"weight": "-size"}, "a weight must not be negative, got -20000; drop such rows, or set their weight to 0"),
    ],
)
def test_wrong_weights(rows, options, message):
    if options.get("weight") in ("size / 2", "-size"):
        options = {"weight": F.expr(options["weight"])}
    with pytest.raises(InputError) as caught:
        spread(rows, "key", WORKERS, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("keys", [range(6), [0] * 6], ids=["many keys", "one key"])
def test_a_total_beyond_64_bits_is_refused(spark, keys):
    heavy = spark.createDataFrame([(key, 2**62) for key in keys], "key long, size long")
    with pytest.raises(InputError, match="the total of all weights must be at most"):
        plan(heavy, "key", 2, weight="size")
