"""`for_write`: rows in the partitions of even writers, so that a partitioned write has few files of the wanted size."""

from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels.planned_routing import SLOTS
from keyspread.planned.head import HotKey
from keyspread.planned.plan import Plan
from keyspread.planned.planner import BUCKETS_PER_WORKER
from keyspread.spark.capabilities import to_arrow
from keyspread.spark.job_description import described
from keyspread.spark.routing.file_packing import PackedFiles, fewest_files, pack
from keyspread.spark.routing.keys import check_frame, key_columns, key_hash, type_of
from keyspread.spark.routing.row_bytes import bytes_of_row, size_in_bytes
from keyspread.spark.spread import spread

_MOST_VALUES = 100_000
_MOST_FILES = 200_000  # each is a piece of the plan, and a task that writes it


def for_write(
    df: DataFrame,
    columns: str | list[str],
    target: str | int = "256MB",
    *,
    writers: int | None = None,
    file_cost: str | int = "4MB",
    ratio: float = 1.0,
) -> DataFrame:
    """Return the same rows in the partitions of even writers: `.write.partitionBy(columns)` then writes few files.

    A value of the columns that is larger than `target` is cut into files of about that size, each on a writer of its
    own. Any other value is one file. The number of writers follows from the size of all rows, unless it is given.

    All rows are counted first, with their size before compression: at most eight bytes per number, the length of a
    text. If files are smaller because of compression, pass `ratio`, the size of a file by the size of its rows: with
    0.25, a file of the target size has four times as many rows. To open and close a file costs a writer as much as
    `file_cost` bytes.

    In a stream, use it within `foreachBatch`.

    Args:
        df: The rows, bounded.
        columns: The columns of `partitionBy`: a name, or a list of names.
        target: The size of a file, such as "256MB".
        writers: The number of writers, by default as many as the target needs.
        file_cost: The cost of a file, in bytes.
        ratio: The size of a file by the size of its rows.

    Returns:
        The same rows, in partitions that each write about the target.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import for_write, session
    >>> rows = session().range(4000).selectExpr("IF(id < 3000, 'a', string(id % 3)) AS day", "id")
    >>> for_write(rows, "day", target="8kB", file_cost=100).selectExpr("spark_partition_id()").distinct().count()
    4
    """
    check_frame("df", df)
    if df.isStreaming:
        raise InputError("for_write counts the rows, which a stream does not allow: use it within foreachBatch")
    bytes_ = size_in_bytes("target", target)
    cost = 0 if file_cost == 0 and not isinstance(file_cost, bool) else size_in_bytes("file_cost", file_cost)
    if checks.number("ratio", ratio) <= 0:
        raise InputError(f"ratio must be above 0, got {ratio!r}")
    many = None if writers is None else checks.whole_number("writers", writers, maximum=checks.LIMITS["workers"])
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"columns must be the name of a column or a list of names, got {columns!r}")
    key = key_columns(df, names)
    _check_names(df)
    for number, name in enumerate(names):
        if name.lower() not in {column.lower() for column in df.columns}:
            raise InputError(f"columns has {name!r}, a field of a struct: Spark partitions files by columns only")
        if name.lower() in {other.lower() for other in names[:number]}:
            raise InputError(f"columns has {name!r} twice; name each column once")
        if isinstance(type_of(df, name), (T.StructType, T.ArrayType, T.MapType)):
            raise InputError(f"columns has {name!r}, which is not a single value: Spark cannot partition files by it")
    if len(names) == len(df.columns):
        raise InputError("columns has all columns, so no data is left to write: partition the files by fewer columns")
    with described(df.sparkSession, f"counting the size of {', '.join(names)}"):
        hashes, rows, sizes = _sizes(df, key, ratio)
    files = fewest_files(sizes, bytes_, many)
    if files > _MOST_FILES:
        raise InputError(
            f"target {target!r} makes {files:,} files of {sizes.sum():,.0f} bytes, and at most {_MOST_FILES:,} are "
            "written at once: use a larger target"
        )
    packed = pack(sizes.tolist(), bytes_, cost, many)
    return spread(df, names, packed.writers, plan=_plan(hashes, rows, packed))


def _check_names(df: DataFrame) -> None:
    """Refuse names that Spark cannot write."""
    sensitive = str(df.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    known = [name if sensitive else name.lower() for name in df.columns]
    for name, own in zip(df.columns, known, strict=True):
        if known.count(own) > 1:
            raise InputError(f"{known.count(own)} columns are called {name!r}, which Spark cannot write; rename them")


def _sizes(df: DataFrame, columns: list[str], ratio: float) -> tuple[Any, Any, Any]:
    """Return hash, rows and bytes of each value of the columns."""
    size = bytes_of_row(df, {name.lower() for name in columns})
    counted = (
        df.select(key_hash(df, columns).alias("hash"), F.expr(size).alias("bytes"))
        .groupBy("hash")
        .agg(F.count("*").alias("rows"), F.sum("bytes").alias("bytes"))
        .limit(_MOST_VALUES + 1)
    )
    counts = to_arrow(counted).sort_by("hash")
    if counts.num_rows > _MOST_VALUES:
        raise InputError(
            f"{', '.join(columns)} has more than {_MOST_VALUES:,} values, each of which is a folder with files of its "
            "own: partition the files by fewer columns, or by a coarser value"
        )
    whole = np.asarray(counts["bytes"], np.float64) * ratio
    return np.asarray(counts["hash"], np.int64), np.asarray(counts["rows"], np.int64), whole


def _plan(hashes: Any, rows: Any, packed: PackedFiles) -> Plan:
    """Return the plan that brings every value to its writers. Values that were not counted go by their bucket."""
    head, loads = [], np.zeros(packed.writers, np.int64)
    for key, many, files in zip(hashes.tolist(), rows.tolist(), packed.files, strict=True):
        ends = [number * SLOTS // len(files) for number in range(1, len(files) + 1)]
        weights = np.diff([0, *(many * number // len(files) for number in range(1, len(files) + 1))])
        np.add.at(loads, files, weights)
        head.append(HotKey(key, tuple(files), tuple(weights.tolist()), tuple(ends)))
    head.sort(key=lambda one: (-one.messages, one.hash))
    buckets = np.arange(BUCKETS_PER_WORKER * packed.writers, dtype=np.int32) % np.int32(packed.writers)
    return Plan(packed.writers, buckets, head, loads)
