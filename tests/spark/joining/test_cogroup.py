"""`cogroup` by pieces gives what Spark's own cogroup gives, for functions that handle each left row by itself."""

import sys
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from keyspread.errors import InputError
from keyspread.spark import cogroup

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SCHEMA = "k long, v long, n long, size long"


def counted(left, right):
    """Each left row with the number of its partners; `size` tells how many left rows came together."""
    return left.assign(n=len(right), size=len(left))


def keyed(key, left, right):
    return left.assign(n=len(right), size=-1 if key[0] is None else key[0])


def sides(spark):
    left = spark.range(0, 2000, 1, 3).selectExpr(
        "CASE WHEN id % 2 = 0 THEN -1 WHEN id % 7 = 0 THEN NULL ELSE id % 50 END AS k", "id AS v"
    )
    right = spark.range(0, 90, 1, 2).selectExpr(
        "CASE WHEN id % 5 = 0 THEN -1 WHEN id % 7 = 0 THEN NULL ELSE id END AS k", "id AS w"
    )
    return left, right


def bag(df, *columns):
    return Counter(map(tuple, df.select(*columns).collect()))


def test_pieces_give_the_plain_answer(spark, static):
    left, right = sides(spark)
    plain = left.groupBy("k").cogroup(right.groupBy("k"))
    found = cogroup(left, right, "k", counted, SCHEMA, per_left=True, workers=4).cache()
    assert bag(found, "k", "v", "n") == bag(plain.applyInPandas(counted, SCHEMA), "k", "v", "n")
    assert max(row.size for row in found.where("k = -1").collect()) < 1000  # it came in pieces
    of_key = cogroup(left, right, "k", keyed, SCHEMA, per_left=True, workers=4)
    assert bag(of_key, *["k", "v", "n", "size"]) == bag(plain.applyInPandas(keyed, SCHEMA), *["k", "v", "n", "size"])


def test_bad_input(spark):
    left, right = sides(spark)
    with pytest.raises(
        InputError, match="per_left must be True, got False: only a function that handles each left row"
    ):
        cogroup(left, right, "k", counted, SCHEMA, per_left=False)
    with pytest.raises(InputError, match=r"on must be a name or names, got .*; rename the keys of one side"):
        cogroup(left, right, [("k", "k")], counted, SCHEMA, per_left=True)
    given = {"left": left, "right": right, "on": "k", "function": counted, "schema": SCHEMA, "per_left": True}
    for options, match in (
        ({"left": 3}, "left must be a DataFrame, got 3"),
        ({"function": "f"}, "function must be a Python function of the left and the right rows, .*, got 'f'"),
        ({"function": lambda rows: rows}, "function must be a Python function of the left and the right rows"),
        ({"schema": ""}, "schema must be a StructType or text such as 'key string, n long', got ''"),
        ({"schema": "k nope"}, "schema 'k nope' cannot be read: "),
        ({"left": left.withColumn("a.b", left.v)}, "column 'a.b' of the left side has a dot or a backtick in its name"),
        ({"on": "x"}, "left side: there is no column 'x'; the columns are k, v"),
        ({"output_cost": "x"}, "output_cost must be a number, got 'x'"),
    ):
        with pytest.raises(InputError, match=match) as caught:
            cogroup(**{**given, **options})
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="the left side is a stream; use cogroup within foreachBatch"):
        cogroup(spark.readStream.format("rate").load(), right, "k", counted, SCHEMA, per_left=True)


def test_keys_of_two_types_are_refused_and_keyword_arguments_are_no_key(spark, static):
    left, right = sides(spark)

    def with_option(one, other, *, option=1):
        return counted(one, other)

    found = cogroup(left, right, "k", with_option, SCHEMA, workers=4, per_left=True)
    assert found.count() == left.count()
    with pytest.raises(InputError, match=r"'k' has type bigint on the left side and int on the .*; cast one of them"):
        cogroup(left, right.withColumn("k", right.k.cast("int")), "k", counted, "k bigint", workers=4, per_left=True)
