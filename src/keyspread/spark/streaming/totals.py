"""`Totals`: running totals in a folder, written from `foreachBatch`. Every batch counts exactly once.

    batch → partial states → slot-0/parts-… → a commit that names them → read: the merge of all that are committed

`commits.py` says what is written in which order and what a crash leaves behind; `totals_folder.py` does it with Spark.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.online.settings import Settings
from keyspread.operators import AnyOperator
from keyspread.planned.plan import Plan
from keyspread.schemes import PLANNED
from keyspread.spark.aggregate import check_operator, partial
from keyspread.spark.aggregation.operator_parts import OperatorParts
from keyspread.spark.routing.keys import Key, KeyColumn, contains, is_not_hashable, key_columns, key_texts
from keyspread.spark.routing.options import Routing
from keyspread.spark.routing.weights import Weight
from keyspread.spark.streaming.commits import Commit, CommitLog
from keyspread.spark.streaming.identity import difference
from keyspread.spark.streaming.local_properties import local_property
from keyspread.spark.streaming.totals_folder import TotalsFolder
from keyspread.spark.streaming.windows import WATERMARK


class Totals:
    """Running totals of a stream in a folder. Pass it to `foreachBatch`; `read` returns the totals so far.

    It takes the operators of `aggregate`. `folder` is any path or address that Spark can
    write to. After every `merge_every` batches the partial states are merged into one. A `key` given as a Column must
    not belong to a DataFrame: write `F.col("user")`, not `clicks.user`.

    Call it for every batch, empty ones too: a missing number means missing rows, and is refused. A query with a new
    checkpoint numbers its batches from 0 again, so it needs a new folder and is refused the old one.
    Outside of `foreachBatch` and over Spark Connect the id of the query is not known. There only the last batch may be
    added again, with the same rows; one job per batch computes a fingerprint of them.

    >>> from keyspread.operators import Count
    >>> from keyspread.spark import Totals, session
    >>> import tempfile
    >>> spark, folder = session(), tempfile.mkdtemp()
    >>> totals = Totals(folder, "k", Count(), workers=2)
    >>> totals(spark.createDataFrame([("a",), ("b",), ("a",)], "k string"), batch=0)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)
    >>> totals(spark.createDataFrame([("a",)], "k string"), batch=1)  # a retry changes nothing
    >>> totals.read(spark).orderBy("k").collect()
    [Row(k='a', count=3), Row(k='b', count=1)]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        key: Key,
        operator: AnyOperator,
        workers: int,
        scheme: str | None = None,
        *,
        merge_every: int = 20,
        plan: Plan | None = None,
        weight: Weight | None = None,
        threshold: float | None = None,
        tolerance: float | None = None,
        sender: Settings | None = None,
    ) -> None:
        check_operator(operator, key)
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise InputError(f"folder must be a path or an address such as 's3a://bucket/totals', got {folder!r}")
        self._folder = os.fspath(folder)
        self._key, self._operator = key, operator
        self._routing = Routing.of(
            workers,
            scheme,
            PLANNED,
            plan=plan,
            weight=weight,
            threshold=threshold,
            tolerance=tolerance,
            sender=sender,
        )
        self._log = CommitLog(checks.whole_number("merge_every", merge_every))

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Add a micro-batch; adding the same batch again changes nothing."""
        spark, key = rows.sparkSession, key_columns(rows, self._key)
        parts = OperatorParts(rows, key, self._operator)
        folder = TotalsFolder(spark, self._folder)

        def write(name: str) -> int:
            with self._persisted(rows):
                states = partial(rows, key, parts, self._routing)
                return folder.write(states, name)

        def merge(commits: Sequence[Commit], name: str) -> int:
            return folder.write(parts.merge(folder.states(commits, parts.schema)), name)

        identity = self._identity(rows, key, parts)
        content = None if identity["query"] is not None else _fingerprint(rows)
        self._log.add(folder, batch, identity, write, merge, content)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the totals of all committed batches: the result of `groupBy(key).agg(…)` on their rows.

        Use it before `merge_every` more batches are added: after that its files may be deleted, and Spark says so.
        """
        folder = TotalsFolder(spark, self._folder)
        commits = self._log.read(folder).commits
        if not commits:
            raise InputError(f"{self._folder}: there are no totals (yet)")
        rows = spark.createDataFrame([], StructType.fromJson(commits[0].identity["rows"]))
        key = key_columns(rows, self._key)
        parts = OperatorParts(rows, key, self._operator)
        if differs := difference(commits[0].identity, self._computes(rows, key, parts)):
            raise InputError(f"{self._folder}: {differs}")
        return parts.result(folder.states(commits, parts.schema))

    @contextmanager
    def _persisted(self, rows: DataFrame) -> Iterator[None]:
        """Persist rows that are read more than once (to plan, and to route), unless they are persisted already.

        Spark is asked, because it keeps rows by their plan: those of the caller, or of another DataFrame that is equal.
        """
        level = rows.storageLevel
        if level.useMemory or level.useDisk or level.useOffHeap:
            yield
            return
        rows.persist()
        try:
            yield
        finally:
            rows.unpersist()

    def _identity(self, rows: DataFrame, key: Sequence[KeyColumn], parts: OperatorParts) -> dict[str, Any]:
        # With a new checkpoint, batches are numbered from 0 again and would be mistaken for the stored ones.
        query = local_property(rows.sparkSession, "sql.streaming.queryId")
        return {**self._computes(rows, key, parts), "query": query, "rows": _settled(rows.schema.jsonValue())}

    def _computes(self, rows: DataFrame, key: Sequence[KeyColumn], parts: OperatorParts) -> dict[str, Any]:
        return {"key": key_texts(key), "aggregates": parts.identity, "states": parts.schema.simpleString()}


def _fingerprint(rows: DataFrame) -> str:
    """Return a text that is the same for the same rows in any order, and most likely another for other rows."""
    rows = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))  # two columns may have one name
    hashed = "xxhash64(" + ", ".join(map(_hashable, rows.schema.fields)) + ")"
    calls = ["count(1)", f"bit_xor({hashed})", f"sum(pmod({hashed}, 1000000007))"]
    return "-".join(map(str, rows.agg(*map(F.expr, calls)).collect()[0]))


def _hashable(field: StructField) -> str:
    """Return a column, as JSON if it contains what Spark cannot hash."""
    return f"to_json(struct({field.name}))" if contains(field.dataType, is_not_hashable) else field.name


def _settled(schema: Any) -> Any:
    """Return the JSON of a schema without what may change in a query: what can be null, and the watermark's delay."""
    if isinstance(schema, list):
        return [_settled(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    nulls = {"nullable", "containsNull", "valueContainsNull"}
    return {name: name in nulls or _settled(value) for name, value in schema.items() if name != WATERMARK}
