"""Random joins: tables with hot, missing and null keys of any type, and plans that cut their keys into random grids.

A case is our join beside Spark's own. Many cases are compared in one job: each row of ours counts 1, each of Spark's
counts -1, and every sum by case and row must be 0. As a script it runs cases without end:
python join_cases.py SECONDS [SEED]
"""

import random
import sys
import time
from functools import reduce

from pyspark.sql import functions as F

from keyspread.spark._joining.assembly import Join
from keyspread.spark._joining.counting import fingerprint
from keyspread.spark._joining.grid import may_cut
from keyspread.spark._joining.keys import Kind, join_keys
from keyspread.spark._joining.plan import HotJoinKey, JoinPlan
from keyspread.spark._routing.repeatable import PROTECTION, is_protected

HOWS = [kind.value for kind in Kind]
CONDITION = "(v + w) % 3 < 2"
PARTITIONS = 4

# What a key looks like, made from a whole number n of 0 to 9: the same n is the same key on both sides.
KINDS = {
    "bigint": ("n", "n"),
    "int and bigint": ("int(n)", "n"),
    "int and decimal": ("int(n)", "CAST(n AS DECIMAL(10,2))"),
    "decimals": ("CAST(n AS DECIMAL(7,1))", "CAST(n AS DECIMAL(20,4))"),
    "string": ("concat('key ', n)", "concat('key ', n)"),
    "double": (
        "IF(n = 0, IF(v % 2 = 0, -0.0D, 0.0D), IF(n = 1, double('NaN'), double(n)))",
        "IF(n = 1, double('NaN'), double(n))",
    ),
    "float and double": ("IF(n = 1, float('NaN'), float(n))", "IF(n = 0, -0.0D, IF(n = 1, double('NaN'), double(n)))"),
    "struct": (
        "named_struct('a', IF(n % 3 = 0, NULL, n), 'b', IF(n % 3 = 0, n, NULL))",
        "named_struct('a', IF(n % 3 = 0, NULL, n), 'b', IF(n % 3 = 0, n, NULL))",
    ),
    "array": ("array(n, NULL, 1L)", "array(n, NULL, 1L)"),
    "date and timestamp": ("date_add(DATE'2026-01-01', int(n))", "timestamp(date_add(DATE'2026-01-01', int(n)))"),
    "timestamp": ("timestamp_seconds(n)", "timestamp_seconds(n)"),
    "boolean": ("n % 2 = 0", "n % 2 = 0"),
    "binary": ("CAST(concat('key ', n) AS BINARY)", "CAST(concat('key ', n) AS BINARY)"),
    "tinyint": ("tinyint(n)", "tinyint(n)"),
}
COLLATED = {
    "collated string": (
        "IF(v % 2 = 0, concat('KEY ', n), concat('key ', n)) COLLATE UTF8_LCASE",
        "concat('Key ', n) COLLATE UTF8_LCASE",
    ),
}
WHOLE = {"string and int": ("string(n)", "int(n)"), "struct of doubles": ("named_struct('a', double(n))",) * 2}


def tables(spark, rng, kind, columns=1):
    """Return both sides with key columns k0, k1, … and a value that tells rows apart, but for some duplicates."""
    sides = []
    for number, value in enumerate("vw"):
        many = rng.choice([0, 1, 12, 25, 40])
        hot = rng.choice([None, 0, 3, 3, 4])
        own = []
        for row in range(many):
            key = hot if hot is not None and rng.random() < 0.5 else rng.choice([None, *range(rng.choice([3, 10]))])
            own.append((key, row if rng.random() < 0.8 else 0))
        rows = spark.createDataFrame(own, f"n bigint, {value} bigint").repartition(rng.choice([1, 3]))
        text = kind[number].replace("v %", f"{value} %")
        more = [f"IF(n IS NULL OR {value} % 11 = 5, NULL, n % 2) AS k{one}" for one in range(1, columns)]
        sides.append(rows.selectExpr(f"IF(n IS NULL, NULL, {text}) AS k0", *more, value))
    return sides


def count_keys(left, right, keys):
    """Return the rows of every key on either side: (fingerprint, hash) -> (left rows, right rows)."""
    parts = []
    for number, (df, side) in enumerate(((left, "left"), (right, "right"))):
        texts = [
            f"{fingerprint(keys, side)} AS fp",
            f"hash({', '.join(keys.sql_of(side))}) AS hash",
            f"{number} AS side",
        ]
        parts.append(df.where(f"NOT ({keys.has_null(side)})").selectExpr(*texts))
    sums = [F.sum(F.expr(f"int(side = {number})")).alias(f"rows_{number}") for number in range(2)]
    return {
        tuple(row)[:2]: tuple(row)[2:] for row in parts[0].union(parts[1]).groupBy("fp", "hash").agg(*sums).collect()
    }


def random_plan(rng, keys, counts, kind, condition):
    """Return a plan that cuts about half of the keys, as the rules allow, into any grid on any workers."""
    for_any_rows = rng.random() < 0.3
    hot = []
    for found, rows in sorted(counts.items()):
        if rng.random() < 0.4:
            continue
        allowed = may_cut(kind, condition is not None, *rows, for_any_rows)
        sizes = [rng.choice([1, 2, 3, 5]) if one else 1 for one in allowed]
        shares = [shares_of(rng, size) for size in sizes]
        workers = tuple(rng.randrange(PARTITIONS) for _ in range(sizes[0] * sizes[1]))
        # A plan for any rows was made from others.
        hot.append(HotJoinKey(str(found), *((0, 0) if for_any_rows else rows), *shares, workers, *found))
    spread = (kind.preserves_left and rng.random() < 0.5, kind.preserves_right and rng.random() < 0.5)
    return JoinPlan(
        PARTITIONS, kind.value, keys.names, keys.null_safe, condition is not None, hot=tuple(hot), spread_nulls=spread
    )


def shares_of(rng, size):
    found = [rng.random() + 0.05 for _ in range(size)]
    return tuple(one / sum(found) for one in found)


def spark_join(left, right, on, how, condition, null_safe):
    """Return Spark's own join with the columns that ours has."""
    right = right.toDF(*(f"r_{name}" if name.startswith("k") else name for name in right.columns))
    equal = [
        F.col(name).eqNullSafe(F.col(f"r_{name}")) if null_safe else F.col(name) == F.col(f"r_{name}") for name in on
    ]
    if condition is not None:
        equal.append(F.expr(condition))
    joined = left.join(right, reduce(lambda one, other: one & other, equal), how)
    if how in ("left_semi", "left_anti"):
        return joined.select(*on, "v")
    keys = {"right": lambda name: F.col(f"r_{name}"), "full": lambda name: F.coalesce(name, f"r_{name}")}
    return joined.select(*(keys.get(how, F.col)(name).alias(name) for name in on), "v", "w")


def counted(df, case, sign):
    """Return the hash of each row, with the number of its case and a count. Keys become text, which all types have."""
    columns = [F.col(name) for name in df.columns]
    # Of equal keys (-0.0 and 0.0, texts that differ in case) a join may return either.
    texts = [
        F.lower(F.to_json(F.struct((F.abs(c) if str(t) in ("DoubleType()", "FloatType()") else c).alias("x"))))
        for c, t in zip(columns, (f.dataType for f in df.schema.fields), strict=True)
    ]
    return df.select(F.lit(case).alias("case"), F.concat_ws("|", *texts).alias("row"), F.lit(sign).alias("times"))


def cases_of(spark, rng, kind, hows=HOWS):
    """Return (description, ours, Spark's own) of one pair of tables and each type of join."""
    columns = rng.choice([1, 1, 2])
    left, right = tables(spark, rng, kind, columns)
    on = [f"k{number}" for number in range(columns)]
    null_safe = rng.random() < 0.25
    keys = join_keys(left, right, on, null_safe)
    counts = count_keys(left, right, keys)
    found = []
    for how in hows:
        condition = rng.choice([None, None, CONDITION])
        plan = random_plan(rng, keys, counts, Kind(how), condition)
        ours = Join(left, right, keys, Kind(how), condition).by_plan(plan)
        plain = spark_join(left, right, on, how, condition, null_safe)
        assert ours.columns == plain.columns, (how, ours.columns, plain.columns)
        pieces = [key.pieces for key in plan.hot]
        found.append((f"{how} {condition=} {null_safe=} {pieces=} nulls={plan.spread_nulls}", ours, plain))
    return found


def differences(cases):
    """Return the descriptions of the cases in which ours and Spark's own rows differ, with the rows; in one job."""
    parts = [
        counted(df, number, sign)
        for number, (_, *both) in enumerate(cases)
        for df, sign in zip(both, (1, -1), strict=True)
    ]
    rows = reduce(lambda one, other: one.union(other), parts).groupBy("case", "row").agg(F.sum("times").alias("times"))
    return [(cases[row.case][0], row.row, row.times) for row in rows.where("times <> 0").collect()]


def same(cases):
    """Check that ours has the columns and the rows of Spark's own, for each (name, ours, plain)."""
    for name, ours, plain in cases:
        assert ours.columns == plain.columns, name
    # Both sides may have columns of the same name, which the comparison tells apart by their place.
    placed = [
        (name, *(df.toDF(*(f"c{number}" for number in range(len(df.columns)))) for df in both)) for name, *both in cases
    ]
    assert differences(placed) == []


def main(seconds, seed):
    from keyspread.spark import session

    spark = session(master="local[2]", **settings())
    kinds, can_be_protected = KINDS, is_protected(spark)
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rng = random.Random(seed)
        name = rng.choice(sorted(kinds))
        spark.conf.set("spark.sql.adaptive.enabled", rng.choice(["true", "false"]))
        spark.conf.set("spark.sql.shuffle.partitions", rng.choice([PARTITIONS, 2, 9]))
        if can_be_protected:
            spark.conf.set(PROTECTION[0], rng.choice(["true", "false"]))
        cases = cases_of(spark, rng, kinds[name])
        wrong = differences(cases)
        tried += len(cases)
        if wrong:
            print(f"seed {seed}, {name}: {wrong[:5]}")
            raise SystemExit(1)
        seed += 1
    print(f"{tried} joins, none differs; next seed {seed}")
    spark.stop()


def has_collations(spark):
    from keyspread.spark._engine.capabilities import has_function

    return has_function(spark, "collation")


def settings():
    """Return what makes tiny jobs fast, and joins shuffle."""
    from keyspread.spark._launch.java import SHORT_LIVED

    return {
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.sql.autoBroadcastJoinThreshold": -1,
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
    }


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
