"""Jobs that lose time to customer 7, each in another way."""

import time
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from truth.rig import MILLISECONDS, PARTITIONS, Job, Rig, slow, use

SIZED = f"java_method('java.lang.Thread', 'sleep', cast({MILLISECONDS} * size(list) AS bigint)) AS z"

CASE = "CASE WHEN name = 'c7' THEN 'seven' ELSE substr(name, 1, 3) END"


def work(group: pd.DataFrame) -> pd.DataFrame:
    """Sleep per row and return one row per group."""
    time.sleep(MILLISECONDS / 1000 * len(group))
    return pd.DataFrame({"customer": group["customer"][:1], "rows": [len(group)]})


def together(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Sleep per left row and return one row per group."""
    time.sleep(MILLISECONDS / 1000 * len(left))
    return pd.DataFrame({"rows": [len(left) + len(right)]})


def skewed_jobs(rig: Rig) -> list[Job]:
    """Return the jobs; every one has one finding of skew."""
    spark, orders, customers = rig.spark, rig.orders, rig.customers
    rank = F.row_number().over(Window.partitionBy("customer").orderBy("amount"))
    ranked = orders.withColumn("rank", rank)
    sides: dict[str, Any] = {"left": orders, "right": customers}
    one: dict[str, Any] = {"df": orders, "windowed": ranked}
    renamed = customers.selectExpr("customer AS id", "city", "concat('c', customer) AS title")
    named = customers.withColumn("name", F.expr("concat('c', customer)"))
    nulls = rig.stored("nulls", orders.withColumn("customer", F.expr("nullif(customer, 7)")))
    # 150 x 30 rows of one customer are 4,500 of 5,300 output rows, but only 180 of the 5,600 rows that are shuffled.
    few = orders.where("customer != 7 OR amount % 11 = 0").where("amount % 2 = 0 OR customer = 7")
    many = customers.join(spark.range(25).withColumnRenamed("id", "copy")).where("customer = 7 OR copy = 0")
    schema = "customer long, rows long"

    def grouped(df: DataFrame, *keys: Any) -> None:
        df.groupBy(*keys).applyInPandas(work, schema).collect()

    def collected(df: DataFrame, *keys: Any, function: Any = F.collect_list) -> None:
        use(df.groupBy(*keys).agg(function("amount").alias("list")).selectExpr("list", SIZED))

    def cached() -> None:
        held = orders.repartition(PARTITIONS, "customer").cache()
        held.count()
        use(slow(held))
        held.unpersist()

    def filled() -> None:
        held = slow(orders.repartition(PARTITIONS, "customer")).cache()
        held.count()
        held.unpersist()

    def read_stream(source: str) -> DataFrame:
        return spark.readStream.schema(orders.schema).option("maxFilesPerTrigger", 1).parquet(source)

    def stream(batches: int, change: Any) -> None:
        source = rig.new_path()
        orders.repartition(batches).write.parquet(source)
        query = change(read_stream(source)).writeStream.format("noop").option("checkpointLocation", rig.new_path())
        query.outputMode("update").trigger(availableNow=True).start().awaitTermination()

    def stateful(df: DataFrame) -> DataFrame:
        return df.groupBy("customer").agg(F.collect_list("amount").alias("list")).selectExpr("customer", SIZED)

    def union() -> None:
        new = slow(rig.even.limit(200).select(orders.columns).withColumn("rank", F.lit(0)))
        use(slow(ranked).unionByName(new))

    def reused() -> None:
        joined = (
            orders.withColumn("rank", rank)
            .alias("a")
            .join(orders.groupBy("customer").applyInPandas(work, schema).alias("b"), "customer")
        )
        use(joined)

    def two_windows() -> None:
        first = slow(orders.withColumn("rank", rank)).select("customer", "rank", "z")
        second = orders.withColumn("sum", F.sum("amount").over(Window.partitionBy("customer"))).select(
            "customer", "sum"
        )
        use(first.unionByName(second, allowMissingColumns=True))

    def written() -> None:
        slow(orders.repartition(PARTITIONS, "customer")).write.parquet(rig.new_path())

    def in_python(batches: Any) -> Any:
        for batch in batches:
            time.sleep(MILLISECONDS / 1000 * len(batch))
            yield batch[["customer"]]

    return [
        Job(
            "applyInPandas, cold Python", lambda: grouped(orders, "customer"), "applyInPandas", ("customer",), names=one
        ),
        Job(
            "join", lambda: use(slow(orders.join(customers, "customer"))), "sort-merge join", ("customer",), names=sides
        ),
        Job(
            "join by other names",
            lambda: use(slow(orders.join(renamed, orders["customer"] == renamed["id"]))),
            "sort-merge join",
            ("customer",),
            names={"left": orders, "right": renamed},
        ),
        Job(
            "shuffled hash join",
            lambda: use(slow(orders.join(customers.hint("shuffle_hash"), "customer"))),
            "shuffled hash join",
            ("customer",),
            names=sides,
        ),
        Job(
            "left join",
            lambda: use(slow(orders.join(customers, "customer", "left"))),
            "sort-merge join, left outer",
            ("customer",),
            names=sides,
        ),
        Job(
            "left join, null keys",
            lambda: use(slow(nulls.join(customers, "customer", "left"))),
            "sort-merge join, left outer",
            ("customer",),
            names={"left": nulls, "right": customers},
        ),
        Job(
            "full join",
            lambda: use(slow(orders.join(customers, "customer", "full"))),
            "sort-merge join, full outer",
            ("customer",),
            names=sides,
        ),
        Job(
            "semi join",
            lambda: use(slow(orders.join(customers, "customer", "semi"))),
            "sort-merge join, left semi",
            ("customer",),
            names=sides,
        ),
        Job(
            "join, text keys",
            lambda: use(slow(orders.join(named.drop("customer"), "name"))),
            "sort-merge join",
            ("name",),
            names={"left": orders, "right": named.drop("customer")},
        ),
        Job(
            "join, two columns",
            lambda: use(slow(orders.join(named, ["customer", "name"]))),
            "sort-merge join",
            ("customer", "name"),
            names={"left": orders, "right": named},
        ),
        Job(
            "join by an expression",
            lambda: use(slow(orders.join(renamed, F.expr("upper(name) = upper(title)")))),
            "sort-merge join",
            ("upper(name)",),
            names={"left": orders, "right": renamed},
        ),
        Job(
            "join of a text with a number",
            lambda: use(slow(orders.drop("customer").join(renamed, F.expr("`client id` = id")))),
            "sort-merge join",
            ("client id",),
            names={"left": orders.drop("customer"), "right": renamed},
        ),
        Job(
            "join, name with a dot",
            lambda: use(slow(rig.dotted.join(renamed, F.expr("`client.code` = id")))),
            "sort-merge join",
            ("client.code",),
            names={"left": rig.dotted, "right": renamed},
        ),
        Job(
            "join, output skew",
            lambda: use(slow(few.join(many, "customer"))),
            "sort-merge join",
            ("customer",),
            names={"left": few, "right": many},
        ),
        Job("window", lambda: use(slow(ranked)), "window", ("customer",), names=one),
        Job("top n per key", lambda: use(slow(ranked).where("rank < 5000")), "window", ("customer",), names=one),
        Job(
            "collect_list", lambda: collected(orders, "customer"), "aggregate (collect_list)", ("customer",), names=one
        ),
        Job(
            "collect_set",
            lambda: collected(orders, "customer", function=F.collect_set),
            "aggregate (collect_set)",
            ("customer",),
            names=one,
        ),
        Job(
            "collect_list by an expression",
            lambda: collected(orders, F.expr("customer % 50")),
            "aggregate (collect_list)",
            ("customer % 50",),
            names=one,
        ),
        Job(
            "collect_list by upper(name)",
            lambda: collected(orders, F.upper("name")),
            "aggregate (collect_list)",
            ("upper(name)",),
            names=one,
        ),
        Job(
            "collect_list by a case",
            lambda: collected(orders, F.expr(CASE)),
            "aggregate (collect_list)",
            ("CASE WHEN (name = c7) THEN seven ELSE s…",),
            names={**one, "key": F.expr(CASE)},
        ),
        Job(
            "collect_list, name with a blank",
            lambda: collected(orders, "client id"),
            "aggregate (collect_list)",
            ("client id",),
            names=one,
        ),
        Job(
            "collect_list, name with a dot",
            lambda: collected(rig.dotted, "`client.code`"),
            "aggregate (collect_list)",
            ("client.code",),
            names={"df": rig.dotted},
        ),
        Job(
            "collect_list, rollup",
            lambda: use(
                orders.rollup("customer", "region")
                .agg(F.collect_list("amount").alias("list"))
                .selectExpr("list", SIZED)
            ),
            "aggregate (collect_list)",
            ("customer", "region"),
            names=one,
        ),
        Job(
            "collect_list by a time window",
            lambda: collected(orders, F.window("at", "1 hour")),
            "aggregate (collect_list)",
            ("window",),
            names=one,
        ),
        Job(
            "applyInPandas by region",
            lambda: grouped(orders, "customer", "region"),
            "applyInPandas",
            ("customer", "region"),
            names=one,
        ),
        Job(
            "applyInPandas by an expression",
            lambda: grouped(orders, (F.col("customer") % 50).alias("bucket")),
            "applyInPandas",
            ("bucket (customer % 50)",),
            names=one,
        ),
        Job(
            "cogroup.applyInPandas",
            lambda: (
                orders.groupBy("customer")
                .cogroup(customers.groupBy("customer"))
                .applyInPandas(together, "rows long")
                .collect()
            ),
            "cogroup.applyInPandas",
            ("customer",),
            names=sides,
        ),
        Job(
            "repartition, mapInPandas",
            lambda: use(orders.repartition(PARTITIONS, "customer").mapInPandas(in_python, "customer long")),
            "repartition before mapInPandas",
            ("customer",),
            names=one,
        ),
        Job(
            "repartition",
            lambda: use(slow(orders.repartition(PARTITIONS, "customer"))),
            "repartition",
            ("customer",),
            names=one,
        ),
        Job(
            "repartition, then a broadcast join",
            lambda: use(slow(orders.repartition(PARTITIONS, "customer").join(F.broadcast(customers), "customer"))),
            "repartition",
            ("customer",),
            names=one,
        ),
        Job("sort", lambda: use(slow(orders.orderBy("customer"))), "sort", ("customer",), names=one),
        Job("write", written, "repartition before a write", ("customer",), names=one),
        Job("union", union, "window", ("customer",), names=one),
        Job("reused exchange: window and applyInPandas", reused, "applyInPandas", ("customer",), names=one),
        Job("reused exchange: two windows", two_windows, "window", ("customer",), names=one),
        Job("read from a cache", cached, "cached repartition", ("customer",), names=one),
        Job("fill a cache", filled, "repartition", ("customer",), names=one),
        Job(
            "window behind a join",
            lambda: use(slow(orders.join(customers, "customer").withColumn("rank", rank))),
            "sort-merge join",
            ("customer",),
            names=sides,
        ),
        Job(
            "stream, repartition",
            lambda: stream(3, lambda df: slow(df.repartition(PARTITIONS, "customer"))),
            "repartition in a stream",
            ("customer",),
            names=one,
        ),
        Job(
            "stream, collect_list",
            lambda: stream(2, stateful),
            "stateful aggregate (collect_list)",
            ("customer",),
            names={"stream": read_stream(rig.path("orders"))},
        ),
    ]
