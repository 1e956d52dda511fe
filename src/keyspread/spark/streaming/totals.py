"""`Totals`: running totals in a folder, written from `foreachBatch`. Every batch counts exactly once.

    folder/batch-000000000012   partial states of batch 12, as Parquet; complete or absent
    folder/until-000000000020   those of all batches up to 20, merged

A batch that is retried finds its folder complete and leaves it as it is. The totals are the merge of all folders.
"""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.aggregate import Aggregates, partial, parts_of
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.aggregation.sql_parts import SqlParts
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns, key_texts
from keyspread.spark.streaming.identity import check_identity
from keyspread.spark.streaming.local_properties import local_property
from keyspread.spark.streaming.storage import Folder

_IDENTITY = "keyspread.json"
_QUERY = "sql.streaming.queryId"


class Totals:
    """Running totals of a stream in a folder. Pass it to `foreachBatch`; `read` returns the totals so far.

    It takes all aggregates and operators of `aggregate`, sketches too. `folder` is a path or an address that both
    Spark and pyarrow know. Every `merge_every` batches the partial states are merged into one. A `key` given as a
    Column must not belong to a DataFrame: write `F.col("user")`, not `clicks.user`.

    A query with a new checkpoint numbers its batches from 0 again, so it needs a new folder and is refused the old
    one. Under Spark Connect this is not detected, so take care of it yourself.

    >>> from keyspread.spark import Totals, session
    >>> import tempfile
    >>> spark, folder = session(), tempfile.mkdtemp()
    >>> totals = Totals(folder, "k", {"n": "count(*)"}, workers=2)
    >>> totals(spark.createDataFrame([("a",), ("b",), ("a",)], "k string"), batch=0)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)  # a retry changes nothing
    >>> totals.read(spark).orderBy("k").collect()
    [Row(k='a', n=3), Row(k='b', n=1)]
    """

    def __init__(
        self,
        folder: str,
        key: Key,
        aggregates: Aggregates,
        workers: int,
        scheme: str | None = None,
        *,
        merge_every: int = 20,
        **options: Any,
    ) -> None:
        self._folder = Folder(folder)
        self._key, self._aggregates = key, aggregates
        self._workers = checks.whole_number("workers", workers)
        self._scheme, self._options = scheme, options
        self._merge_every = checks.whole_number("merge_every", merge_every)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Add a micro-batch; adding the same batch again changes nothing."""
        until, _ = self._complete()
        name = f"batch-{batch:012d}"
        if batch <= until or self._folder.has(name, "_SUCCESS"):
            return
        key = key_columns(rows, self._key)
        parts = parts_of(rows, key, self._aggregates)
        self._check(rows, key, parts)
        was_cached = rows.is_cached
        if not was_cached:
            rows.persist()  # read more than once: to plan, and to route
        try:
            states = partial(rows, key, parts, self._workers, self._scheme, **self._options)
            states.write.mode("overwrite").parquet(self._folder.at(name))
        finally:
            if not was_cached:
                rows.unpersist()
        if (batch + 1) % self._merge_every == 0:
            self._merge(rows.sparkSession, parts, batch)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the totals of all complete batches: the result of `groupBy(key).agg(…)` on their rows."""
        try:
            identity = json.loads(self._folder.read(_IDENTITY))
        except (OSError, ValueError):
            raise InputError(f"{self._folder.address}: there are no totals (yet)") from None
        rows = spark.createDataFrame([], StructType.fromJson(identity["rows"]))
        parts = parts_of(rows, key_columns(rows, self._key), self._aggregates)
        return parts.result(self._parts(spark, parts))

    def _parts(self, spark: SparkSession, parts: SqlParts | OperatorParts) -> DataFrame:
        until, batches = self._complete()
        names = [f"batch-{batch:012d}" for batch in batches if batch > until]
        if until >= 0:
            names.append(f"until-{until:012d}")
        if not names:
            return spark.createDataFrame([], parts.schema)
        return spark.read.parquet(*(self._folder.at(name) for name in names))

    def _merge(self, spark: SparkSession, parts: SqlParts | OperatorParts, batch: int) -> None:
        before, _ = self._complete()
        merged = parts.merge(self._parts(spark, parts))
        merged.write.mode("overwrite").parquet(self._folder.at(f"until-{batch:012d}"))
        # Delete only what the previous merge covers: somebody may still be reading that one.
        for name in self._folder.names():
            kind, _, number = name.partition("-")
            if (kind == "batch" and int(number) <= before) or (kind == "until" and int(number) < before):
                self._folder.delete(name)

    def _complete(self) -> tuple[int, list[int]]:
        """Return the last batch up to which all are merged (-1 if none), and the batches that are complete."""
        found: dict[str, list[int]] = {"batch": [-1], "until": [-1]}
        for name in self._folder.names():
            kind, _, number = name.partition("-")
            if kind in found and self._folder.has(name, "_SUCCESS"):
                found[kind].append(int(number))
        return max(found["until"]), found["batch"][1:]

    def _check(self, rows: DataFrame, key: Sequence[KeyColumn], parts: SqlParts | OperatorParts) -> None:
        identity = {
            "kind": "totals",
            "key": key_texts(key),
            "aggregates": parts.identity,
            # With a new checkpoint, batches are numbered from 0 again and would be mistaken for the stored ones.
            "query": local_property(rows.sparkSession, _QUERY),
            "rows": rows.schema.jsonValue(),
        }
        used = any(name.startswith(("batch-", "until-")) for name in self._folder.names())
        check_identity(self._folder, _IDENTITY, identity, used)
