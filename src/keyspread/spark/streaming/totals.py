"""Running totals in a folder, written from `foreachBatch`: nothing lost, nothing twice, whatever is run again.

    folder/batch-000000000012   partial states of batch 12, as Parquet; complete or not there
    folder/until-000000000020   those of all batches up to 20, merged

A batch that comes again finds its own folder complete, and leaves it so. The totals are what all of them merge to.
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
from keyspread.spark.routing.keys import Key, key_columns
from keyspread.spark.streaming.identity import check_identity
from keyspread.spark.streaming.local_properties import local_property
from keyspread.spark.streaming.storage import Folder

_IDENTITY = "keyspread.json"
_QUERY = "sql.streaming.queryId"


class Totals:
    """Running totals of a stream in a folder. Pass it to `foreachBatch`; `read` gives the totals so far.

    All aggregates and operators of `aggregate` can be kept like this, sketches too. `folder` is a path or an address
    that both Spark and pyarrow know. Every `merge_every` batches the partial states are merged into one.

    A query with a new checkpoint counts its batches from 0 again and needs a new folder: it is refused the old one, but
    for Spark Connect, where the query cannot be told from another.

    >>> from keyspread.spark import Totals, session
    >>> import tempfile
    >>> spark, folder = session(), tempfile.mkdtemp()
    >>> totals = Totals(folder, "k", {"n": "count(*)"}, workers=2)
    >>> totals(spark.createDataFrame([("a",), ("b",), ("a",)], "k string"), batch=0)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)  # comes again: it was there
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
        """Add a micro-batch; the second time the same batch comes it changes nothing."""
        until, _ = self._complete()
        own = f"batch-{batch:012d}"
        if batch <= until or self._folder.has(own, "_SUCCESS"):
            return
        names = key_columns(rows, self._key)
        parts = parts_of(rows, names, self._aggregates)
        self._check(rows, names, parts)
        rows.persist()  # looked at more than once: to plan, and to deal
        try:
            made = partial(rows, names, parts, self._workers, self._scheme, **self._options)
            made.write.mode("overwrite").parquet(self._folder.at(own))
        finally:
            rows.unpersist()
        if (batch + 1) % self._merge_every == 0:
            self._merge(rows.sparkSession, parts, batch)

    def read(self, spark: SparkSession) -> DataFrame:
        """Give the totals of all batches that are complete: what `groupBy(key).agg(…)` of their rows would give."""
        try:
            was = json.loads(self._folder.read(_IDENTITY))
        except (OSError, ValueError):
            raise InputError(f"{self._folder.address}: there are no totals (yet)") from None
        rows = spark.createDataFrame([], StructType.fromJson(was["rows"]))
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
        for name in self._folder.names():  # what the one before covers: who reads just now may still read that one
            kind, _, number = name.partition("-")
            if (kind == "batch" and int(number) <= before) or (kind == "until" and int(number) < before):
                self._folder.delete(name)

    def _complete(self) -> tuple[int, list[int]]:
        """Give the last batch up to which all is merged (-1: none), and the batches that are there."""
        found: dict[str, list[int]] = {"batch": [-1], "until": [-1]}
        for name in self._folder.names():
            kind, _, number = name.partition("-")
            if kind in found and self._folder.has(name, "_SUCCESS"):
                found[kind].append(int(number))
        return max(found["until"]), found["batch"][1:]

    def _check(self, rows: DataFrame, names: Sequence[str], parts: SqlParts | OperatorParts) -> None:
        identity = {
            "kind": "totals",
            "key": list(names),
            "aggregates": parts.identity,
            # With a new checkpoint, batches are numbered from 0 again, and would be taken for those that are there.
            "query": local_property(rows.sparkSession, _QUERY),
            "rows": rows.schema.jsonValue(),
        }
        used = any(name.startswith(("batch-", "until-")) for name in self._folder.names())
        check_identity(self._folder, _IDENTITY, identity, used)
