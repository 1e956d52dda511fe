"""Operators: the result equals plain Python over all rows of a key, however the rows were split and routed."""

import datetime
import math
import re
import sys

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F

from frames import setting, skewed
from keyspread import Operator
from keyspread.errors import InputError
from keyspread.folding.states import groups_of
from keyspread.folding.types import as_stored
from keyspread.spark import aggregate
from keyspread.spark._folding.operator_parts import OperatorError, OperatorParts, check_key_types
from keyspread.spark._routing.keys import equal_as_spark_sees

pytestmark = pytest.mark.usefixtures("static")

# As for classes in a user's script: the workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Total(Operator):
    """Count, sum and the ids, from pandas batches."""

    schema = "n bigint, total bigint, ids array<bigint>"

    def zero(self):
        return (0, 0, [])

    def update(self, state, rows):
        assert len(rows) > 0
        assert rows["key"].nunique(dropna=False) == 1
        assert list(rows.index) == list(range(len(rows)))
        n, total, ids = state
        return n + len(rows), total + int(rows["value"].sum()), ids + rows["id"].tolist()

    def merge(self, state, other):
        return tuple(a + b for a, b in zip(state, other, strict=True))

    def finish(self, state):
        n, total, ids = state
        return {"ids": sorted(ids), "n": n, "total": total}


class ArrowTotal(Total):
    """The same, from Arrow batches."""

    batches = "arrow"

    def update(self, state, rows):
        import pyarrow.compute as pc

        assert isinstance(rows, pa.Table)
        assert rows.num_rows > 0
        n, total, ids = state
        return n + rows.num_rows, total + pc.sum(rows["value"]).as_py(), ids + rows["id"].to_pylist()


class Count(Operator):
    """A count of rows: the smallest operator."""

    schema = "n bigint"
    batches = "arrow"

    def zero(self):
        return 0

    def update(self, state, rows):
        return state + rows.num_rows

    def merge(self, state, other):
        return state + other

    def finish(self, state):
        return {"n": state}


@pytest.fixture(scope="module")
def rows(spark):
    df = skewed(spark, 1500).cache()
    df.count()
    return df


def totals(df, *keys):
    plain = df.groupBy(*(keys or ["key"])).agg(
        F.count("*").alias("n"), F.sum("value").alias("total"), F.sort_array(F.collect_list("id")).alias("ids")
    )
    return sorted(map(repr, plain.collect()))


def collected(df):
    return sorted(map(repr, df.collect()))


@pytest.mark.parametrize(("operator", "scheme"), [(Total, "planned"), (ArrowTotal, "d-choices"), (Total, "key")])
def test_equal_to_plain(rows, operator, scheme):
    found = aggregate(rows, "key", operator(), 4, scheme)
    assert found.schema.simpleString() == "struct<key:string,n:bigint,total:bigint,ids:array<bigint>>"
    assert collected(found) == totals(rows)


@pytest.mark.connect
def test_keys_that_span_many_small_batches(spark, rows):
    """States live across batches; in most batches every key has a state already."""
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 5):
        found = collected(aggregate(rows, "key", Total(), 3, "shuffle"))
    assert found == totals(rows)


KEY_TYPES = [
    "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN 0.0D WHEN 3 THEN -0.0D ELSE 1.5D END",
    "CASE id % 4 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') WHEN 2 THEN float('0.0') END",
    "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN array() WHEN 2 THEN array(double('NaN')) ELSE array(NULL, 2D) END",
    "named_struct('x', CASE id % 4 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D END)",
    "if(id % 3 = 0, NULL, named_struct('x', id % 2, 'y', array(named_struct('z', if(id % 2 = 0, NULL, 'a')))))",
    "if(id % 2 = 0, NULL, named_struct('at', timestamp_micros(id % 3), 'to', make_dt_interval(0, 0, int(id % 3))))",
    "if(id % 3 = 0, NULL, unhex(hex(id % 4)))",
    "cast(id % 4 AS decimal(10,2)) - 1.5",
    "cast(id % 4 - 2 AS decimal(38,0)) * 10000000000000000000000000000",
    "date_add(date'2024-01-01', int(id % 3))",
    "date'0001-01-01' - make_interval(id % 3)",
    "timestamp_micros(id % 3 - 1)",
    "timestamp'+12345-01-01 00:00:00Z' + make_dt_interval(0, 0, int(id % 3))",  # Python's years end with 9999
    "array(timestamp'+12345-01-01 00:00:00Z' + make_dt_interval(0, 0, int(id % 3)))",
    "cast(timestamp_micros(id % 3) AS timestamp_ntz)",
    "id % 3 = 0",
    "cast(id % 3 AS tinyint)",
    "cast(id % 3 AS smallint)",
    "cast(id % 3 - 1 AS float) / 3",
    "make_dt_interval(0, 0, int(id % 3))",
    "cast(concat('a', id % 3) AS char(5))",
    "concat(cast(id % 2 AS string), if(id % 3 = 0, ' ', ''), if(id % 5 = 0, 'ä', 'a\u0308'))",
    "NULL",
]


def test_keys_of_any_type_are_grouped_as_spark_groups_them(spark):
    """As in Spark, null equals null, NaN equals NaN and -0.0 equals 0.0. All types in one query, to be quick."""
    keys = spark.range(0, 60, 1, 2).selectExpr("id", *(f"{sql} AS k{i}" for i, sql in enumerate(KEY_TYPES)))
    # The first id of all rows that Spark considers equal to a row.
    firsts = [F.min("id").over(Window.partitionBy(f"k{i}")).alias(f"first{i}") for i in range(len(KEY_TYPES))]
    seen = [equal_as_spark_sees(keys, f"k{i}").alias(f"k{i}") for i in range(len(KEY_TYPES))]
    # PySpark's own toArrow fails on structs that are null and have a field that is not; see the test below for them.
    nested = [f"k{i}" for i, sql in enumerate(KEY_TYPES) if "NULL, named_struct" in sql]
    found = keys.select("id", *seen, *firsts).drop(*nested).orderBy("id").toArrow()
    for i, sql in enumerate(KEY_TYPES):
        if f"k{i}" in nested:
            continue
        check_key_types([f"k{i}"], [keys.schema[f"k{i}"]])
        for stored in (found, as_stored(found)):
            groups = groups_of([stored[f"k{i}"]])
            assert groups.first[groups.of_row].tolist() == stored[f"first{i}"].to_pylist(), sql


@pytest.mark.parametrize("number", [0, 4, 12])
def test_keys_of_any_type(spark, number):
    """The whole way: as above, and the keys of the result are those of Spark."""
    df = spark.range(0, 60, 1, 2).selectExpr(f"{KEY_TYPES[number]} AS key")
    found = aggregate(df, "key", Count(), 3, "shuffle")
    plain = df.groupBy("key").agg(F.count("*").alias("n"))
    assert found.schema["key"].dataType == plain.schema["key"].dataType
    # As text: Python cannot hold every value.
    found, plain = (one.selectExpr("to_json(struct(key)) AS key", "n") for one in (found, plain))
    assert [text.replace("-0.0", "0.0") for text in collected(found)] == collected(plain)


def test_keys_of_several_columns(spark):
    """('a', null) and (null, 'a') have the same hash but are two keys; column names may repeat or be ours."""
    df = spark.range(0, 90, 1, 2).selectExpr(
        "if(id % 2 = 0, 'a', NULL) AS a",
        "if(id % 3 = 0, 'a', NULL) AS b",
        "named_struct('x', id % 2) AS s",
        "named_struct('x', id % 5) AS t",
        "id % 4 AS keyspread_key_0",
        "id % 3 AS keyspread_hash",
        "id % 2 AS keyspread_state",
    )
    for key in (["s.x", "t.x"], ["a", "b", "keyspread_hash", "keyspread_state", "keyspread_key_0"]):
        found = aggregate(df, key, Count(), 3, "shuffle")
        plain = df.groupBy(*key).agg(F.count("*").alias("n"))
        assert found.columns == plain.columns
        assert sorted(map(tuple, found.collect()), key=repr) == sorted(map(tuple, plain.collect()), key=repr), key


def test_all_columns_reach_update_under_their_names(spark):
    class Names(Count):
        schema = "names array<string>"

        def zero(self):
            return []

        def update(self, state, rows):
            return rows.column_names

        def merge(self, state, other):
            return state

        def finish(self, state):
            return {"names": state}

    df = spark.range(0, 40, 1, 2).selectExpr("id % 3 AS `the.key`", "id AS keyspread_worker", "1 AS `with space`")
    found = aggregate(df, "the.key", Names(), 3, "d-choices").collect()
    assert {tuple(row.names) for row in found} == {("the.key", "keyspread_worker", "with space")}


@pytest.mark.connect
def test_results_of_any_type(rows):
    class Rich(Count):
        schema = """text string, `the list` array<struct<a:int,b:double>>, pairs map<string,int>, none date,
                    price decimal(5,2), at timestamp, raw binary"""

        def finish(self, state):
            import decimal

            return {
                "none": None,
                "text": str(state),
                "the list": [{"a": 1, "b": math.nan}, None],
                "pairs": {"a": 1},
                "price": decimal.Decimal("1.50"),
                "at": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
                "raw": b"\\x00",
            }

    found = aggregate(rows, "key", Rich(), 2).where("key = 'hot'").collect()[0]
    assert found.text == str(rows.where("key = 'hot'").count())
    assert found["the list"][0].a == 1
    assert math.isnan(found["the list"][0].b)
    assert found["the list"][1] is None
    assert (found.pairs, found.none, str(found.price), found.raw) == ({"a": 1}, None, "1.50", b"\\x00")
    assert found["at"].timestamp() == 1704153600


def test_no_rows_and_one_worker(spark, rows):
    assert aggregate(rows.limit(0), "key", Total(), 3, "d-choices").collect() == []
    one = rows.where("id = 1")
    assert collected(aggregate(one, "key", Total(), 3, "planned")) == totals(one)
    assert collected(aggregate(rows, "key", Total(), 1, "d-choices")) == totals(rows)


# Typed states


class TypedTotal(Total):
    """The same as Total, with a state of columns."""

    state = "n bigint, total bigint, ids array<bigint>, seen map<string,int>, last struct<id:bigint,at:timestamp>"

    def zero(self):
        return {"n": 0, "total": None, "ids": [], "seen": {}, "last": None}

    def update(self, state, rows):

        found = {
            "n": len(rows),
            "total": rows["value"].sum(),
            "ids": rows["id"],
            "seen": {"rows": len(rows)},
            "last": {"id": rows["id"].max(), "at": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)},
        }
        return self.merge(state, found)

    def merge(self, state, other):
        totals = [int(one["total"]) for one in (state, other) if one["total"] is not None]
        lasts = [one["last"] for one in (state, other) if one["last"] is not None]
        assert all(one["at"].utcoffset().total_seconds() == 0 for one in lasts)
        return {
            "n": state["n"] + other["n"],
            "total": sum(totals) if totals else None,
            "ids": [*map(int, state["ids"]), *map(int, other["ids"])],
            "seen": {"rows": state["seen"].get("rows", 0) + other["seen"].get("rows", 0)},
            "last": max(lasts, key=lambda last: last["id"]),
        }

    def finish(self, state):
        assert state["seen"] == {"rows": state["n"]}
        assert state["last"]["id"] == max(state["ids"])
        return {"ids": sorted(state["ids"]), "n": state["n"], "total": state["total"]}


@pytest.mark.connect
def test_a_typed_state_is_stored_as_columns(spark, rows):
    assert collected(aggregate(rows, "key", TypedTotal(), 4, "shuffle")) == totals(rows)
    parts = OperatorParts(rows, ["key"], TypedTotal())
    assert [kind.dataType.simpleString() for kind in parts.schema.fields] == [
        *("bigint", "string", "bigint", "bigint", "array<bigint>", "map<string,int>"),
        "struct<id:bigint,at:timestamp>",
    ]


# Errors name the step and the key


def failing(step):
    """Make an operator that fails in one step for the hot key."""

    class Failing(Total):
        def zero(self):
            if step == "zero":
                raise RuntimeError("no zero")
            return super().zero()

        def update(self, state, rows):
            if step == "update" and rows["key"][0] == "hot":
                raise KeyError("amount")
            if step == "pickle" and rows["key"][0] == "hot":
                return (0, 0, (line for line in ()))
            return super().update(state, rows)

        def merge(self, state, other):
            if step == "merge" and len(state[2]) + len(other[2]) > 300:
                raise ZeroDivisionError("not mergeable")
            return super().merge(state, other)

        def finish(self, state):
            if state[0] > 300:
                if step == "finish":
                    raise TypeError("cannot finish")
                if step == "fields":
                    return {"n": 1, "sum": 2}
            return super().finish(state)

    return Failing()


STEPS = {
    "zero": r"Failing.zero failed for key 'hot': RuntimeError\('no zero'\)",
    "update": r"Failing.update failed for key 'hot': KeyError\('amount'\)",
    "merge": r"Failing.merge failed for key 'hot': ZeroDivisionError\('not mergeable'\)",
    "finish": r"Failing.finish failed for key 'hot': TypeError\('cannot finish'\)",
    "fields": r"Failing.finish must return a dict of n, total, ids \(its schema\), for key 'hot' it returned \{'n': 1",
    "pickle": r"Failing: the state of key 'hot' cannot be pickled \(TypeError",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_failing_operator_names_step_and_key(spark, step):
    """Runs in this process, because Spark tries a failing task four times."""
    rows = {"id": range(400), "key": ["hot"] * 400, "value": [1] * 400}
    batch = pa.RecordBatch.from_pydict({"_0": [7] * 400, "_1": ["hot"] * 400, **rows})
    frame = spark.createDataFrame([], "id bigint, key string, value bigint")
    parts = OperatorParts(frame, ["key"], failing(step))

    def run():
        states = [state for _ in range(2) for state in parts.states.make(iter([batch]))]
        return parts.states.finish(parts.states.fold(pa.concat_tables(states)))

    with pytest.raises(OperatorError, match=STEPS[step]) as caught:
        run()
    assert "\n" not in str(caught.value)


@pytest.mark.connect
def test_the_error_of_spark_says_what_failed(rows):
    class Failing(Count):
        def merge(self, state, other):
            raise ValueError("never")

    few = rows.where("id IN (1, 11, 21, 31)").selectExpr("key", "id % 10 AS digit").coalesce(1)
    with pytest.raises(
        PySparkException, match=re.escape("Failing.merge failed for key ('hot', 1): ValueError('never')")
    ):
        aggregate(few, ["key", "digit"], Failing(), 2, "shuffle").collect()


class NoSchema(Count):
    schema = None


class NotASchema(Count):
    schema = "n int int"


class Clash(Count):
    schema = "n bigint, KEY string"


class Batches(Count):
    batches = "polars"


class NoState(Count):
    state = " "


class TwiceState(Count):
    state = "n long, n double"


@pytest.mark.connect
@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (NoSchema, "NoSchema has no schema: declare what finish returns, as in schema = 'total double'"),
        (
            NotASchema,
            "schema of NotASchema must name and type what finish returns, as in 'total double', got 'n int int'",
        ),
        (Clash, "schema of Clash has 'KEY', which is a column of the key: rename it"),
        (NoState, "state of NoState must name and type the fields of a state, as in 'n long, total double', got ' '"),
        (TwiceState, "state of TwiceState must name and type the fields of a state"),
        (Batches, "batches of Batches must be 'pandas' or 'arrow', got 'polars'"),
    ],
)
def test_an_incomplete_operator_is_refused(rows, operator, message, capfd):
    with pytest.raises(InputError, match=re.escape(message)):
        aggregate(rows, "key", operator(), 3, "shuffle")
    assert "Traceback" not in capfd.readouterr().err
