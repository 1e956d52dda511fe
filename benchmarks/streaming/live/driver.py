"""The Spark application of the fault schedules: two queries in real-time mode, started again whenever they fail.

    python -m live.driver MASTER SETTINGS BROKER SOURCE SINK PARTS FOLDER

One query spreads the messages and writes them to SINK. The other writes counts per worker and key to PARTS. It leaves
a file `started`, and one `failed-…` per failure, in FOLDER, and runs until it is killed.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.spark import session, spread
from keyspread.spark.realtime import RealtimeParts

WORKERS = 2
BATCH = "5 seconds"  # the shortest that Spark allows, for many ends of batches among the faults
SCHEME = "d-choices"
_POLL = 0.2


def spread_rows(stream: DataFrame) -> DataFrame:
    """Return the messages as they are written to the sink."""
    return spread(stream, "key", WORKERS, SCHEME, realtime=True).select("key", "value")


def counts(stream: DataFrame) -> RealtimeParts:
    """Return the counts per worker and key."""
    return RealtimeParts(stream, "key", {"n": "count(*)"}, WORKERS, SCHEME)


def main() -> None:
    master, settings, broker, source, sink, parts_sink, folder = sys.argv[1:]
    spark = session(master=master, **json.loads(settings))
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    stream = stream.withColumn("key", F.col("key").cast("string"))
    parts = counts(stream).rows
    wanted = {
        "rows": (spread_rows(stream), sink),
        "parts": (parts.select(F.to_json(F.struct("*")).alias("value")), parts_sink),
    }
    running: dict[str, Any] = {}
    failures = 0
    while True:
        for name, (rows, topic) in wanted.items():
            query = running.get(name)
            if query is not None and query.isActive:
                continue
            if query is not None:
                failures += 1
                (Path(folder) / f"failed-{time.time_ns()}").write_text(f"{name}: {query.exception()}"[:2000])
                time.sleep(1)
            running[name] = (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", broker)
                .option("topic", topic)
                .option("checkpointLocation", str(Path(folder) / name))
                .outputMode("update")
                .trigger(realTime=BATCH)
                .start()
            )
        (Path(folder) / "started").touch()
        time.sleep(_POLL)


if __name__ == "__main__":
    main()
