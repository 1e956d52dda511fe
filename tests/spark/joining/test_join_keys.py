"""Keys of nested and of other types: different keys are told apart as Spark tells them apart, or are left to Spark."""

import random
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F
from pyspark.sql import types as T

from frames import setting
from keyspread.spark import Watch, join
from keyspread.spark._joining.counting import fingerprint
from keyspread.spark._joining.keys import join_keys

LEAVES = {
    T.IntegerType(): [0, 1],
    T.BooleanType(): [False, True],
    T.StringType(): ["", "null", '{"x":1}'],
    T.BinaryType(): [b"", b"\x00"],
}


@pytest.fixture(autouse=True)
def shuffled(spark, static):
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        yield


def random_type(rng, depth):
    """Return a nested type; the fields of a struct may have one name."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*LEAVES])
    if rng.random() < 0.4:
        return T.ArrayType(random_type(rng, depth - 1))
    fields = [T.StructField(rng.choice(["x", "x", "y"]), random_type(rng, depth - 1)) for _ in range(rng.randint(1, 3))]
    return T.StructType(fields)


def random_value(rng, kind):
    if rng.random() < 0.4:
        return None
    if isinstance(kind, T.ArrayType):
        return [random_value(rng, kind.elementType) for _ in range(rng.randint(0, 3))]
    if isinstance(kind, T.StructType):
        return tuple(random_value(rng, field.dataType) for field in kind.fields)
    return rng.choice(LEAVES[kind])


@pytest.mark.parametrize("null_safe", [False, True])
def test_unequal_keys_have_different_fingerprints(spark, null_safe):
    """30 random types in one job, with nulls at every level."""
    rng = random.Random(f"fingerprints {null_safe}")
    kinds = [T.StructType([T.StructField("x", T.IntegerType())] * 2), *(random_type(rng, 3) for _ in range(30))]
    rows = [[random_value(rng, kind) for kind in kinds] for _ in range(300)]
    df = spark.createDataFrame(rows, T.StructType([T.StructField(f"k{n}", kind) for n, kind in enumerate(kinds)]))
    keys = [join_keys(df, df, name, null_safe) for name in df.columns]
    assert {one.whole_because for one in keys} == {None}
    found = df.selectExpr(*(fingerprint(one, "left") for one in keys)).collect()
    for kind, values, prints in zip(kinds, zip(*rows, strict=True), zip(*found, strict=True), strict=True):
        pairs = {(repr(value), one) for value, one in zip(values, prints, strict=True)}
        assert len({value for value, _ in pairs}) == len({one for _, one in pairs}) == len(pairs), kind


@pytest.mark.connect
@pytest.mark.parametrize("how", ["right", "full"])
def test_fields_of_one_name_lose_no_rows(spark, how):
    one, other = "named_struct('x', 1, 'x', int(null))", "named_struct('x', int(null), 'x', 1)"
    left = spark.range(0, 300, 1, 3).selectExpr(f"IF(id = 999, {other}, {one}) AS k", "id AS v")
    right = spark.range(0, 10, 1, 2).selectExpr(f"IF(id < 6, {other}, {one}) AS k", "id AS w")
    ours, plain = join(left, right, "k", how, workers=4), left.join(right, "k", how)
    assert Counter(ours.select("v", "w").collect()) == Counter(plain.select("v", "w").collect())


@pytest.mark.parametrize("how", ["right", "full"])
def test_keys_with_one_fingerprint_lose_no_rows(spark, how, monkeypatch):
    """No hash is without collisions, so a plan must be exact for any hash; here all keys have the same one."""
    for module in ("counting", "sides"):
        monkeypatch.setattr(f"keyspread.spark._joining.{module}.fingerprint", lambda keys, side: "7L")
    left = spark.range(0, 300, 1, 3).selectExpr("id % 2 AS k", "id AS v")
    right = spark.range(0, 100, 1, 2).selectExpr("IF(id < 60, 5L, id % 2) AS k", "id AS w")
    watch = Watch()
    ours = join(left, right, "k", how, watch=watch)
    assert watch.way.name == "planned"
    assert Counter(ours.collect()) == Counter(left.join(right, "k", how).collect())


def test_a_user_defined_type_is_left_to_spark(spark):
    linalg = pytest.importorskip("pyspark.ml.linalg")
    left = spark.createDataFrame([(linalg.Vectors.dense(n % 3, 1.0), n) for n in range(30)], ["k", "v"])
    right = left.withColumnRenamed("v", "w").where("w < 4")
    watch = Watch()
    ours = join(left, right, "k", "left", watch=watch)
    assert "'k' has type vector, which only Spark knows how to compare" in watch.way.reason
    assert Counter(map(str, ours.collect())) == Counter(map(str, left.join(right, "k", "left").collect()))
    nested, other = (df.select(F.array("k").alias("k"), df.columns[1]) for df in (left, right))
    assert join(nested, other, "k").count() == nested.join(other, "k").count()
