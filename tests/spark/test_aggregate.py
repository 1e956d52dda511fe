"""aggregate: SQL without a scheme is Spark's own groupBy; with one, it is equal on any data, sketches within bounds."""

import math
import re

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import setting
from keyspread.errors import InputError
from keyspread.spark import Watch, aggregate
from keyspread.spark.aggregation.sql_functions import _OTHER_NAMES, RULES

pytestmark = pytest.mark.usefixtures("static")

ROWS = 1200
# Sums and averages of doubles depend on the order of adding, in plain Spark too: `eighths` has values that add exactly.
VALUES = """
    id,
    CASE WHEN id % 41 = 0 THEN NULL WHEN id % 10 < 5 THEN 'hot' ELSE concat('k', pmod(xxhash64(id), 37)) END AS key,
    if(id % 3 = 0, NULL, if(id % 2 = 0, 'a', 'b')) AS a,
    if(id % 5 = 0, NULL, if(id % 7 = 0, 'a', 'b')) AS b,
    if(pmod(xxhash64(id, 1), 6) = 0, NULL, pmod(xxhash64(id, 2), 1000) - 500) AS i,
    if(pmod(xxhash64(id, 3), 6) = 0, NULL, (pmod(xxhash64(id, 4), 8001) - 4000) / 8D) AS eighths,
    CASE pmod(xxhash64(id, 5), 9) WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN -0.0D WHEN 3 THEN 0.0D
         WHEN 4 THEN double('-Infinity') ELSE pmod(xxhash64(id, 6), 5) - 2D END AS odd,
    cast(if(id % 11 = 0, NULL, (pmod(xxhash64(id, 7), 2000003) - 1000000) / 700) AS decimal(18,4)) AS price,
    if(pmod(xxhash64(id, 8), 5) = 0, NULL, pmod(xxhash64(id, 9), 2) = 0) AS flag,
    if(pmod(xxhash64(id, 10), 8) = 0, NULL, concat('w', pmod(xxhash64(id, 11), 20))) AS word,
    cast(NULL AS int) AS nothing,
    date_add(date'2024-01-01', int(id % 400)) AS day,
    named_struct('x', id % 2, 'keyspread_worker', id % 3) AS s,
    named_struct('x', id % 5) AS t
"""


@pytest.fixture(scope="module")
def rows(spark):
    df = spark.range(0, ROWS, 1, 3).selectExpr(*_columns(VALUES)).cache()
    df.count()
    return df


def _columns(text):
    """Split the text into columns: each ends with a comma at the end of a line."""
    return [part.strip() for part in re.split(r",\n(?=    \S)", text)]


def plain(df, key, aggregates):
    keys = [F.col(part) if isinstance(part, str) else part for part in ([key] if isinstance(key, str) else key)]
    return df.groupBy(*keys).agg(*(F.expr(sql).alias(name) for name, sql in aggregates.items()))


def in_order(df):
    """Return the rows in the order of their keys; lists are sorted."""

    def settled(value):
        if isinstance(value, list):
            return sorted(map(settled, value), key=repr)
        return value + 0.0 if isinstance(value, float) else value  # -0.0 is 0.0

    return sorted((tuple(map(settled, row)) for row in df.collect()), key=repr)


def alike(one, other, off):
    """Compare as Spark does: NaN equals NaN; doubles may differ by `off`, relatively."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(alike(a, b, off) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=off, abs_tol=off) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


def same(found, expected, off=0.0):
    assert [(f.name, f.dataType) for f in found.schema.fields] == [(f.name, f.dataType) for f in expected.schema.fields]
    one, other = in_order(found), in_order(expected)
    assert len(one) == len(other)
    for row, wanted in zip(one, other, strict=True):
        assert alike(row, wanted, off), (row, wanted)


def check(df, key, aggregates, workers=4, scheme=None, off=0.0, **options):
    same(aggregate(df, key, aggregates, workers, scheme, **options), plain(df, key, aggregates), off)


EXACT = {
    "n": "count(*)",
    "n1": "count(1)",
    "ni": "count(i)",
    "nn": "count(nothing)",
    "none": "count(NULL)",
    "all_": "count(ALL word)",
    "total": "sum(i)",
    "exact": "sum(eighths)",
    "money": "sum(price)",
    "nosum": "sum(nothing)",
    "mean_i": "avg(i)",
    "mean_e": "mean(eighths)",
    "mean_p": "avg(price)",
    "nomean": "avg(nothing)",
    "least": "min(odd)",
    "most": "max(odd)",
    "least_s": "min(word)",
    "most_d": "max(day)",
    "and_": "bool_and(flag)",
    "every_": "every(flag)",
    "or_": "bool_or(flag)",
    "some_": "some(flag)",
    "any_": "any(flag)",
    "ba": "bit_and(i)",
    "bo": "bit_or(i)",
    "bx": "bit_xor(i)",
    "words": "collect_list(word)",
    "agg_": "array_agg(i)",
    "set_": "collect_set(word)",
    "set_s": "collect_set(s)",
    "d_word": "count(DISTINCT word)",
    "d_odd": "count(distinct odd)",
    "d_no": "count(DISTINCT nothing)",
    "top": "max_by(id, id)",
    "top_i": "max_by(id, i * 10000 + id)",
    "low_i": "min_by(id, i * 10000 + id)",
    "no_top": "max_by(id, nothing)",
}
CLOSE = {
    "v": "variance(i)",
    "vs": "var_samp(eighths)",
    "vp": "var_pop(i)",
    "sd": "std(eighths)",
    "sd2": "stddev(i)",
    "ss": "stddev_samp(price)",
    "sp": "stddev_pop(eighths)",
    "vn": "var_samp(nothing)",
    "spn": "stddev_pop(nothing)",
    "vo": "var_pop(odd)",
}
SKETCHES = {"approx_count_distinct", "approx_percentile", "percentile_approx", "approx_top_k"}


def test_every_rule_and_every_name_is_tried_here():
    tried = {re.match(r"\w+", sql)[0].lower() for sql in [*EXACT.values(), *CLOSE.values()]}
    assert tried | SKETCHES >= {*RULES, *_OTHER_NAMES} - {"count_distinct"}


def test_exact_ones_are_equal_to_plain(rows):
    """With shuffle, every key is split over all workers, which is the hardest case."""
    check(rows, "key", EXACT, scheme="shuffle")


@pytest.mark.parametrize(
    "scheme", [pytest.param("planned", marks=pytest.mark.connect), "d-choices", "w-choices", "key"]
)
def test_by_any_scheme(rows, scheme):
    check(rows, "key", {name: EXACT[name] for name in ("n", "total", "mean_p", "set_", "d_odd")}, scheme=scheme)


def test_moments_are_equal_to_the_last_digits(rows):
    check(rows, "key", CLOSE, scheme="shuffle", off=1e-9)


def test_moments_of_values_far_from_zero(spark):
    """Sums of squares would lose all digits here."""
    df = spark.range(0, 3000, 1, 3).selectExpr("'k' AS key", "1e9D + pmod(xxhash64(id), 1000) / 1000 AS v")
    check(df, "key", {"s": "stddev(v)", "p": "var_pop(v)"}, scheme="shuffle", off=1e-6)


def test_moments_of_one_and_two_rows(spark):
    df = spark.range(0, 3, 1, 3).selectExpr("id % 2 AS key", "double(id) AS v")
    check(df, "key", {"s": "stddev(v)", "vs": "var_samp(v)", "vp": "var_pop(v)"}, scheme="shuffle", off=1e-12)


def test_averages_of_decimals_are_right_to_the_last_digit(spark):
    kinds = [(5, 5), (10, 2), (18, 4), (20, 0), (30, 10), (38, 18), (38, 6)]
    values = [
        f"""if(id % 7 = 0 OR id < 4, NULL, cast((pmod(xxhash64(id), 2000001) - 1000000) / 1000003BD
            * {10 ** min(precision - scale, 12)} AS decimal({precision},{scale}))) AS v{i}"""
        for i, (precision, scale) in enumerate(kinds)
    ]
    df = spark.range(0, 3000, 1, 3).selectExpr("if(id < 4, -1L, id % 64 * (id % 3)) AS key", *values)
    check(df, "key", {f"m{i}": f"avg(v{i})" for i in range(len(kinds))}, scheme="shuffle")


@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_keys_of_several_columns_with_nulls(rows, scheme):
    """('a', null) and (null, 'a') have the same hash, and are two keys."""
    check(rows, ["a", "b"], {"n": "count(*)", "s": "sum(i)", "w": "collect_set(word)"}, scheme=scheme)


@pytest.mark.parametrize(
    "key", ["odd", "s", "day", ["s.x", "t.x"], ["s.keyspread_worker"], ["key", "flag", "s.x"]], ids=str
)
def test_keys_of_other_types_and_fields(rows, key):
    check(rows, key, {"n": "count(*)", "s": "sum(i)"}, scheme="d-choices")


@pytest.mark.connect
@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_keys_as_columns_and_expressions(rows, scheme):
    """The key's columns are named as `groupBy` names them."""
    count = {"n": "count(*)", "s": "sum(i)"}
    for key in (
        [F.col("key")],
        [rows.a, "b"],
        [F.upper("key")],
        [F.lower("word").alias("word"), F.col("s.x")],
        [F.col("odd") * 2, rows.flag],
    ):
        found = aggregate(rows, key[0] if len(key) == 1 else key, count, 4, scheme)
        same(found, plain(rows, key, count))


def test_options_pass_through_to_the_scheme(rows):
    watch = Watch()
    found = aggregate(rows, "key", {"n": "count(*)"}, 4, "planned", threshold=0.1, watch=watch)
    same(found, plain(rows, "key", {"n": "count(*)"}))
    assert watch.balance.rows == ROWS
    assert watch.balance.imbalance < 0.02
    assert str(watch.way) == "planned: the caller chose this scheme"


# Without a scheme


ANY_SQL = [
    *EXACT.values(),
    *CLOSE.values(),
    "median(i)",
    "mode(word)",
    "percentile(i, 0.25)",
    "corr(i, id)",
    "skewness(i)",
    "sum(DISTINCT i)",
    "count(DISTINCT a, b)",
    "sum(i) + sum(id)",
    "max(i) - min(i)",
    "sum(i) FILTER (WHERE i > 0)",
    "upper(max(word))",
    "approx_count_distinct(i, 0.01)",
    "count_if(flag)",
    "count(*) / 2",
    "hll_sketch_estimate(hll_sketch_agg(word))",
    "max(struct(i, word))",
    "histogram_numeric(i, 5)",
]


@pytest.mark.connect
def test_any_sql_without_a_scheme_is_the_plan_of_spark_itself(rows):
    """Equal in every way: Spark says that both queries have the same plan."""
    wanted = {f"r{i}": sql for i, sql in enumerate(ANY_SQL)}
    watch = Watch()
    found = aggregate(rows, "key", wanted, 4, watch=watch)
    assert found.sameSemantics(plain(rows, "key", wanted))
    assert found.columns == ["key", *wanted]
    assert str(watch.way) == "groupBy: Spark folds SQL aggregates before rows move, so a hot key does no harm"
    with pytest.raises(InputError, match=r"no row was routed, so there is no balance \(groupBy: Spark folds .*planned"):
        watch.balance  # noqa: B018


@pytest.mark.connect
def test_any_key_without_a_scheme_is_the_plan_of_spark_itself(rows):
    for key in (
        ["key"],
        ["a", "b"],
        ["s.x", F.upper("key")],
        [F.col("odd") * 2, "flag"],
        [F.window("day", "10 days"), "key"],  # refused with a scheme, which needs window=
        [F.create_map(F.lit("a"), "i")],  # Spark cannot hash a map, but it can group by one
    ):
        columns = [F.count("*"), F.sum("i").alias("total"), F.median("i")]
        found = aggregate(rows, key if len(key) > 1 else key[0], columns, 4)
        by_spark = rows.groupBy(*key).agg(*columns)
        assert found.sameSemantics(by_spark), key
        assert found.schema == by_spark.schema


def test_a_function_of_the_users_own_without_a_scheme(rows):
    found = aggregate(rows, "key", [F.udf(lambda n: n + 1, "bigint")(F.count("*")).alias("more")], 4)
    same(found, plain(rows, "key", {"more": "count(*) + 1"}))


def test_windows_without_a_scheme_are_those_of_spark(rows):
    timed = rows.withColumn("time", F.col("day").cast("timestamp"))
    for slide in (None, "2 days"):
        found = aggregate(timed, "key", {"m": "median(i)"}, 4, window="7 days", slide=slide, time="time")
        by_spark = timed.groupBy(F.window("time", "7 days", slide), "key").agg(F.expr("median(i)").alias("m"))
        assert found.sameSemantics(by_spark)
        assert found.columns == ["window", "key", "m"]


@pytest.mark.parametrize("option", ["weight", "capacities", "plan", "sample", "threshold", "seed", "checkpoint"])
def test_options_that_would_have_no_effect_are_refused(rows, option):
    message = rf"option '{option}' has no effect, because SQL aggregates are Spark's own groupBy.*scheme=\"planned\""
    refused(lambda: aggregate(rows, "key", {"n": "count(*)"}, 4, **{option: 1}), message)


@pytest.mark.connect
def test_what_spark_refuses_is_one_line(rows, capfd):
    count = {"n": "count(*)"}
    for key, aggregates, message in (
        ("key", {**count, "r": "nonsense(i)"}, r"aggregate 'r' is refused by Spark: .*nonsense"),
        ("key", {"r": "sum(nope)"}, r"aggregate 'r' is refused by Spark: .*`nope` cannot be resolved"),
        ("key", {"r": "sum(i"}, r"aggregate 'r' is refused by Spark: .*[Ss]yntax"),
        ("key", {"r": "upper(word)"}, r"aggregate 'r' is refused by Spark: .*word"),
        ("key", {"r": "sum(sum(i))"}, r"aggregate 'r' is refused by Spark: "),
        ("key", [F.count("*"), F.sum("nope")], r"aggregate Column<'sum\(nope\)'> is refused by Spark: .*`nope`"),
        (F.col("nope"), count, r"key Column<'nope'> is refused by Spark: .*`nope`"),
        ("nope", count, r"there is no column 'nope'; the columns are id, key"),
        (F.parse_json(F.lit("1")), count, r"key .* is refused by Spark: "),
        ([], count, r"key must be a column"),
    ):
        refused(lambda key=key, aggregates=aggregates: aggregate(rows, key, aggregates, 4), message)
    assert capfd.readouterr().err == ""


# Sketches


@pytest.fixture(scope="module")
def many(spark):
    df = spark.range(0, 60_000, 1, 3).selectExpr(
        "if(id % 10 = 0, 'small', 'hot') AS key",
        "if(id % 100 = 3, NULL, pmod(xxhash64(id), 20000)) AS v",
        "concat('w', floor(pow(pmod(xxhash64(id, 2), 100000) / 100000, 4) * 50)) AS word",
        "cast(NULL AS int) AS nothing",
    )
    return df.cache()


@pytest.mark.parametrize("scheme", ["planned", "shuffle"])
def test_approximate_distinct_counts(many, scheme):
    found = aggregate(many, "key", {"d": "approx_count_distinct(v)", "z": "approx_count_distinct(nothing)"}, 4, scheme)
    exact = {row.key: row.d for row in plain(many, "key", {"d": "count(DISTINCT v)"}).collect()}
    rows = found.collect()
    assert [field.dataType.simpleString() for field in found.schema.fields] == ["string", "bigint", "bigint"]
    assert {row.key for row in rows} == set(exact)
    for row in rows:
        assert abs(row.d / exact[row.key] - 1) < 4 * 1.04 / math.sqrt(2**14)
        assert row.z == 0


@pytest.mark.parametrize("scheme", ["shuffle"])
def test_approximate_percentiles(many, scheme):
    sql = {
        "half": "approx_percentile(v, 0.5)",
        "several": "percentile_approx(v, array(0.0, 0.1, 0.9, 1.0))",
        "none": "approx_percentile(nothing, 0.5)",
    }
    found = aggregate(many, "key", sql, 4, scheme)
    assert found.schema.simpleString() == plain(many, "key", sql).schema.simpleString()
    values = {
        row.key: np.sort([v for v in row.v if v is not None])
        for row in plain(many, "key", {"v": "array_agg(v)"}).collect()
    }
    rows = found.collect()
    assert {row.key for row in rows} == set(values)
    for row in rows:
        own = values[row.key]
        for share, value in zip((0.5, 0.0, 0.1, 0.9, 1.0), (row.half, *row.several), strict=True):
            rank = np.searchsorted(own, [value, value + 1]) / own.size
            assert rank[0] - 0.01 <= share <= rank[1] + 0.01, (row.key, share, value)
        assert row.none is None
        assert (row.several[0], row.several[-1]) == (own[0], own[-1])


@pytest.mark.parametrize("scheme", ["planned"])
def test_approximate_top_k(many, scheme):
    sql = {"five": "approx_top_k(word)", "three": "approx_top_k(word, 3)"}
    found = aggregate(many, "key", sql, 4, scheme)
    assert found.schema.simpleString() == plain(many, "key", sql).schema.simpleString()
    counts = {}
    for row in many.groupBy("key", "word").count().collect():
        counts.setdefault(row.key, {})[row.word] = row["count"]
    rows = found.collect()
    assert {row.key for row in rows} == set(counts)
    for row in rows:
        top = sorted(counts[row.key].items(), key=lambda pair: -pair[1])
        assert [tuple(item) for item in row.three] == top[:3]  # fifty words are counted exactly
        assert [tuple(item) for item in row.five] == top[:5]


# Names and expressions


def test_names_order_and_the_way_of_spark(rows):
    ways = [
        {"i": "sum", "price": "avg", "eighths": "std", "flag": "bool_or", "*": "count"},
        {"i": "mean", "word": "MAX", "eighths": "size"},
        {"i": "average"},
    ]
    for way in ways:
        found = aggregate(rows, "key", way, 4, "shuffle")
        by_spark = rows.groupBy("key").agg(way)  # Spark does not keep their order, we do
        same(found, by_spark.select(*(f"`{name}`" for name in found.columns)), off=1e-9)
    found = aggregate(rows, "key", {"i": "sum", "word": "count", "id": "max"}, 4, "shuffle")
    assert found.columns == ["key", "sum(i)", "count(word)", "max(id)"]


def test_count_distinct_has_a_name_of_its_own(rows):
    expected = plain(rows, "key", {"d": "count(DISTINCT word)"})
    same(aggregate(rows, "key", {"d": "count_distinct(word)"}, 4, "shuffle"), expected)


def test_names_with_anything_in_them(rows):
    odd = rows.selectExpr("key AS `the.key`", "i AS `a.b`", "i AS `with space`", "i AS `back``tick`", "i AS `x(y`")
    way = {"`a.b`": "sum(`a.b`)", "out.of": "max(`with space`)", "with space": "min(`back``tick`)", "": "sum(`x(y`)"}
    expected = odd.groupBy("`the.key`").agg(*(F.expr(sql).alias(name) for name, sql in way.items()))
    same(aggregate(odd, "the.key", way, 4, "shuffle"), expected)
    for name, function in {"a.b": "sum", "with space": "max", "x(y": "min", "back`tick": "avg"}.items():
        by_spark = odd.groupBy("`the.key`").agg({f"`{name.replace('`', '``')}`": function})
        same(aggregate(odd, "the.key", {name: function}, 4, "shuffle"), by_spark)


def test_columns_called_like_ours_and_results_called_like_keys(rows):
    ours = rows.selectExpr(
        "key AS keyspread_part_0_0", "a AS keyspread_key_0", "i AS keyspread_worker", "i AS keyspread_merged_0_0"
    )
    key = ["keyspread_part_0_0", "keyspread_key_0"]
    sql = {"keyspread_part_0_0": "sum(keyspread_worker)", "keyspread_worker": "max(keyspread_merged_0_0)"}
    for scheme in ("planned", "d-choices"):
        check(ours, key, sql, scheme=scheme)
    check(rows, "key", {"key": "count(*)", "KEY": "avg(i)", "i": "max(i)"}, scheme="shuffle")


EXPRESSIONS = [
    "sum(if(i > 0, i, -1))",
    "count(flag OR i > 0)",
    "count(NOT flag)",
    "sum(i + 1)",
    "sum(DISTINCT_ + 1)",
    "max(concat(word, ', (', '{}', '{0}', \"it's, )\", ')'))",
    r"max(concat(word, 'it\'s, (', '\\'))",
    "max(concat_ws(',', word, 'it''s'))",
    "collect_list(struct(i, word))",
    "sum(aggregate(transform(array(i, 1), x -> x + 1), 0L, (x, y) -> x + y))",
    "max(`a` || ',' || `b`)",
    " SUM ( i ) ",
    "count(DISTINCT(word))",
    "count(DISTINCT struct(i, word))",
    "sum(\n  i\n)",
    "max_by(concat(word, ','), if(i > 0, i * 10000 + id, id))",
    "sum(price * 2)",
    "avg(price / 3)",
    "avg(CASE WHEN flag THEN i ELSE 0 END)",
    "max(map_values(map('a', i))[0])",
    "max(array(i, 2)[0])",
]


def test_expressions_as_arguments(rows):
    df = rows.withColumn("DISTINCT_", F.col("i"))
    check(df, "a", {f"r{i}": sql for i, sql in enumerate(EXPRESSIONS)}, workers=3, scheme="shuffle")


# Two steps


@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
@pytest.mark.parametrize(
    "sql", [{"n": "count(*)"}, {"s": "sum(i)", "n": "count(i)", "d": "max(day)"}], ids=["count", "more"]
)
def test_parts_are_made_by_the_workers_and_nothing_moves_in_between(spark, rows, scheme, sql, capsys):
    for adaptive in ("false", "true"):
        with setting(spark, "spark.sql.adaptive.enabled", adaptive):
            aggregate(rows, "key", sql, 4, scheme).explain()
        text = capsys.readouterr().out
        exchanges = re.findall(r"Exchange (.*)", text)
        # From the top: the merge by key, and the rows to their workers. No third.
        assert len(exchanges) == 2, text
        assert exchanges[0].startswith("hashpartitioning(keyspread_key_0")
        assert "REPARTITION" in exchanges[1]
        assert "keyspread_worker" in exchanges[1]
        between = text[text.index(exchanges[0]) : text.index(exchanges[1])]
        # By worker and key, then, to have less to move, by key alone.
        assert len(re.findall(r"Aggregate\(keys=\[keyspread_worker#\d+, ", between)) >= 1, text
        assert len(re.findall(r"Aggregate\(keys=\[keyspread_key_0#\d+\]", between)) == 1, text
        below = text[text.index(exchanges[1]) :]
        assert "HashAggregate" not in below


# Degenerate


@pytest.mark.parametrize("scheme", ["planned", "d-choices"])
def test_no_row_one_row_one_worker(spark, rows, scheme):
    sql = {"n": "count(*)", "s": "sum(i)", "m": "avg(price)", "v": "stddev(i)", "l": "collect_list(word)"}
    for df in (rows.limit(0), rows.where("id = 7")):
        check(df, "key", sql, scheme=scheme, off=1e-12)
    sketches = {"d": "approx_count_distinct(i)", "p": "approx_percentile(i, 0.5)", "t": "approx_top_k(word)"}
    check(rows.limit(0), "key", sketches, scheme=scheme)
    check(rows.where("id = 7"), "key", sketches, scheme=scheme)
    check(rows, "key", {"n": "count(*)"}, workers=1, scheme=scheme)


# Bad input


def refused(call, match):
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "median(i)",
        "mode(i)",
        "first(i)",
        "last(i)",
        "any_value(i)",
        "percentile(i, 0.5)",
        "corr(i, id)",
        "skewness(i)",
        "grouping(i)",
        "sum(DISTINCT i)",
        "avg(distinct i)",
        "count(DISTINCT a, b)",
        "listagg(word)",
        "upper(word)",
        "nonsense(i)",
    ],
)
def test_what_cannot_be_merged_is_refused_with_what_can(rows, sql):
    with pytest.raises(InputError, match=r"aggregate 'r': '.*' cannot be merged from parts; these can: ") as caught:
        aggregate(rows, "key", {"r": sql}, 4, "planned")
    for known in ("approx_top_k", "avg", "count", "max_by", "stddev", "pass an Operator"):
        assert known in str(caught.value)


@pytest.mark.parametrize("sql", ["avg(make_dt_interval(0, 0, 0, i))", "count(DISTINCT word COLLATE UTF8_LCASE)"])
def test_a_type_whose_parts_spark_refuses_is_one_line(rows, sql):
    with pytest.raises(
        InputError, match=r"aggregate '(avg|count)\(.*' cannot be merged from parts: .*; cast its column"
    ):
        aggregate(rows, "key", {"n": "count(*)", "r": sql}, 4, "planned")


@pytest.mark.parametrize(
    "sql",
    [
        "sum(i) + sum(id)",
        "max(i) - min(i)",
        "sum(i) FILTER (WHERE i > 0)",
        "sum(i) * 2",
        "i + 1",
        "sum(i",
        "sum i",
        "(i)",
        "",
    ],
)
def test_anything_but_one_call_is_refused(rows, sql):
    """Merged from parts, 'max(i) - min(i)' would be the largest difference on one worker."""
    with pytest.raises(
        InputError, match=r"aggregate 'r'.* must be (one call|SQL text) such as 'sum\(amount\)'|cannot be merged"
    ):
        aggregate(rows, "key", {"r": sql}, 4, "planned")


@pytest.mark.parametrize(
    ("sql", "takes"),
    [
        ("count(a, b)", "'count' takes 1 argument"),
        ("count()", "'count' takes 1 argument"),
        ("sum(i, id)", "'sum' takes 1 argument"),
        ("count_distinct(a, b)", "'count_distinct' takes 1 argument"),
        ("max_by(i)", "'max_by' takes 2 argument"),
        ("approx_percentile(i)", "'approx_percentile' takes 2 argument"),
        ("approx_percentile(i, 0.5, 100)", "'approx_percentile' takes 2 argument"),
        ("approx_count_distinct(i, 0.01)", "'approx_count_distinct' takes 1 argument"),
        ("approx_top_k(i, 5, 100)", "'approx_top_k' takes 1 or 2 argument"),
        ("count(DISTINCT *)", "'count_distinct' of \\* cannot be merged"),
        ("sum(*)", "'sum' of \\* cannot be merged"),
        ("collect_list(*)", "'collect_list' of \\* cannot be merged"),
    ],
)
def test_arguments_that_would_be_ignored_are_refused(rows, sql, takes):
    refused(lambda: aggregate(rows, "key", {"r": sql}, 4, "planned"), f"aggregate 'r': {takes}")


@pytest.mark.parametrize("aggregates", [{}, None, [], "count(*)", ["count(*)"], {"n": 3}, {"n": None}, {"n": F.lit}])
def test_aggregates_that_are_none(rows, aggregates):
    for scheme in (None, "planned"):
        refused(lambda scheme=scheme: aggregate(rows, "key", aggregates, 4, scheme), "aggregates? .*must be")


def test_keys_workers_and_schemes_are_checked_as_by_spread(rows):
    count = {"n": "count(*)"}
    refused(lambda: aggregate(rows, "nope", count, 4), "there is no column 'nope'; the columns are id, key, a, b")
    refused(lambda: aggregate(rows, "key", count, 0), "workers must be at least 1, got 0")
    refused(lambda: aggregate(rows, "key", count, 4, "best"), "unknown scheme 'best'")
    refused(lambda: aggregate(rows, "key", count, 4, "planned", treshold=1), "unknown option 'treshold'")
    refused(lambda: aggregate(rows.selectExpr("map(id, 1) AS m"), "m", count, 4, "planned"), "cannot hash maps")
