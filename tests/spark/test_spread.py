"""spread: partition w holds the rows that Sender.route or Plan.route assigns to worker w, and no row is lost."""

import datetime
import decimal
import math
import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import numpy as np
from pyspark.sql import functions as F

import keyspread as ks
import keyspread.spark
from frames import ONLINE, as_a_bag, hashes, places, sent_by, sent_online, setting, skewed
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.operators import Count
from keyspread.spark import Watch, aggregate, balance, plan, spread
from keyspread.spark._routing.keys import key_columns
from keyspread.spark._routing.options import Routing
from keyspread.spark.spread import with_worker

WORKERS = 5
SCHEMES = {**ONLINE, "planned": {}}
TWO = ["planned", "d-choices"]  # one of each kind, where the others differ in nothing


@pytest.fixture(scope="module")
def rows(spark):
    return skewed(spark)


@pytest.fixture(params=["true", "false"], ids=["adaptive", "static"])
def adaptive(spark, request):
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


def chosen(df, key, *routings):
    """Return where each of these routings puts every row, id -> worker, all from one job."""
    columns, names = key_columns(df, key), []
    for routing in routings:
        df, name = with_worker(df, columns, routing)
        names.append(name)
    found = df.select("id", *names).collect()
    return [{row.id: row[1 + place] for row in found} for place in range(len(names))]


def check_all(df, key, schemes, workers):
    """Compare the workers of these schemes with those of a Sender or a Plan; return them by scheme."""
    rows = hashes(df, key)
    planned = ks.plan(np.array([hash_ for _, _, hash_ in rows], np.int64), workers)
    routings = {
        scheme: Routing.of(workers, scheme, scheme, plan=planned)
        if scheme == "planned"
        else Routing.of(workers, scheme, scheme, sender=Settings(**SCHEMES[scheme]))
        for scheme in schemes
    }
    found = dict(zip(routings, chosen(df, key, *routings.values()), strict=True))
    for scheme, where in found.items():
        route = sent_by(planned, rows) if scheme == "planned" else sent_online(rows, scheme, workers, **SCHEMES[scheme])
        assert where == route, scheme
    return found


# Where the rows go


@pytest.mark.connect
def test_every_scheme_gives_rows_to_the_workers_of_its_senders(rows, adaptive):
    for scheme, where in check_all(rows, "key", SCHEMES, WORKERS).items():
        assert set(where.values()) == set(range(WORKERS)), scheme


@pytest.mark.connect
@pytest.mark.parametrize("scheme", TWO)
def test_partition_w_has_the_rows_of_worker_w(rows, adaptive, scheme):
    assert places(spread(rows, "key", WORKERS, scheme)) == chosen(rows, "key", Routing.of(WORKERS, scheme, scheme))[0]


@pytest.mark.connect
def test_the_default_is_planned(rows, static):
    planned = plan(rows, "key", WORKERS)
    assert planned.head
    assert places(spread(rows, "key", WORKERS)) == sent_by(planned, hashes(rows, "key"))


def test_options_reach_the_sender(rows, static):
    options = {"seed": 7, "counters": 40, "half_life": 300}
    more = {"threshold": 0.1, "tolerance": 0.01}
    out = places(spread(rows, "key", WORKERS, "d-choices", sender=Settings(**options), **more))
    assert out == sent_online(hashes(rows, "key"), "d-choices", WORKERS, **options, **more)
    assert out != sent_online(hashes(rows, "key"), "d-choices", WORKERS)


def test_the_senders_state_lives_across_arrow_batches(spark, rows, static):
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 7):
        out = places(spread(rows, "key", WORKERS, "w-choices"))
    assert out == sent_online(hashes(rows, "key"), "w-choices", WORKERS)


@pytest.mark.connect
def test_a_key_may_be_a_column_or_an_expression(rows, static):
    """The workers are those of the same key as a column with a name, and no column is added."""
    named = rows.withColumn("low", F.lower("key")).withColumn("odd", F.col("value") % 2)
    routings = [Routing.of(3, scheme, scheme) for scheme in (*TWO, "look-ahead")]
    expected = {key: chosen(named, list(key), *routings) for key in (("low",), ("key", "odd"))}
    assert chosen(rows, F.lower(rows["key"]).alias("key"), *routings) == expected["low",]
    assert chosen(rows, ["key", F.col("value") % 2], *routings) == expected["key", "odd"]
    assert chosen(rows, (rows.key, F.expr("value % 2 AS v")), *routings) == expected["key", "odd"]
    assert plan(rows, F.lower("key"), 3) == plan(named, "low", 3)
    watch = Watch(hottest=2)
    out = rows.transform(spread, F.upper("key"), 3, watch=watch)
    assert out.columns == rows.columns
    out.write.format("noop").mode("overwrite").save()
    assert [key for key, _ in watch.balance.hottest] == ["HOT", "WARM"]
    assert [key for key, _ in balance(out, 3, key=F.upper("key"), hottest=2).hottest] == ["HOT", "WARM"]


@pytest.mark.connect
def test_several_key_columns_and_fields_of_structs(spark, static):
    rows = spark.range(0, 600, 1, 2).selectExpr(
        "id",
        "if(id % 3 = 0, 'a', string(id)) AS a",
        "if(id % 5 = 0, null, id % 7) AS b",
        "named_struct('x', id % 4, 'y', named_struct('z.z', if(id % 2 = 0, 'hot', string(id)))) AS s",
        "map('hot', id % 9) AS m",
    )
    for key in (["a", "b"], "s.x", ["s.y", "A"], ("s.y.`z.z`",), "m.hot"):
        check_all(rows, key, TWO, 3)
    assert hashes(rows, ["a", "b"]) != hashes(rows, ["b", "a"])


UTC = datetime.UTC
KEYS = {
    "string": ["", "a", "ü€😀", None],
    "binary": [b"", b"\x00\xff", None],
    "boolean": [True, False, None],
    "tinyint": [-128, 127, None],
    "smallint": [-(2**15), 0, None],
    "int": [-(2**31), 2**31 - 1, None],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [0.0, -0.0, math.nan, None],
    "double": [0.0, -0.0, math.nan, -math.nan, math.inf, 5e-324, None],
    "decimal(10,2)": [decimal.Decimal("-1.50"), decimal.Decimal("0.00"), None],
    "decimal(38,18)": [decimal.Decimal("1e-18"), decimal.Decimal("-12345678901234567890"), None],
    "date": [datetime.date(1582, 10, 4), datetime.date(9999, 12, 31), None],
    "timestamp": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None],
    "timestamp_ntz": [datetime.datetime(2024, 2, 29, 12, 30), None],
    "interval day to second": [datetime.timedelta(days=-1), None],
    "array<string>": [[], ["a", None], None],
    "array<double>": [[math.nan], [0.0], [-0.0], None],
    "struct<a:int,b:array<struct<c:string>>>": [(1, [("x",)]), (None, None), None],
}


@pytest.fixture(scope="module")
def typed(spark):
    """A column of every type that Spark can hash, with 300 rows; each column cycles through its values differently."""
    columns = list(KEYS)
    values = [(i, *(KEYS[kind][(i * (1 + j)) % len(KEYS[kind])] for j, kind in enumerate(columns))) for i in range(300)]
    schema = ", ".join(["id bigint", *(f"`{kind}` {kind}" for kind in columns)])
    return spark.createDataFrame(values, schema).coalesce(2).cache()


@pytest.mark.parametrize("place", range(0, len(KEYS), 6))
def test_every_type_that_spark_can_hash(typed, static, place):
    """Six types in one job."""
    kinds, routed, expected = list(KEYS)[place : place + 6], typed, {}
    for kind in kinds:
        routed, name = with_worker(routed, [kind], Routing.of(3, "d-choices", "key"))
        expected[name] = sent_online(hashes(typed, kind), "d-choices", 3)
    found = routed.select("id", *expected).collect()
    assert len(found) == 300
    for name, workers in expected.items():
        assert {row.id: row[name] for row in found} == workers, name


def test_equal_keys_have_equal_workers(spark, typed, static):
    """As Spark groups them: -0.0 equals 0.0, NaN equals NaN, and null is a key like any other."""
    for kind in ("double", "array<double>", "string"):
        out = spread(typed, kind, 16, "key").select(F.col(f"`{kind}`").alias("k"), F.spark_partition_id().alias("at"))
        groups = out.groupBy("k").agg(F.count_distinct("at").alias("workers")).collect()
        assert {row.workers for row in groups} == {1}, kind


def test_small_and_degenerate(spark, static):
    def check(rows, workers):
        return check_all(rows, "key", ["planned", "key", "w-choices", "d-choices"], workers)

    assert [*check(skewed(spark, 0), 4).values()] == [{}] * 4
    assert {len(where) for where in check(skewed(spark, 3, 2), 7).values()} == {3}  # more workers than rows
    assert {worker for where in check(skewed(spark, 40), 1).values() for worker in where.values()} == {0}
    for scheme, where in check(spark.range(0, 200, 1, 2).selectExpr("id", "'k' AS key"), 4).items():
        assert len(set(where.values())) == (1 if scheme == "key" else 4)


# What the rows look like


ODD = [
    "id",
    "keyspread_worker",
    "keyspread_hash",
    "KeySpread_Bucket",
    "keyspread_SLOT",
    "keyspread_slot_",
    "a.b",
    "with space",
    "back`tick",
    "Größe",
    "key",
    "1",
    "select",
    "a,b",
    "",
]


@pytest.mark.connect
def test_columns_are_neither_lost_nor_renamed_nor_reordered(spark, static):
    rows = spark.range(0, 90, 1, 2).selectExpr(
        "id", *(f"if(id % {3 + i} = 0, 'x', string(id)) AS `{n.replace('`', '``')}`" for i, n in enumerate(ODD[1:]))
    )
    assert rows.columns == ODD
    before = as_a_bag(rows)
    for key in ("keyspread_worker", "a.b", "BACK`tick", "", "1"):
        check_all(rows, key, TWO, 3)
    for scheme in TWO:
        out = spread(rows, ODD[1:], 3, scheme, watch=Watch())
        assert out.schema == rows.schema
        assert as_a_bag(out) == before


def test_types_and_values_come_through(typed, static):
    before = as_a_bag(typed)
    for scheme in TWO:
        out = spread(typed, "string", 4, scheme)
        assert out.schema == typed.schema
        assert as_a_bag(out) == before


# Operations after it


@pytest.mark.parametrize("scheme", ["d-choices", "planned"])
def test_filter_join_select_and_limit_behind_it(spark, rows, scheme):
    planned = plan(rows, "key", WORKERS)
    where = (
        sent_by(planned, hashes(rows, "key"))
        if scheme == "planned"
        else sent_online(hashes(rows, "key"), scheme, WORKERS)
    )
    out = spread(rows, "key", WORKERS, scheme)
    assert places(out.where("key = 'hot' AND value < 50")) == {
        row.id: where[row.id] for row in rows.where("key = 'hot' AND value < 50").collect()
    }
    at = out.select("id", F.spark_partition_id().alias("at"))
    assert {row.id for row in at.where("at = 2").collect()} == {id_ for id_, worker in where.items() if worker == 2}
    names = spark.createDataFrame([("hot", 1), ("k4", 2)], "key string, rank int")
    joined = out.join(F.broadcast(names), "key")
    assert places(joined) == {id_: where[id_] for id_ in places(rows.join(F.broadcast(names), "key"))}
    assert joined.count() == rows.join(names, "key").count()
    assert out.join(out.select("id"), "id").count() == 3000
    assert len(out.limit(17).collect()) == 17


@pytest.mark.parametrize("scheme", ["shuffle", "planned"])
def test_the_workers_column_means_the_same_wherever_it_is_used(rows, scheme):
    """A filter on it must not be evaluated separately: a function with state would return other workers."""
    routed, worker = with_worker(rows, ["key"], Routing.of(WORKERS, scheme, scheme))
    where = places(spread(rows, "key", WORKERS, scheme))
    found = routed.where(F.col(worker).isin(1, 3)).select("id", worker).collect()
    assert {row.id: row[1] for row in found} == {id_: w for id_, w in where.items() if w in (1, 3)}


def test_python_is_asked_once_and_only_online(rows, capsys):
    for scheme, times in (("d-choices", 1), ("planned", 0)):
        spread(rows, "key", WORKERS, scheme).where("value < 50").explain()
        assert capsys.readouterr().out.count("ArrowEvalPython") == times


# No setting is changed


@pytest.mark.connect
def test_nothing_is_set_on_the_session(spark, rows):
    before = dict(spark.conf.getAll)
    spread(rows, "key", 3).count()
    spread(rows, "key", 3, "d-choices", watch=Watch()).count()
    aggregate(rows, "key", Count(), 3, "planned").count()
    balance(spread(rows, "key", 3, plan=plan(rows, "key", 3, sample=0.5)), 3)
    assert dict(spark.conf.getAll) == before


def test_the_library_uses_nothing_that_connect_does_not_have():
    package = Path(keyspread.__file__).parent
    classic = ["spark/session.py", "spark/_launch/java.py", "spark/kafka/connector.py"]
    classic += [
        "spark/watch.py",
        "spark/totals.py",
        "spark/_engine/capabilities.py",
        "spark/_folding/input_splits.py",
        "paper/deployment/measure.py",
        "run/gain.py",
        "paper/live/topics.py",
        "cli/commands/doctor.py",
    ]  # these ask for classic Spark, and can do without
    files = {file.relative_to(package).as_posix(): file.read_text() for file in package.rglob("*.py")}
    assert set(classic) < set(files)
    for name in files.keys() - set(classic):
        found = re.search(r"_jvm|sparkContext|SparkContext|\.rdd\b|_jdf|_jc\b", files[name])
        assert found is None, f"{name} has {found and found[0]}"


# Bad input: one line that names the problem, and nothing else is printed


def refused(call, match):
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.connect
def test_a_missing_column_is_named_beside_those_there_are(rows, capfd):
    for key in ("nope", ["key", "nope"], "nope.x", "key.x", "no pe`", "", "*", "id.*"):
        missing = next(name for name in ([key] if isinstance(key, str) else key) if name not in rows.columns)
        refused(
            lambda key=key: spread(rows, key, 3),
            f"there is no column {re.escape(repr(missing))}; the columns are id, key, value",
        )
    assert capfd.readouterr().err == ""


@pytest.mark.connect
def test_a_column_that_cannot_be_a_key(spark, rows, capfd):
    other = spark.range(3).selectExpr("id AS other")
    cases = [
        (F.col("nope"), r"key Column<'nope'> is refused by Spark: A column, .* with name `nope` cannot be resolved"),
        (other.other, r"key Column<'other'> belongs to another DataFrame; pass the name of a column of this one"),
        (F.sum("value"), r"key Column<'sum\(value\)'> is not one value per row"),
        (F.explode(F.array("value")), r"key Column<'explode\(array\(value\)\)'> is not one value per row"),
        (["key", F.create_map("key", "value")], r"column Column<'map\(key, value\)'> has type .*cannot hash maps"),
    ]
    for key, message in cases:
        for call in (spread, plan):
            refused(lambda call=call, key=key: call(rows, key, 3), message)
    refused(lambda: balance(rows, 9, key=F.max("id")), "is not one value per row")
    refused(lambda: spread(rows, "key", 3, weight=F.col("nope")), "weight Column<'nope'> is refused by Spark")
    assert capfd.readouterr().err == ""


@pytest.mark.connect
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("map('a', 1)", "map<string,int>"),
        ("array(map('a', 1))", "array<map<string,int>>"),
        ("named_struct('m', map('a', 1))", "struct<m:map<string,int>>"),
        ("parse_json('{}')", "variant"),
    ],
)
def test_a_type_that_spark_cannot_hash(spark, sql, kind, capfd):
    rows = spark.range(3).selectExpr("id", f"{sql} AS m")
    refused(lambda: spread(rows, "m", 3), f"column 'm' has type {re.escape(kind)}, and Spark")
    assert capfd.readouterr().err == ""


def test_a_session_without_lateral_aliases_routes_the_same(spark, rows):
    made = plan(rows, "key", 4)
    assert made.head
    expected = places(spread(rows, "key", 4, plan=made))
    with setting(spark, "spark.sql.lateralColumnAlias.enableImplicitResolution", "false"):
        assert plan(rows, "key", 4) == made
        assert places(spread(rows, "key", 4, plan=made)) == expected
