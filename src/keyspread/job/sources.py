"""Sources of rows: a generated stream that is drawn inside Spark's tasks, or files. Each reader returns a `Source`.

No row is dropped silently, and the driver never holds the whole stream.
"""

import glob
import math
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark.capabilities import column_function
from keyspread.spark.routing.keys import key_columns
from keyspread.streams import GeneratedStream, ZipfStream
from keyspread.streams.generated.generator import Law
from keyspread.streams.readers.files import GZIP_MAGIC
from keyspread.streams.readers.formats import FORMAT_BY_ENDING
from keyspread.streams.readers.paths import find_files as streams_find_files
from keyspread.streams.readers.times import NUMBER

FORMATS = ("csv", "json", "parquet", "tsv")
CSV: dict[str, Any] = {"header": True, "escape": '"'}
"""Options of CSV files: a quote within quotes is doubled, as everywhere but in Spark's default, a backslash."""
_PACKED = ("gz", "bz2", "zst", "lz4", "snappy", "deflate")
MALFORMED = "keyspread_malformed"
"""The column with the text of a malformed line; null in all other rows."""
_MALFORMED_FIELD = StructField(MALFORMED, StringType())
_SHOWN = 60
# Of a generated stream. They do not depend on the machine, so that loads do not either.
_SENDERS, _ROWS_PER_SENDER = 8, 1 << 22


@dataclass(frozen=True)
class Malformed:
    """Lines that do not match the format: how many, and the first of them in sort order."""

    count: int = 0
    first: str | None = None

    def __str__(self) -> str:
        """Return one line for people."""
        lines = f"{self.count:,} malformed line{'' if self.count == 1 else 's'}"
        return lines if self.first is None else f"{lines}, such as {self.first!r}"


@dataclass(frozen=True)
class Source:
    """Rows to spread, the columns of their key, a title, and facts for the report."""

    rows: DataFrame
    key: tuple[str, ...]
    title: str
    facts: dict[str, Any]
    keep: bool = False
    """Whether a job should persist rows that it reads several times: reading is expensive or not repeatable."""
    observed: str | None = None
    """The name under which the progress of a streaming query counts malformed lines."""
    _seen: Observation | None = field(default=None, repr=False)
    _lines: DataFrame | None = field(default=None, repr=False)

    def malformed(self) -> Malformed:
        """Count the malformed lines; waits until an action has read the rows."""
        if self._seen is None or self._lines is None:
            return Malformed()
        try:
            seen = self._seen.get
        except Exception:  # without any row left, Spark has no observation, and fails in several ways
            seen = {}
        if "malformed" not in seen:
            seen = self._lines.agg(*_count_malformed(), F.count(self._lines[0])).collect()[0].asDict()
        return Malformed(int(seen["malformed"] or 0), _shortened(seen["first"]))


def made_source(spark: SparkSession, stream: GeneratedStream, partitions: int | None = None) -> Source:
    """Return a generated stream as rows: row i is message i, with i in column `id` and a key from 1 in column `key`.

    Keys are drawn inside the tasks and depend only on the stream's parameters, not on partitions, cores or attempts.

    >>> from keyspread.spark import session
    >>> from keyspread.streams import ZipfStream
    >>> stream = ZipfStream(1.4, keys=100, messages=3, seed=1)
    >>> made_source(session(), stream).rows.collect() == made_source(session(), stream, partitions=2).rows.collect()
    True
    """
    check_partitions(partitions)
    if partitions is None:
        partitions = max(_SENDERS, math.ceil(stream.messages / _ROWS_PER_SENDER))
    return Source(
        rows=drawn(spark.range(0, stream.messages, 1, partitions), stream),
        key=("key",),
        title=stream.title,
        facts={"source": stream.kind, **stream.parameters(), "seed": stream.seed, "partitions": partitions},
    )


def zipf_source(
    spark: SparkSession,
    skew: float = 1.4,
    keys: int = 10_000,
    messages: int = 1_000_000,
    seed: int = 0,
    partitions: int | None = None,
) -> Source:
    """Return the rows of a Zipf stream; key 1 is the hottest."""
    return made_source(spark, ZipfStream(skew, keys, messages, seed), partitions)


def check_partitions(partitions: int | None) -> None:
    """Refuse an invalid number of partitions, without Spark."""
    if partitions is not None:
        checks.whole_number("partitions", partitions)


def drawn(positions: DataFrame, stream: GeneratedStream) -> DataFrame:
    """Add the key of the message at each position `id`."""
    # It is deterministic, but Spark may evaluate a deterministic function several times.
    key = column_function(_drawing(stream), 1, "bigint").asNondeterministic()
    return positions.withColumn("key", key(F.col("id")))


def _drawing(stream: GeneratedStream) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def draw(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        law = _law(stream)
        for batch in batches:
            positions = batch.to_numpy()
            if not positions.size:
                yield pa.array([], pa.int64())
                continue
            first, last = int(positions[0]), int(positions[-1])
            keys = law.draw(first, last - first + 1).astype(np.int64)
            yield pa.array(keys if keys.size == positions.size else keys[positions - first])

    return draw


@lru_cache(maxsize=2)
def _law(stream: GeneratedStream) -> Law:
    """Make the tables once per Python worker, not once per task."""
    return stream.law()


@dataclass(frozen=True)
class Files:
    """Existing files, their format, and their address for Spark."""

    path: str
    address: str
    format: str
    packed: bool


def find_files(path: str, format: str | None = None) -> Files:
    """Find the files of a path, folder or pattern, and their format, without Spark; refuse missing and empty files.

    A path with a URL scheme other than file: (s3a://…, hdfs://…) is not checked here; its ending decides the format.
    """
    if format is not None and format.lower() not in FORMATS:
        raise InputError(f"unknown format {format!r}; known are {', '.join(FORMATS)} (tsv: time<TAB>key lines)")
    format = format and format.lower()
    local = path.removeprefix("file://") if path.startswith("file:///") else path
    if "://" in local:
        return Files(path, path, format or _guess(path, [path]), packed=_ending(path)[1])
    found = _local_files(local)
    if not any(os.path.getsize(name) for name in found):
        raise InputError(f"{path}: no rows, {'the file is' if len(found) == 1 else 'all files are'} empty")
    format = format or _guess(path, found)
    for name in found:
        _check_packing(name, format)
    absolute = os.path.abspath(local)
    address = _escaped(absolute) if os.path.exists(local) else absolute
    return Files(path, address, format, packed=len(found) == 1 and _ending(found[0])[1])


def _local_files(path: str) -> list[str]:
    """Return the files that Spark will read: both ignore the same ones."""
    found = streams_find_files(path)
    for name in found:
        if not os.access(name, os.R_OK):
            raise InputError(f"{name}: cannot be read: check its permissions")
    return found


def _ending(name: str) -> tuple[str, bool]:
    """Return ('csv', True) for 'a.csv.gz'."""
    *_, before, last = ["", "", *os.path.basename(name).lower().split(".")]
    return (before, True) if last in _PACKED else (last, False)


def _guess(path: str, names: Sequence[str]) -> str:
    formats = {FORMAT_BY_ENDING.get(_ending(name)[0]) for name in names}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        return only
    what = "have different endings" if len(formats) > 1 else "the ending is not that of a format"
    raise InputError(f"{path}: {what}: name the format, one of {', '.join(FORMATS)}")


def _check_packing(name: str, format: str) -> None:
    """Refuse a gzip file without the ending .gz: Spark would read the compressed bytes as text."""
    if format == "parquet" or name.lower().endswith(".gz"):
        return
    with open(name, "rb") as file:
        if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
            raise InputError(f"{name}: is gzip, which Spark recognises only by the ending .gz: rename the file")


def _escaped(path: str) -> str:
    """Escape a path, because Spark reads every address as a pattern."""
    return "".join(f"\\{char}" if char in "*?[]{}\\" else char for char in path)


def file_source(
    spark: SparkSession,
    files: Files,
    key: Sequence[str] = (),
    partitions: int | None = None,
    streaming: bool = False,
) -> Source:
    """Read files; skip and count the lines that do not match their format.

    Files of `time<TAB>key` have the columns time and key; for others, name the key columns. In CSV, key columns stay
    text ('007' stays '007'), and the types of other columns are inferred. With `partitions`, row i goes to sender
    i mod partitions, as in `keyspread.simulate`. A `streaming` source reads the files that exist, which decide its
    columns, and every file that is added to the folder or matches the pattern.
    """
    read = {"csv": _csv, "json": _json, "parquet": _parquet, "tsv": _time_and_key}[files.format]
    source = read(spark, spark.readStream if streaming else spark.read, files, tuple(key))
    if partitions is None:
        return source
    partitions = checks.whole_number("partitions", partitions)
    sender = F.pmod(F.monotonically_increasing_id(), F.lit(partitions)).cast("int")
    return replace(
        source,
        rows=source.rows.repartitionById(partitions, sender),
        facts={**source.facts, "partitions": partitions},
        keep=True,
    )


# Each function takes a batch or a streaming reader; a stream has the columns of the files that exist.


def _parquet(spark: SparkSession, reader: Any, files: Files, key: tuple[str, ...]) -> Source:
    rows = reader.schema(spark.read.parquet(files.address).schema).parquet(files.address)
    return Source(rows, _checked(rows, key, files), _title(files), _facts(files))


def _csv(spark: SparkSession, reader: Any, files: Files, key: tuple[str, ...]) -> Source:
    # With column pruning, Spark would not notice a line with too many columns.
    options = {**CSV, "columnNameOfCorruptRecord": MALFORMED, "columnPruning": False}
    inferred = spark.read.options(**options).option("inferSchema", True).csv(files.address)
    names = _checked(inferred, key, files)
    as_text = {name.lower() for name in names}
    schema = StructType(
        [_text(one) if one.name.lower() in as_text else one for one in [*inferred.schema.fields, _MALFORMED_FIELD]]
    )
    # Not enforced, so that files with another order of columns are refused, not mixed up.
    rows = reader.options(**options).option("enforceSchema", False).schema(schema).csv(files.address)
    return without_malformed(rows, names, _title(files), _facts(files))


def _text(field: StructField) -> StructField:
    return StructField(field.name, StringType(), field.nullable)


def _json(spark: SparkSession, reader: Any, files: Files, key: tuple[str, ...]) -> Source:
    options = {"columnNameOfCorruptRecord": MALFORMED}
    inferred = spark.read.options(**options).json(files.address).drop(MALFORMED)
    if not inferred.columns:
        raise InputError(f"{files.path}: no line is a JSON object: write one object per line")
    names = _checked(inferred, key, files)
    schema = StructType([*inferred.schema.fields, _MALFORMED_FIELD])
    rows = reader.options(**options).schema(schema).json(files.address)
    return without_malformed(rows, names, _title(files), _facts(files))


def _time_and_key(spark: SparkSession, reader: Any, files: Files, key: tuple[str, ...]) -> Source:
    line, tab = F.col("value"), F.instr("value", "\t")
    # These functions work on bytes, so a key that is not valid UTF-8 stays as it is.
    parts = (
        reader.text(files.address)
        .where(line != "")
        .select(F.substring_index(line, "\t", 1).alias("time"), line.substr(tab + 1, F.length(line)).alias("key"), line)
    )
    message = F.col("time").rlike(f"^{NUMBER}$") & (tab > 0) & (F.instr("key", "\t") == 0)
    rows = parts.withColumn(MALFORMED, F.when(~message, line)).select(
        F.col("time").try_cast("double"), "key", MALFORMED
    )
    names = _checked(rows.drop(MALFORMED), key or ("key",), files)
    return without_malformed(rows, names, _title(files), _facts(files))


def without_malformed(rows: DataFrame, key: tuple[str, ...], title: str, facts: dict[str, Any]) -> Source:
    """Drop the rows with text in the column of malformed lines, and count them."""
    name, seen = f"keyspread_malformed_{uuid.uuid4().hex}", Observation()
    counted = rows.observe(name if rows.isStreaming else seen, *_count_malformed())
    kept = Source(counted.where(F.col(MALFORMED).isNull()).drop(MALFORMED), key, title, facts, keep=True)
    return replace(kept, observed=name) if rows.isStreaming else replace(kept, _seen=seen, _lines=rows)


def _count_malformed() -> list[Column]:
    line = F.col(MALFORMED)
    return [F.count(line).alias("malformed"), F.min(F.substring(line, 1, 4 * _SHOWN)).alias("first")]


def _checked(rows: DataFrame, key: tuple[str, ...], files: Files) -> tuple[str, ...]:
    if not rows.columns:
        raise InputError(f"{files.path}: no rows and no header")
    if not key:
        raise InputError(f"{files.path}: name the key column (--key); the columns are {', '.join(rows.columns)}")
    try:
        return tuple(key_columns(rows, key))
    except InputError as problem:
        raise InputError(f"{files.path}: {problem}") from None


def _title(files: Files) -> str:
    return files.path if glob.has_magic(files.path) else os.path.basename(files.path.rstrip("/")) or files.path


def _facts(files: Files) -> dict[str, Any]:
    return {"source": files.path, "file_format": files.format}


def _shortened(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
