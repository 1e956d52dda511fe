"""The exchange: partition w holds the rows of worker w, whatever Spark does to plans."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from frames import places, setting
from keyspread.spark._routing.exchange import move


@pytest.fixture(params=["true", "false"], ids=["adaptive", "static"])
def adaptive(spark, request):
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


@pytest.mark.parametrize("workers", [2, 200])
def test_partition_w_holds_the_rows_of_worker_w(spark, adaptive, workers):
    rows = spark.range(0, 100, 1, 2).selectExpr("id", f"int(id * id % {workers}) AS w")  # squares: some have no row
    expected = {id_: id_ * id_ % workers for id_ in range(100)}
    out = move(rows, workers, "w")
    assert places(out) == expected
    assert out.rdd.getNumPartitions() == workers


def test_grouping_by_the_tag_needs_no_further_exchange(spark, adaptive, capsys):
    rows = spark.range(0, 100, 1, 2).selectExpr("id % 7 AS key", "int(id % 3) AS w")
    grouped = move(rows, 3, "w").groupBy("w", "key").agg(F.sum(F.lit(1)))
    grouped.explain()
    assert capsys.readouterr().out.count("Exchange ") == 1
    assert len(grouped.collect()) == 21


def test_a_stream(spark, tmp_path):
    spark.range(0, 60, 1, 2).selectExpr("id", "int(id % 5) AS w").write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id bigint, w int").parquet(str(tmp_path / "rows"))
    seen = []

    def keep(batch, _):
        seen.extend((row.id, row.at) for row in batch.collect())

    out = move(stream, 5, "w").select("id", F.spark_partition_id().alias("at"))
    query = out.writeStream.foreachBatch(keep).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(seen) == [(id_, id_ % 5) for id_ in range(60)]
