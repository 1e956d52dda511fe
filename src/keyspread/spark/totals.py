"""`Totals`: running totals in a folder, written from `foreachBatch`. Every batch counts exactly once.

    batch → partial states → slot-0/parts-… → a commit that names them → read: the merge of all that are committed

`commits.py` says what is written in which order and what a crash leaves behind; `totals_folder.py` does it with Spark.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.operators import AnyOperator
from keyspread.planned.plan import Plan
from keyspread.sender.registry import PLANNED
from keyspread.sender.settings import Settings
from keyspread.spark._engine.capabilities import can_observe, condition_of, quiet_analysis
from keyspread.spark._engine.failures import one_line_error
from keyspread.spark._folding.operator_parts import WATERMARK, OperatorParts
from keyspread.spark._routing.keys import Key, KeyColumn, contains, is_not_hashable, key_columns, key_texts
from keyspread.spark._routing.options import Routing, Weight
from keyspread.spark._streaming.blobs import difference
from keyspread.spark._streaming.commits import SLOTS, Commit, CommitLog
from keyspread.spark.aggregate import check_operator, partial


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


# Local properties: what Spark sets for the thread that runs a job, such as the id of the streaming query.


def local_property(spark: SparkSession, name: str) -> str | None:
    """Return a local property of this thread; None over Spark Connect, which has no SparkContext on this side."""
    try:
        context = spark.sparkContext
    except Exception:  # PySparkAttributeError or NotImplementedError, depending on the version
        return None
    return context.getLocalProperty(name)


# The folder of `Totals`, written and read by Spark itself, so that it is where Spark says, on every file system.
#
# A job that meets a missing or damaged file fails, whatever the session's settings say.


_COMMITS = f"slot-[0-{SLOTS - 1}]/commits"
_OURS = re.compile(r"/slot-\d(/commits|/parts-[^/]+)?/part-[^/]*$")
_BATCH = re.compile(r"/parts-(?:until-)?(\d+)-[^/]*/part-[^/]*$")
_ATTEMPTS = 5  # to read commits while another driver clears a slot


class TotalsFolder:
    """A folder on any file system that Spark knows. The address is given to Spark as it is."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark = spark
        self.address = address

    def lines(self) -> list[str]:
        """Return all commits. If there are none, refuse a folder that holds anything that `Totals` did not write."""
        found = self._lines()
        if not found:
            self._check_contents()
        return found

    def append(self, slot: int, line: str) -> None:
        """Write a commit: one file with one line."""
        row = self._spark.range(0, 1, 1, 1).select(F.lit(line).alias("value"))
        row.write.mode("append").text(self._at(f"slot-{slot}/commits"))

    def clear(self, slot: int) -> None:
        """Overwrite a slot with an empty file."""
        nothing = self._spark.range(0, 0, 1, 1).select(F.lit("").alias("value"))
        nothing.write.mode("overwrite").text(self._at(f"slot-{slot}"))

    def write(self, states: DataFrame, folder: str) -> int:
        """Write partial states, and return the number of rows that were written."""
        if not can_observe(states):
            states.write.parquet(self._at(folder))
            return int(self._strict_reader().schema(states.schema).parquet(self._literal(folder)).count())
        seen = Observation()  # counts in the job that writes; a task that is retried counts once
        states.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(self._at(folder))
        return int(seen.get["rows"])

    def states(self, commits: Sequence[Commit], schema: StructType) -> DataFrame:
        """Return the partial states of all commits, after checking that every row is there."""
        wanted = sum(one.rows for one in commits)
        try:
            found = self._strict_reader().schema(schema).parquet(*(self._literal(one.folder) for one in commits))
            rows = found.count()  # reads no column, only the footer of each file
        except (PySparkException, Py4JError) as problem:
            raise InputError(f"{self.address}: these totals cannot be read: {one_line_error(problem)}") from problem
        if rows != wanted:
            raise InputError(
                f"{self.address}: these totals cannot be read: {rows} of {wanted} partial states are there: "
                "restore the folder, or start the query with a new folder and a new checkpoint"
            )
        return found

    def _lines(self) -> list[str]:
        for attempt in range(_ATTEMPTS):
            try:
                files = self._files(_COMMITS)
                lines = [] if files is None else [row.value for row in files.collect()]
                if files is None or len(lines) == len(files.inputFiles()):
                    return lines
            except (PySparkException, Py4JError) as problem:  # a file was deleted after it was listed
                if attempt == _ATTEMPTS - 1:
                    raise InputError(str(one_line_error(problem))) from problem
        raise InputError("a commit is an empty file")

    def _check_contents(self) -> None:
        files = self._files("")
        names = [] if files is None else list(map(unquote, files.inputFiles()))
        foreign = [one for one in names if not _OURS.search(one)]
        if foreign:
            raise InputError(f"there are no commits, but there is {min(foreign)}")
        # A crash leaves the parts of one batch without a commit. The next batch is written only after its commit.
        batches = {batch[1] for one in names if (batch := _BATCH.search(one)) is not None}
        if len(batches) > 1:
            raise InputError(f"the commits are missing, but there are partial states of {len(batches)} batches")

    def _files(self, pattern: str) -> DataFrame | None:
        """Return the lines of all files under a pattern, not yet read; None if there is no such file or folder."""
        try:
            with quiet_analysis():
                files = self._strict_reader().text(self._literal(pattern))
                files.schema  # noqa: B018  (over Connect, only this looks for the files)
                return files
        except AnalysisException as problem:
            if condition_of(problem) == "PATH_NOT_FOUND":
                return None
            raise

    def _strict_reader(self) -> DataFrameReader:
        return self._spark.read.options(
            # Without partitions by folder name: a name=value in the address is part of the address.
            recursiveFileLookup=True,
            ignoreMissingFiles=False,
            ignoreCorruptFiles=False,
        )

    def _at(self, name: str) -> str:
        return f"{self.address.rstrip('/')}/{name}".rstrip("/") or "/"

    def _literal(self, name: str) -> str:
        """Return the address of a name in the folder for reading, where Spark would take * or [ as a pattern."""
        root = re.sub(r"([][{}*?\\])", r"\\\1", self.address.rstrip("/"))
        return f"{root}/{name}".rstrip("/") or "/"
