"""Compare schemes on the same rows without moving them: every row is routed by each scheme, only counts are kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.evaluation import metrics
from keyspread.online.settings import Settings
from keyspread.spark.routing.keys import Key, key_columns, key_hash
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.senders import python_worker
from keyspread.spark.spread import with_worker

COMPARED = ("key", "partial-key")
"""The schemes to compare with: the usual way, and the usual remedy."""


@dataclass(frozen=True)
class Outcome:
    """What a scheme did to the rows: the load of every worker, the part of it from hot keys, and the replicas.

    The last two are None if the schemes were not compared.
    """

    scheme: str
    loads: npt.NDArray[np.int64]
    head_loads: npt.NDArray[np.int64] | None = None
    replicas: int | None = None

    @property
    def imbalance(self) -> float:
        """The largest share of a worker - 1/n."""
        return metrics.imbalance(self.loads)

    @property
    def busiest(self) -> float:
        """The largest load as a multiple of an even share; 1 is perfect."""
        return float(self.loads.max() / self.loads.mean()) if self.loads.sum() else 1.0


def compare_schemes(
    rows: DataFrame,
    key: Key,
    workers: int,
    scheme: str,
    seed: int,
    how: Routing,
    hot: Sequence[int],
    shown: Sequence[int],
) -> tuple[list[Outcome], dict[int, int]]:
    """Route the rows by the chosen scheme and by those of `COMPARED`, and count; no rows are moved.

    Returns their outcomes, and how many workers each of the `shown` keys has under the chosen scheme.
    """
    schemes = [scheme, *(other for other in COMPARED if other != scheme)]
    names = key_columns(rows, key)
    routed, places = rows, {}
    for one in schemes:
        if one != "key":
            other = Routing.of(workers, one, one, sender=Settings(seed=seed)) if one != scheme else how
            routed, places[one] = with_worker(routed, names, other)
    counted = (
        routed.select(key_hash(rows, names).alias("hash"), *places.values())
        .groupBy("hash", *places.values())
        .agg(F.count("*").alias("rows"))
    )
    # This scheme has one worker per key, so it routes one row per group instead of every row.
    by_key = Routing.of(workers, "key", "key", sender=Settings(seed=seed))
    counted = counted.withColumn("keyspread_key", python_worker(F.col("hash"), by_key, None, None))
    places["key"] = "keyspread_key"
    each = F.array(
        *(F.struct(F.lit(i).alias("scheme"), F.col(places[one]).alias("worker")) for i, one in enumerate(schemes))
    )
    pairs = (
        counted.select("hash", "rows", F.inline(each))
        .groupBy("scheme", "worker", "hash")
        .agg(F.sum("rows").alias("rows"))
    )
    is_shown = (F.col("scheme") == 0) & F.col("hash").isin(list(shown))
    found = (
        pairs.groupBy("scheme", "worker")
        .agg(
            F.sum("rows").alias("rows"),
            F.sum(F.when(F.col("hash").isin(list(hot)), F.col("rows")).otherwise(0)).alias("head"),
            F.count("*").alias("replicas"),
            F.collect_list(F.when(is_shown, F.col("hash"))).alias("shown"),
        )
        .collect()
    )
    loads = np.zeros((3, len(schemes), workers), np.int64)
    workers_of = dict.fromkeys(shown, 0)
    for row in found:
        loads[:, row["scheme"], row["worker"]] = row["rows"], row["head"], row["replicas"]
        for one in row["shown"]:
            workers_of[one] += 1
    return [Outcome(one, loads[0, i], loads[1, i], int(loads[2, i].sum())) for i, one in enumerate(schemes)], workers_of
