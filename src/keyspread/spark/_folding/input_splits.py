"""Whether the tasks that read a DataFrame have about the same number of rows, as far as is known before they run."""

import re
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from keyspread.errors import InputError
from keyspread.spark._routing.plan_text import Operator, operators_of, physical_plan

# What is computed row by row, so that the input splits are the tasks.
_ROW_BY_ROW = frozenset(
    [
        "AdaptiveSparkPlan",
        "ArrowEvalPython",
        "BatchEvalPython",
        "CollectMetrics",
        "ColumnarToRow",
        "Expand",
        "Filter",
        "Generate",
        "InputAdapter",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "PythonMapInArrow",
        "Sample",
    ]
)
_RUNS_JOBS = re.compile("subquery|dynamicpruning", re.IGNORECASE)  # whoever asks for the splits waits for these
_EVEN = ("Range", "LocalTableScan")  # Spark cuts them into equal parts
_ROUND_ROBIN = re.compile(r"\s*RoundRobinPartitioning\((\d+)\), REPARTITION_BY_NUM\b")  # others may be merged
_FILES = re.compile(r"range: (\d+)-(\d+)")  # of each file of a split, as Spark prints it
_ROW_GROUP = 64 << 20  # bytes; in a split of this size there is at least one, as they are usually written
_UNKNOWN = "it is not known how many rows each input partition has"
_LARGEST = 1.5  # times the middle one; a task of this size hardly delays the others


def tasks_of(df: DataFrame, workers: int) -> tuple[int, str | None]:
    """Return the number of tasks that should work on the rows, and why they must be spread evenly before, if so.

    Nothing runs for it. `workers` is the number of tasks that should have work at a time. Where nothing is known
    (behind a shuffle, a cache, over Spark Connect), rows are spread.
    """
    parts, uneven = _splits(df, workers)
    return (parts, None) if uneven is None else (workers, uneven)


def slots_of(spark: SparkSession) -> int | None:
    """Return the number of tasks that run at a time, None if it is not known or may grow."""
    context = getattr(spark, "_sc", None)
    if context is None or str(spark.conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return None
    return int(context.defaultParallelism)


def _splits(df: DataFrame, workers: int) -> tuple[int, str | None]:
    """Return the number of input splits if it is known, and in which way they are not even, if they are not."""
    try:
        plan = physical_plan(df)
    except InputError:  # a plan that Spark does not print
        return 0, _UNKNOWN
    if _RUNS_JOBS.search(plan):
        return 0, _UNKNOWN
    operators = operators_of(plan)
    others = [one for one in operators if one.name not in _ROW_BY_ROW]
    if not others:
        return 0, _UNKNOWN
    source = others[0]
    if numbered := _ROUND_ROBIN.match(source.details):
        parts = int(numbered[1])
        return parts, None if parts >= workers else _too_few(parts, workers)
    jdf = getattr(df, "_jdf", None)
    if len(others) > 1 or jdf is None or not _is_cut_evenly_or_files(source):
        return 0, _UNKNOWN
    try:
        return _of_rdd(df, jdf.queryExecution().toRdd(), source, workers)
    except Py4JError:  # what is wrong with the query is told when it runs
        return 0, _UNKNOWN


def _of_rdd(df: DataFrame, rdd: Any, source: Operator, workers: int) -> tuple[int, str | None]:
    parts = rdd.getNumPartitions()
    if parts < workers:
        return parts, _too_few(parts, workers)
    if source.name in _EVEN:
        return parts, None
    splits = rdd.partitions()
    if re.match(r"\s*(parquet|orc) ", source.details) and _is_cut_finely(splits[0]):
        return parts, "the input files are cut into more splits than they may have row groups"
    # Spark packs files into splits from the largest to the smallest.
    largest, middle = (_size(df, splits[place]) for place in (0, parts // 2))
    if largest is None or middle is None:
        return parts, _UNKNOWN
    if largest > _LARGEST * max(middle, 1):
        return parts, f"the largest input split has {largest / max(middle, 1):.1f} x the bytes of the middle one"
    return parts, None


def _is_cut_evenly_or_files(source: Operator) -> bool:
    return source.name in _EVEN or (source.name == "FileScan" and "Bucketed: true" not in source.details)


def _too_few(parts: int, workers: int) -> str:
    return f"the input has {parts} partition{'' if parts == 1 else 's'} for {workers} workers"


def _is_cut_finely(split: Any) -> bool:
    """Return whether the largest file is cut into splits, of which only one would have the rows of a row group."""
    if not hasattr(split, "files"):
        return True
    first = split.files()[0]
    return bool(first.length() < min(first.fileSize(), _ROW_GROUP))


def _size(df: DataFrame, split: Any) -> int | None:
    if not hasattr(split, "files") or "FilePartition" not in split.getClass().getName():
        return None
    text = df.sparkSession._jvm.scala.runtime.ScalaRunTime.stringOf(split.files(), 1_000_000)  # type: ignore[union-attr]
    return sum(int(end) - int(begin) for begin, end in _FILES.findall(text)) or None
