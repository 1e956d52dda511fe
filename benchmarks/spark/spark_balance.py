"""Balance and replicas on Spark for generated and real streams, n = 50, compared with `simulate`.

Bars: planned has I * n <= 0.02 where a worker gets 5,000 rows or more, at <= 1.1 replicas per tail key. The online
schemes route exactly as in-process. The simulator assigns messages to its sources in turn, while each sender on Spark
has a block of rows, so the imbalances are similar but not equal.
"""

import tempfile

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.spark import session, spread
from keyspread.streams import read_stream, zipf

from common import real_streams, show, verdict

WORKERS, SOURCES, ROWS = 50, 5, 1_000_000
SCHEMES = ("key", "partial-key", "d-choices", "w-choices", "planned")


def streams() -> dict[str, np.ndarray]:
    found = {
        "Zipf 0.0": zipf(0.0, 10_000, ROWS),
        "Zipf 1.4": zipf(1.4, 10_000, ROWS),
        "Zipf 2.0": zipf(2.0, 10_000, ROWS),
    }
    return found | {name: read_stream(path).hashes for name, path in real_streams().items()}


def pairs(rows: DataFrame, scheme: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return key, worker and number of rows of every replica."""
    placed = spread(rows, "key", WORKERS, scheme).select("key", F.spark_partition_id().alias("worker"))
    counted = placed.groupBy("key", "worker").agg(F.count("*").alias("rows")).toArrow()
    return tuple(np.asarray(counted[name]) for name in ("key", "worker", "rows"))  # type: ignore[return-value]


def measure(spark: SparkSession, name: str, keys: np.ndarray, folder: str) -> list[tuple[object, ...]]:
    path = f"{folder}/{name.replace(' ', '_')}"
    spark.createDataFrame(pa.table({"key": keys})).repartition(SOURCES).write.parquet(path)
    rows = spark.read.parquet(path)
    distinct, counts = np.unique(keys, return_counts=True)
    tail = distinct[counts < keys.size / (5 * WORKERS)]
    table = []
    for scheme in SCHEMES:
        key, worker, count = pairs(rows, scheme)
        loads = np.bincount(worker, weights=count, minlength=WORKERS)
        uneven = (loads.max() / loads.sum() - 1 / WORKERS) * WORKERS
        of_tail = np.isin(key, tail).sum() / max(1, tail.size)
        said = ks.simulate(ks.hash_keys(keys), scheme, WORKERS, sources=SOURCES, windows=1).imbalance * WORKERS
        judged = ""
        if scheme == "planned":
            judged = verdict((uneven <= 0.02 or keys.size / WORKERS < 5000) and of_tail <= 1.1)
        table.append(
            (name, scheme, uneven, said, key.size, f"{key.size / distinct.size:.2f}", f"{of_tail:.2f}", judged)
        )
    return table


def main() -> None:
    spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": 8, "spark.driver.memory": "4g"})
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in streams().items():
            table += measure(spark, name, keys, folder)
    columns = ("stream", "scheme", "I * n", "simulated", "replicas", "per key", "per tail key", "verdict")
    show(f"On Spark, n = {WORKERS}", columns, table)


if __name__ == "__main__":
    main()
