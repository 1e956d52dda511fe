"""`for_write`: even writers and few files, for a DataFrame that is written in partitions.

bytes of a row (measured on a sample)  →  files of each value  →  files packed into writers  →  spread by that plan
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyspread import checks
from keyspread.errors import InputError
from keyspread.kernels.planned_routing import SLOTS
from keyspread.planned.plan import HotKey, Plan
from keyspread.planned.planner import BUCKETS_PER_WORKER
from keyspread.spark._engine.capabilities import described, to_arrow
from keyspread.spark._routing.keys import check_frame, key_columns, key_hash, quoted, type_of
from keyspread.spark.spread import spread

# The size of a row: about the bytes that it takes in a file before compression.


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_WIDTHS: dict[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
}


def size_in_bytes(name: str, value: Any) -> int:
    """Return a size such as "256MB" or "64m" in bytes; a whole number is one already.

    >>> size_in_bytes("target", "256MB"), size_in_bytes("target", 1000)
    (268435456, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", str(value), re.IGNORECASE)
    size = 0.0 if found is None else float(found[1]) * _UNITS[found[2].lower()]
    if isinstance(value, (bool, float)) or not 1 <= size < 2**63:
        raise InputError(f"{name} must be a size such as '256MB', or a number of bytes, got {value!r:.100}")
    return int(size)


def bytes_of_row(df: DataFrame, without: set[str]) -> str:
    """Return the bytes of a row as SQL; columns `without` are in the path of a file, not in it."""
    fixed, texts = 0, []
    for field in df.schema.fields:
        if field.name.lower() in without:
            continue
        kind, name = field.dataType, quoted(field.name)
        if isinstance(kind, (T.StringType, T.BinaryType)):
            texts.append(f"coalesce(octet_length({name}), 0)")
            fixed += 4
        elif isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
            texts.append(f"coalesce(octet_length(to_json(named_struct('value', {name}))), 0)")
        elif isinstance(kind, T.DecimalType):
            fixed += 8 if kind.precision <= 18 else 16
        else:
            fixed += _WIDTHS.get(type(kind), 8)
    return " + ".join([f"{max(fixed, 1)}L", *texts])


# Packing of files onto writers: as few files as the target size allows, and writers with even loads.
#
# A value of the partition columns that is larger than the target is cut into equal files of at most the target size.
# Files go to writers, largest first, each to the least loaded one. The number of writers is the largest one for which
# that comes out even.


_EVEN = 1.1  # the busiest writer, as a multiple of the mean load
_STEP = 0.9  # between the numbers of writers that are tried


@dataclass(frozen=True)
class PackedFiles:
    """The files of each value, in the order of the values: their writers, once per file. `loads` are in bytes."""

    writers: int
    files: list[list[int]]
    loads: list[float]

    @property
    def busiest(self) -> float:
        """The largest load of a writer, as a multiple of the mean."""
        return max(self.loads) * len(self.loads) / max(sum(self.loads), 1e-9)


def fewest_files(sizes: Sequence[float], target: float, writers: int | None = None) -> int:
    """Return the number of files: the size of each value, rounded up to whole files, at most one per writer.

    >>> fewest_files([10, 250, 100], target=100)
    5
    """
    whole = np.maximum(np.ceil(np.asarray(sizes, float) / target - 1e-9), 1)
    return int(np.minimum(whole, np.inf if writers is None else writers).sum())


def pack(sizes: Sequence[float], target: float, file_cost: float, writers: int | None = None) -> PackedFiles:
    """Return the files of values with these sizes, on `writers` writers or on as many as can be even.

    >>> packed = pack([400, 60, 40], target=100, file_cost=0)
    >>> packed.writers, packed.files[0], packed.loads
    (5, [0, 1, 2, 3], [100.0, 100.0, 100.0, 100.0, 100.0])
    """
    if writers is not None:
        return _placed(sizes, target, writers, file_cost)
    tried = max(1, int(np.ceil(sum(sizes) / target - 1e-9)))
    best = _placed(sizes, target, tried, file_cost)
    # A value has one file per writer: with fewer writers than it has files, they would be larger than the target.
    least = max((files_of(size, target) for size in sizes), default=1)
    while best.busiest > _EVEN and tried > least:
        tried = max(least, min(tried - 1, int(tried * _STEP)))
        fewer = _placed(sizes, target, tried, file_cost)
        best = fewer if fewer.busiest < best.busiest else best
    return best


def files_of(size: float, target: float) -> int:
    """Return the number of files of a value.

    >>> files_of(250, target=100), files_of(0, target=100)
    (3, 1)
    """
    return max(1, int(np.ceil(size / target - 1e-9)))


def _placed(sizes: Sequence[float], target: float, writers: int, file_cost: float) -> PackedFiles:
    """Place the files of each value on the least loaded writers, the largest files first."""
    # Two files of one value on one writer would be one file.
    parts = [(size / many, many) for size in sizes for many in [min(files_of(size, target), writers)]]
    heap = [(0.0, 0, writer) for writer in range(writers)]
    files: list[list[int]] = [[] for _ in sizes]
    for number in sorted(range(len(sizes)), key=lambda one: (-parts[one][0], one)):
        size, many = parts[number]
        taken = [heapq.heappop(heap) for _ in range(many)]
        files[number] = [writer for _, _, writer in taken]
        for load, own, writer in taken:
            heapq.heappush(heap, (load + size + file_cost, own + 1, writer))
    loads = [0.0] * writers
    for load, _, writer in heap:
        loads[writer] = load
    return PackedFiles(writers, files, loads)


# `for_write`: rows in the partitions of even writers, so that a partitioned write has few files of the wanted size.


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
