"""Weights of rows and capacities of workers on Spark: the same as in-process, and balanced."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import keyspread as ks
from frames import hashes, places, same_counts, sent
from keyspread.errors import InputError
from keyspread.spark import aggregate, plan, spread
from keyspread.streams import zipf

pytestmark = pytest.mark.usefixtures("static")

CAPACITIES = [4.0, 4.0, 1.0, 1.0, 1.0, 1.0]
WORKERS = len(CAPACITIES)


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


def busiest(loads, capacities):
    return (loads / np.array(capacities)).max() / (loads.sum() / np.sum(capacities))


def test_a_plan_counts_weights_as_the_core_does(rows):
    keys = np.array([hash_ for _, _, hash_ in hashes(rows, "key")], np.int64)
    weights = np.array([row.size_ for row in rows.select(F.col("size").alias("size_")).collect()])
    expected = ks.plan(keys, WORKERS, weights=weights, capacities=CAPACITIES)
    made = plan(rows, "key", WORKERS, weight="size", capacities=CAPACITIES)
    same_counts(made, expected)
    assert made.capacities == expected.capacities


@pytest.mark.parametrize("scheme", ["planned", "look-ahead", "per-key", "w-choices"])
@pytest.mark.parametrize("capacities", [None, CAPACITIES])
def test_load_is_even_by_weight_and_capacity(rows, scheme, capacities):
    out = spread(rows, "key", WORKERS, scheme, weight="size", capacities=capacities).cache()
    assert out.select("id", "key", "size").exceptAll(rows).count() == 0
    assert out.columns == rows.columns
    loads = loads_by_weight(out)
    assert loads.sum() == rows.agg(F.sum("size")).first()[0]
    assert busiest(loads, capacities or [1] * WORKERS) < 1.05
    out.unpersist()


def test_without_weights_the_rows_are_even_and_the_bytes_are_not(rows):
    assert busiest(loads_by_weight(spread(rows, "key", WORKERS)), [1] * WORKERS) > 1.1


def test_a_sender_of_a_partition_weighs_as_a_sender_does(rows):
    """A partition is routed as a Sender with its number routes it."""
    options = {"seed": 3, "capacities": CAPACITIES}
    sizes = dict(rows.select("id", "size").toPandas().itertuples(index=False))
    by_partition = {}
    for partition, number, _ in hashes(rows, "key"):
        by_partition.setdefault(partition, []).append(sizes[number])

    def route(partition, own):
        sender = ks.Sender("d-choices", WORKERS, source=partition, **options)
        return sender.route(own, np.array(by_partition[partition]))

    out = spread(rows, "key", WORKERS, "d-choices", weight="size", **options)
    assert places(out) == sent(hashes(rows, "key"), route)


def test_a_weight_may_be_an_expression_and_null_weighs_nothing(rows):
    half = F.when(F.col("id") % 2 == 0, F.col("size"))
    made = plan(rows, "key", WORKERS, weight=half)
    assert made.loads.sum() == rows.where("id % 2 = 0").agg(F.sum("size")).first()[0]


def test_an_aggregate_in_balance_by_weight(rows):
    wanted = {"n": "count(*)", "bytes": "sum(size)"}
    found = aggregate(rows, "key", wanted, WORKERS, "planned", weight="size", capacities=CAPACITIES)
    plain = rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("size").alias("bytes"))
    assert sorted(found.collect()) == sorted(plain.collect())


# Streams


def test_a_stream_looks_ahead_by_weight(rows, spark, tmp_path):
    rows.select("key", "size").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("key bigint, size int").parquet(str(tmp_path / "in"))
    out = spread(stream, "key", WORKERS, weight="size", capacities=CAPACITIES)
    found = []
    query = out.writeStream.foreachBatch(lambda batch, _: found.append(loads_by_weight(batch)))
    query.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start().awaitTermination()
    assert sum(loads.sum() for loads in found) == rows.agg(F.sum("size")).first()[0]
    assert busiest(sum(found), CAPACITIES) < 1.05


# Wrong ones


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "nope"}, "there is no column 'nope'; the columns are id, key, size"),
        ({"weight": 7}, "weight must be the name of a column, or a column, got 7"),
        ({"weight": "size / 2"}, "weight has type double, a weight is a whole number: use bytes"),
        ({"weight": "-size"}, "a weight must not be negative, got -20000; drop such rows, or set their weight to 0"),
        ({"capacities": [1, 2]}, "capacities must be one number per worker, got 2 for 6 workers"),
        ({"most_moved": "x"}, "most_moved must be a number, got 'x'"),
    ],
)
def test_wrong_weights(rows, options, message):
    if options.get("weight") in ("size / 2", "-size"):
        options = {"weight": F.expr(options["weight"])}
    with pytest.raises(InputError) as caught:
        spread(rows, "key", WORKERS, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("scheme", ["look-ahead", "per-key"])
def test_wrong_capacities_of_schemes_in_python(rows, scheme):
    with pytest.raises(InputError, match="capacities must be one number per worker, got 2 for 6 workers"):
        spread(rows, "key", WORKERS, scheme, capacities=[1, 2])


@pytest.mark.parametrize("keys", [range(6), [0] * 6], ids=["many keys", "one key"])
def test_a_total_beyond_64_bits_is_refused(spark, keys):
    heavy = spark.createDataFrame([(key, 2**62) for key in keys], "key long, size long")
    with pytest.raises(InputError, match="the total of all weights must be at most"):
        plan(heavy, "key", 2, weight="size")
