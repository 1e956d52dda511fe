"""Jobs without a hot key that take long for another reason, or look uneven and lose nothing."""

import threading
import time
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from truth.rig import MILLISECONDS, PARTITIONS, SLOTS, Job, Rig, slow, use


def work(group: pd.DataFrame) -> pd.DataFrame:
    """Sleep per row and return one row per group."""
    time.sleep(MILLISECONDS / 1000 * len(group))
    return pd.DataFrame({"customer": group["customer"][:1], "rows": [len(group)]})


def even_jobs(rig: Rig) -> list[Job]:
    """Return the jobs; none has a finding of skew."""
    spark, orders, even, customers = rig.spark, rig.orders, rig.even, rig.customers

    def grouped(df: DataFrame, key: str) -> None:
        df.groupBy(key).applyInPandas(work, "customer long, rows long").collect()

    def uneven_files() -> str:
        """Write eight files, of which one has most rows, and return their folder."""
        path = rig.new_path()
        part = F.when(F.col("amount") % 10 < 6, 0).otherwise(F.col("amount") % 8)
        even.withColumn("p", part).repartition(SLOTS, "p").write.partitionBy("p").parquet(path)
        return path

    def waits(batches: Any) -> Any:
        if TaskContext.get().partitionId() == 5:  # type: ignore[union-attr]
            time.sleep(5)
        for batch in batches:
            yield batch[["customer"]]

    def fails_once(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        time.sleep(0.5)
        if context.partitionId() % 4 == 1 and context.attemptNumber() == 0:
            time.sleep(2)
            raise ValueError("first attempt")
        for batch in batches:
            yield batch[["customer"]]

    def shared() -> None:
        other = threading.Thread(target=lambda: use(slow(even.repartition(2 * PARTITIONS, "customer"))))
        other.start()
        use(slow(even.repartition(PARTITIONS, "customer")))
        other.join()

    def tiny() -> None:
        for _ in range(5):
            use(orders.repartition(PARTITIONS, "customer"))

    def streamed() -> None:
        source = rig.new_path()
        even.where("amount % 20 < 2").repartition(1).write.parquet(source)
        even.where("amount % 20 >= 2").repartition(1).write.mode("append").parquet(source)
        read = spark.readStream.schema(even.schema).option("maxFilesPerTrigger", 1).parquet(source)
        query = slow(read.repartition(PARTITIONS, "customer")).writeStream.format("noop")
        query.option("checkpointLocation", rig.new_path()).trigger(availableNow=True).start().awaitTermination()

    def cached() -> None:
        held = slow(even.repartition(PARTITIONS, "customer")).cache()
        held.count()
        use(held)
        held.unpersist()

    # The work does not depend on the rows of a partition: the hot key is there and costs nothing.
    per_task = "if(row_number() OVER (PARTITION BY p ORDER BY amount) = 1, 1000L, 0L)"
    constant = orders.repartition(PARTITIONS, "customer").withColumn("p", F.spark_partition_id())
    constant = constant.selectExpr("*", f"java_method('java.lang.Thread', 'sleep', {per_task}) AS z")
    no_rank = even.withColumn("rank", F.row_number().over(Window.partitionBy("customer").orderBy("amount")))
    return [
        Job("applyInPandas, even", lambda: grouped(even, "customer")),
        Job("even join", lambda: use(slow(even.join(customers, "customer", "left")))),
        Job("even window", lambda: use(slow(no_rank))),
        Job("count of a hot key: folded", lambda: use(orders.groupBy("customer").count())),
        Job(
            "count of distinct values of a hot key",
            lambda: use(orders.groupBy("customer").agg(F.countDistinct("amount").alias("n"))),
        ),
        Job("many waves", lambda: use(slow(even.repartition(101, "customer")))),
        Job("17 tasks on 8 slots", lambda: use(slow(even.repartition(17, "customer")))),
        Job("tiny stages with a hot key", tiny),
        Job("uneven files", lambda: use(slow(spark.read.parquet(uneven_files()))), kinds=("uneven-input",)),
        Job(
            "uneven files, then a partial aggregate",
            lambda: use(slow(spark.read.parquet(uneven_files())).groupBy("customer").agg(F.count("z").alias("n"))),
            kinds=("uneven-input",),
        ),
        Job(
            "uneven files, then a broadcast join",
            lambda: use(slow(spark.read.parquet(uneven_files()).join(F.broadcast(customers), "customer"))),
            kinds=("uneven-input",),
        ),
        Job(
            "a slow task without more rows",
            lambda: use(even.repartition(PARTITIONS, "customer").mapInPandas(waits, "customer long")),
            kinds=("stragglers",),
        ),
        Job(
            "tasks that fail once",
            lambda: use(even.repartition(PARTITIONS, "customer").mapInPandas(fails_once, "customer long")),
            kinds=("retries",),
        ),
        Job("slots shared by two jobs", shared),
        Job("batches of different sizes", streamed),
        Job("one partition", lambda: use(slow(even.repartition(1))), kinds=("serial",)),
        Job("cache, even", cached),
        Job("skewed rows, work that does not depend on them", lambda: use(constant)),
        Job(
            "union of a shuffle and files",
            lambda: use(slow(no_rank).unionByName(slow(even.limit(100).withColumn("rank", F.lit(0))))),
        ),
        Job(
            "skewed join that adaptive execution splits",
            lambda: use(slow(orders.join(customers, "customer"))),
            settings={
                "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1k",
                "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
                "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
            },
        ),
        Job("broadcast join with a hot key", lambda: use(slow(orders.join(F.broadcast(customers), "customer")))),
    ]
