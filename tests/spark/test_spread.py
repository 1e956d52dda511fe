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
from keyspread.errors import InputError
from keyspread.spark import Watch, aggregate, balance, plan, spread
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


def both(df, key, scheme, workers, **options):
    """Return where `spread` puts the rows, and where they would be in-process."""
    rows = hashes(df, key)
    if scheme == "planned":
        planned = ks.plan(np.array([hash_ for _, _, hash_ in rows], np.int64), workers)
        return places(spread(df, key, workers, plan=planned)), sent_by(planned, rows)
    return places(spread(df, key, workers, scheme, **options)), sent_online(rows, scheme, workers, **options)


# Where the rows go


@pytest.mark.parametrize("scheme", [pytest.param(s, marks=pytest.mark.connect) if s in TWO else s for s in SCHEMES])
def test_partition_w_has_the_rows_that_the_sender_gives_to_worker_w(rows, adaptive, scheme):
    found, expected = both(rows, "key", scheme, WORKERS, **SCHEMES[scheme])
    assert found == expected
    assert set(found.values()) == set(range(WORKERS))


@pytest.mark.parametrize("alias", ["KG", "sg", "Pkg", "rr", "WC", "dc", "PLANNED"])
def test_aliases_in_any_case(rows, alias):
    assert spread(rows, "key", 3, alias).columns == rows.columns


@pytest.mark.connect
def test_the_default_is_planned(rows, static):
    planned = plan(rows, "key", WORKERS)
    assert planned.head
    assert places(spread(rows, "key", WORKERS)) == sent_by(planned, hashes(rows, "key"))


@pytest.mark.connect
def test_options_reach_the_sender(rows, static):
    options = {"seed": 7, "threshold": 0.1, "counters": 40, "tolerance": 0.01, "half_life": 300}
    out = places(spread(rows, "key", WORKERS, "d-choices", **options))
    assert out == sent_online(hashes(rows, "key"), "d-choices", WORKERS, **options)
    assert out != sent_online(hashes(rows, "key"), "d-choices", WORKERS)


def test_the_senders_state_lives_across_arrow_batches(spark, rows, static):
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 7):
        out = places(spread(rows, "key", WORKERS, "w-choices"))
    assert out == sent_online(hashes(rows, "key"), "w-choices", WORKERS)


@pytest.mark.connect
@pytest.mark.parametrize("scheme", [*TWO, "look-ahead"])
def test_a_key_may_be_a_column_or_an_expression(rows, static, scheme):
    """The workers are those of the same key as a column with a name, and no column is added."""
    named = rows.withColumn("low", F.lower("key")).withColumn("odd", F.col("value") % 2)
    for key, as_names in (
        (F.col("key"), "key"),
        (rows.key, "key"),
        (F.lower("key"), "low"),
        (F.lower(rows["key"]).alias("key"), "low"),
        (["key", F.col("value") % 2], ["key", "odd"]),
        ((rows.key, F.expr("value % 2 AS v")), ["key", "odd"]),
    ):
        out = spread(rows, key, 3, scheme)
        assert out.columns == rows.columns
        assert places(out) == places(spread(named, as_names, 3, scheme)), key
    planned = plan(rows, F.lower("key"), 3)
    assert planned == plan(named, "low", 3)
    watch = Watch(hottest=2)
    out = rows.transform(spread, F.upper("key"), 3, scheme, watch=watch)
    out.write.format("noop").mode("overwrite").save()
    assert [key for key, _ in watch.balance.hottest] == ["HOT", "WARM"]
    assert [key for key, _ in balance(out, 3, key=F.upper("key"), hottest=2).hottest] == ["HOT", "WARM"]


@pytest.mark.connect
@pytest.mark.parametrize("scheme", TWO)
def test_several_key_columns_and_fields_of_structs(spark, static, scheme):
    rows = spark.range(0, 600, 1, 2).selectExpr(
        "id",
        "if(id % 3 = 0, 'a', string(id)) AS a",
        "if(id % 5 = 0, null, id % 7) AS b",
        "named_struct('x', id % 4, 'y', named_struct('z.z', if(id % 2 = 0, 'hot', string(id)))) AS s",
        "map('hot', id % 9) AS m",
    )
    for key in (["a", "b"], "s.x", ["s.y", "A"], ("s.y.`z.z`",), "m.hot"):
        found, expected = both(rows, key, scheme, 3)
        assert found == expected, key
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


@pytest.mark.parametrize("kind", KEYS)
def test_every_type_that_spark_can_hash(typed, static, kind):
    scheme = TWO[list(KEYS).index(kind) % 2]  # both see the same hash
    found, expected = both(typed, kind, scheme, 3)
    assert found == expected
    assert len(found) == 300


def test_equal_keys_have_equal_workers(spark, typed, static):
    """As Spark groups them: -0.0 equals 0.0, NaN equals NaN, and null is a key like any other."""
    for kind in ("double", "array<double>", "string"):
        out = spread(typed, kind, 16, "key").select(F.col(f"`{kind}`").alias("k"), F.spark_partition_id().alias("at"))
        groups = out.groupBy("k").agg(F.count_distinct("at").alias("workers")).collect()
        assert {row.workers for row in groups} == {1}, kind


@pytest.mark.parametrize("scheme", ["planned", "key", "d-choices"])
def test_null_keys_only(spark, static, scheme):
    rows = spark.range(0, 50, 1, 2).selectExpr("id", "cast(null AS string) AS key")
    found, expected = both(rows, "key", scheme, 3, **SCHEMES[scheme])
    assert found == expected
    assert len(found) == 50


@pytest.mark.parametrize("scheme", ["planned", "key", "w-choices", "d-choices"])
def test_small_and_degenerate(spark, static, scheme):
    options = SCHEMES[scheme]

    def check(rows, workers):
        found, expected = both(rows, "key", scheme, workers, **options)
        assert found == expected
        return found

    assert check(skewed(spark, 0), 4) == {}
    assert len(check(skewed(spark, 1, 1), 4)) == 1
    assert len(check(skewed(spark, 3, 2), 7)) == 3  # more workers than rows
    assert set(check(skewed(spark, 40), 1).values()) == {0}
    one_key = check(spark.range(0, 200, 1, 2).selectExpr("id", "'k' AS key"), 4)
    if scheme != "key":
        assert set(one_key.values()) == {0, 1, 2, 3}


def test_small_and_degenerate_planned_by_spark(spark, static):
    for rows, workers in ((0, 4), (1, 4), (3, 7), (40, 1)):
        df = skewed(spark, rows)
        out = spread(df, "key", workers)
        assert out.rdd.getNumPartitions() == workers
        assert places(out) == sent_by(plan(df, "key", workers), hashes(df, "key"))


def test_rows_of_a_file_and_of_a_shuffle(spark, tmp_path, static):
    """The two kinds of input of a real job. After a shuffle the order may vary, but no row is lost."""
    skewed(spark, 500).write.parquet(str(tmp_path / "rows"))
    read = spark.read.parquet(str(tmp_path / "rows"))
    shuffled = read.repartition(3)
    for scheme in TWO:
        found, expected = both(read, "key", scheme, 4)
        assert found == expected
        assert set(places(spread(shuffled, "key", 4, scheme))) == set(range(500))


@pytest.mark.connect
def test_the_default_for_a_stream_is_look_ahead(spark, tmp_path):
    skewed(spark, 400, 2).write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id bigint, key string, value bigint").parquet(str(tmp_path / "rows"))
    out = spread(stream, "key", 4)
    assert out.isStreaming
    assert out.columns == ["id", "key", "value"]
    query = (
        out.withColumn("at", F.spark_partition_id())
        .writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    seen = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row.id for row in seen} == set(range(400))
    assert len(seen) == 400
    assert {row.at for row in seen} <= {0, 1, 2, 3}
    assert len({row["at"] for row in seen if row.key == "hot"}) > 2


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
@pytest.mark.parametrize("scheme", TWO)
def test_columns_are_neither_lost_nor_renamed_nor_reordered(spark, static, scheme):
    rows = spark.range(0, 90, 1, 2).selectExpr(
        "id", *(f"if(id % {3 + i} = 0, 'x', string(id)) AS `{n.replace('`', '``')}`" for i, n in enumerate(ODD[1:]))
    )
    assert rows.columns == ODD
    before = as_a_bag(rows)
    for key in ("keyspread_worker", "a.b", "BACK`tick", "", "1"):
        found, expected = both(rows, key, scheme, 3)
        assert found == expected, key
    out = spread(rows, ODD[1:], 3, scheme, watch=Watch())
    assert out.schema == rows.schema
    assert as_a_bag(out) == before


@pytest.mark.parametrize("scheme", TWO)
def test_two_columns_of_one_name_are_both_kept(spark, static, scheme):
    hot = "if(id % 2 = 0, 'hot', string(id)) AS key"
    rows = spark.range(0, 60, 1, 2).selectExpr(hot, "id AS twice", "-id AS twice")
    out = spread(rows, "key", 3, scheme)
    assert out.columns == ["key", "twice", "twice"]
    assert as_a_bag(out) == as_a_bag(rows)
    with pytest.raises(InputError, match="2 columns are called 'twice'"):
        spread(rows, "twice", 3, scheme)


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
    where = sent_by(planned, hashes(rows, "key")) if scheme == "planned" else both(rows, "key", scheme, WORKERS)[1]
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
    routed, worker = with_worker(rows, "key", WORKERS, scheme)
    where = places(spread(rows, "key", WORKERS, scheme))
    found = routed.where(F.col(worker).isin(1, 3)).select("id", worker).collect()
    assert {row.id: row[1] for row in found} == {id_: w for id_, w in where.items() if w in (1, 3)}


def test_python_is_asked_once_and_only_online(rows, capsys):
    for scheme, times in (("d-choices", 1), ("planned", 0)):
        spread(rows, "key", WORKERS, scheme).where("value < 50").explain()
        assert capsys.readouterr().out.count("ArrowEvalPython") == times


def test_work_per_worker_sees_all_of_a_workers_rows(rows):
    def count(batches):
        import pyarrow as pa
        from pyspark import TaskContext

        ids = [id_ for batch in batches for id_ in batch["id"].to_pylist()]
        where = TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pydict({"at": pa.array([where], pa.int32()), "ids": pa.array([ids])})

    out = spread(rows, "key", WORKERS, "d-choices").mapInArrow(count, "at int, ids array<bigint>").collect()
    found = {id_: row["at"] for row in out for id_ in row.ids}
    assert len(out) == WORKERS
    assert found == both(rows, "key", "d-choices", WORKERS)[1]


# No setting is changed


@pytest.mark.connect
def test_nothing_is_set_on_the_session(spark, rows):
    before = dict(spark.conf.getAll)
    spread(rows, "key", 3).count()
    spread(rows, "key", 3, "d-choices", watch=Watch()).count()
    aggregate(rows, "key", {"n": "count(*)"}, 3, "planned").count()
    balance(spread(rows, "key", 3, plan=plan(rows, "key", 3, sample=0.5)), 3)
    assert dict(spark.conf.getAll) == before


def test_the_library_uses_nothing_that_connect_does_not_have():
    package = Path(keyspread.__file__).parent
    classic = ["spark/session.py", "spark/launch/java.py", "spark/kafka/client.py"]
    classic += [
        "spark/observation.py",
        "spark/streaming/local_properties.py",
        "spark/job_description.py",
        "deployment/slots.py",
        "job/gain.py",
        "deployment/live/topics.py",
        "cli/installation.py",
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
@pytest.mark.parametrize("scheme", TWO)
def test_a_missing_column_is_named_beside_those_there_are(rows, scheme, capfd):
    for key in ("nope", ["key", "nope"], "nope.x", "key.x", "no pe`", "", "*", "id.*"):
        missing = next(name for name in ([key] if isinstance(key, str) else key) if name not in rows.columns)
        refused(
            lambda key=key: spread(rows, key, 3, scheme),
            f"there is no column {re.escape(repr(missing))}; the columns are id, key, value",
        )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("key", [[], (), None, 5, [1], ["key", None]])
def test_a_key_that_is_no_name(rows, key):
    refused(lambda: spread(rows, key, 3), r"key must be a column \(its name or a Column\) or a list of columns, got")


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
    refused(lambda: aggregate(rows, F.col("nope"), {"n": "count(*)"}, 3), "key Column<'nope'> is refused by Spark")
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
    for scheme in TWO:
        refused(lambda scheme=scheme: spread(rows, "m", 3, scheme), f"column 'm' has type {re.escape(kind)}, and Spark")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("scheme", [*SCHEMES, None])
def test_workers_below_one(rows, scheme):
    for workers in (0, -1):
        refused(lambda w=workers: spread(rows, "key", w, scheme), f"workers must be at least 1, got {workers}")
    for workers in (1.5, "4", None, True):
        refused(lambda w=workers: spread(rows, "key", w, scheme), "workers must be a whole number")


def test_an_unknown_scheme(rows):
    for scheme in ("best", "", 3):
        refused(
            lambda scheme=scheme: spread(rows, "key", 3, scheme), f"unknown scheme {scheme!r}; known are key .*planned"
        )


@pytest.mark.parametrize("scheme", [*SCHEMES, None])
def test_an_unknown_option(rows, scheme):
    refused(lambda: spread(rows, "key", 3, scheme, treshold=0.1), "unknown option 'treshold'; .* takes")


@pytest.mark.parametrize("scheme", ONLINE)
def test_the_source_is_the_partition_and_cannot_be_given(rows, scheme):
    refused(lambda: spread(rows, "key", 3, scheme, source=1), "unknown option 'source'")


def test_greedy_without_choices(rows):
    refused(lambda: spread(rows, "key", 3, "greedy"), "'greedy' needs choices")


@pytest.mark.parametrize("option", ["threshold", "seed", "tolerance", "counters", "half_life"])
def test_wrong_values_fail_before_anything_runs(rows, option):
    refused(lambda: spread(rows, "key", 3, "d-choices", **{option: "much"}), option)


def test_the_plan_that_is_passed_must_be_a_plan_for_as_many_workers(rows):
    planned = ks.plan(ks.hash_keys(["a"]), workers=4)
    refused(lambda: spread(rows, "key", 3, plan=planned), "the plan is for 4 workers, not for 3; make a new one")
    refused(lambda: spread(rows, "key", 4, plan=planned, threshold=0.1), "plan= is given, so 'threshold' has no effect")
    for wrong in ("{}", planned.to_json(), 3):
        refused(lambda wrong=wrong: spread(rows, "key", 4, plan=wrong), "plan must be a keyspread.Plan, got")
        refused(lambda wrong=wrong: spread(rows, "key", 4, previous=wrong), "previous must be a keyspread.Plan, got")


def test_the_skewed_rows_are_what_they_say(rows):
    assert rows.where("key = 'hot'").count() > 1100
    assert rows.where("key IS NULL").count() == 31


def test_columns_called_like_ours_in_capitals_are_kept_where_a_key_is_hot(spark):
    from frames import as_a_bag
    from keyspread.spark import spread

    names = ["KeySpread_Hash", "KEYSPREAD_bucket", "keyspread_ENTRY", "Keyspread_Hot", "keyspread_Turn",
             "keyspread_PIECE", "KEYSPREAD_WORKER"]  # fmt: skip
    df = spark.range(0, 300, 1, 2).selectExpr(
        "if(id % 2 = 0, 'hot', string(id)) AS key", *(f"id + {i} AS {name}" for i, name in enumerate(names))
    )
    for scheme in ("planned", "d-choices"):
        out = spread(df, "key", 3, scheme)
        assert out.schema == df.schema
        assert as_a_bag(out) == as_a_bag(df)


def test_a_session_without_lateral_aliases_routes_the_same(spark, rows):
    made = plan(rows, "key", 4)
    assert made.head
    expected = places(spread(rows, "key", 4, plan=made))
    with setting(spark, "spark.sql.lateralColumnAlias.enableImplicitResolution", "false"):
        assert plan(rows, "key", 4) == made
        assert places(spread(rows, "key", 4, plan=made)) == expected
