"""Lose shuffle blocks in the middle of joins; test_lost_join_blocks.py starts this script.

python lose_join_blocks.py prints one JSON object per type of join: the rows of our join, of which half were read before
an executor was killed and half after it, beside Spark's own rows. The left side comes from a shuffle and Spark's
checksums are off, so that a retried task reads its rows in another order and nothing but the salts protects them.
"""

import json

from lose_shuffle_blocks import UNPROTECTED

from frames import HOT
from keyspread.spark import join, session
from keyspread.spark._launch.cluster import Cluster

WORKERS, ROWS = 4, 6_000
HOWS = ("inner", "left", "full", "left_anti")


def main() -> None:
    """Run all joins on one cluster, with one kill."""
    with Cluster(workers=2, memory="800m", patience=180) as cluster:
        spark = session(
            master=cluster.url,
            **{
                **cluster.settings,
                "spark.driver.memory": "800m",
                "spark.sql.shuffle.partitions": WORKERS,
                "spark.sql.adaptive.enabled": "false",
                "spark.sql.autoBroadcastJoinThreshold": -1,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors from the start
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                "spark.shuffle.io.retryWait": "100ms",  # do not wait long for a killed executor
                **UNPROTECTED,
            },
        )
        rows = spark.range(0, ROWS, 1, 8).selectExpr("id", f"{HOT} AS key")
        others = spark.range(0, 60, 1, 2).selectExpr("IF(id % 6 = 0, 'hot', concat('k', id)) AS key", "id AS w")
        expected = {how: [repr(tuple(row)) for row in rows.join(others, "key", how).collect()] for how in HOWS}
        shuffled = rows.repartition(WORKERS, "id")
        runs = {}
        for how in HOWS:
            ours = join(shuffled, others, "key", how)
            assert "keyspread_salt" in ours._jdf.queryExecution().toString(), how
            runs[how] = ours.rdd.map(lambda row: repr(tuple(row)))
        found = {how: spark.sparkContext.runJob(run, list, [0, 1]) for how, run in runs.items()}
        cluster.kill_executor()
        for how, run in runs.items():
            found[how] += spark.sparkContext.runJob(run, list, [2, 3])
            print(json.dumps({"how": how, "found": sorted(found[how]), "expected": sorted(expected[how])}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
