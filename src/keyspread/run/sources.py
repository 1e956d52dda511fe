"""A folder on any file system that pyarrow knows: local, s3://…, hdfs://…, gs://…"""

import glob
import math
import os
import posixpath
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import column_function
from keyspread.spark._routing.keys import key_columns
from keyspread.spark.kafka import check_brokers, kafka_source
from keyspread.streams import GeneratedStream
from keyspread.streams.generated import Law


@dataclass(frozen=True)
class Folder:
    """A path, or an address as Spark writes it. Nothing is opened before it is used; errors are OSErrors."""

    address: str

    def at(self, *names: str) -> str:
        """Return the address of a file or folder in it."""
        return posixpath.join(self.address.rstrip("/"), *names)

    def names(self, *under: str) -> list[str]:
        """Return the names of its files and folders, sorted; a folder that does not exist is empty."""
        system, path = self._open()
        entries = system.get_file_info(fs.FileSelector(posixpath.join(path, *under), allow_not_found=True))
        return sorted(entry.base_name for entry in entries)

    def has(self, *names: str) -> bool:
        """Return whether a file or folder exists."""
        system, path = self._open()
        return bool(system.get_file_info(posixpath.join(path, *names)).type != fs.FileType.NotFound)

    def read(self, *names: str) -> bytes:
        """Return the content of a file."""
        system, path = self._open()
        with system.open_input_stream(posixpath.join(path, *names)) as file:
            return bytes(file.read())

    def write(self, data: bytes, *names: str) -> None:
        """Write a file completely or not at all: under another name, then moved."""
        system, path = self._open()
        wanted = posixpath.join(path, *names)
        hidden = posixpath.join(posixpath.dirname(wanted), f".{uuid.uuid4().hex}")
        system.create_dir(posixpath.dirname(wanted), recursive=True)
        with system.open_output_stream(hidden) as file:
            file.write(data)
        system.move(hidden, wanted)

    def delete(self, *names: str) -> None:
        """Delete a folder in it, with everything inside."""
        system, path = self._open()
        system.delete_dir(posixpath.join(path, *names))

    def _open(self) -> tuple[fs.FileSystem, str]:
        address = self.address.removeprefix("file://") if self.address.startswith("file:///") else self.address
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", address) and not address.startswith("file:/"):
            try:
                # Spark's name for S3 is not pyarrow's.
                system, path = fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
            except ValueError as problem:  # dbfs:/x and other file systems that only Spark knows
                raise OSError(f"pyarrow has no file system for {address.partition(':')[0]}:") from problem
            return system, path
        return fs.LocalFileSystem(), os.path.abspath(address.removeprefix("file:"))


# What `keyspread run` reads: a generated stream that is drawn inside Spark's tasks, or whatever Spark's readers read.
#
# Files, tables and Kafka topics are read by Spark itself, with the options that the user passes.


CSV: dict[str, Any] = {"header": True, "escape": '"'}
"""Options of CSV files: a quote within quotes is doubled, as everywhere but in Spark's default, a backslash."""
_TSV: dict[str, Any] = {"sep": "\t", "quote": "", "schema": "time DOUBLE, key STRING"}
_FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
_FORMATS |= {name: name for name in ("tsv", "parquet", "orc", "text", "avro")}
"""The format of a file by its ending."""
TABLE, KAFKA = "table", "kafka"
_BROKERS = "kafka.bootstrap.servers"
_PACKED = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)\Z", re.IGNORECASE)
_LOCAL = re.compile(r"file:(?://(?=/))?(?=/)")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters at least: C:/ is a drive

# The senders of a generated stream. They do not depend on the machine, so that loads do not either.
_SENDERS, _STREAMING_SENDERS, _ROWS_PER_SENDER = 8, 4, 1 << 22


@dataclass(frozen=True)
class Source:
    """Rows to spread, the columns of their key, a title, and facts for the report."""

    rows: DataFrame
    key: tuple[str, ...]
    title: str
    facts: dict[str, Any]
    keep: bool = False
    """Whether a job should persist rows that it reads several times: reading is expensive or not repeatable."""


# - generated streams


def made_source(spark: SparkSession, stream: GeneratedStream, senders: int | None = None) -> Source:
    """Return a generated stream as rows: row i is message i, with i in column `id` and a key from 1 in column `key`.

    Keys are drawn inside the tasks and depend only on the stream's parameters, not on senders, cores or attempts.

    >>> from keyspread.spark import session
    >>> from keyspread.streams import ZipfStream
    >>> stream = ZipfStream(1.4, keys=100, messages=3, seed=1)
    >>> made_source(session(), stream).rows.collect() == made_source(session(), stream, senders=2).rows.collect()
    True
    """
    if senders is None:
        senders = max(_SENDERS, math.ceil(stream.messages / _ROWS_PER_SENDER))
    rows = _drawn(spark.range(0, stream.messages, 1, checks.whole_number("senders", senders)), stream)
    return Source(rows, ("key",), stream.title, _facts_of(stream, senders))


def endless_source(
    spark: SparkSession, stream: GeneratedStream, rows_per_batch: int, senders: int | None = None
) -> Source:
    """Return a generated stream without end, with `rows_per_batch` rows per micro-batch; row i is message i.

    A query resumes from its checkpoint with the next message, even at another rate: no message is lost or repeated.
    """
    senders = checks.whole_number("senders", _STREAMING_SENDERS if senders is None else senders)
    counter = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", checks.whole_number("rows_per_batch", rows_per_batch))
        .option("numPartitions", senders)
        .load()
    )
    facts = {name: value for name, value in _facts_of(stream, senders).items() if name != "messages"}
    return Source(_drawn(counter.selectExpr("value AS id"), stream), ("key",), stream.title, facts)


def _facts_of(stream: GeneratedStream, senders: int) -> dict[str, Any]:
    return {"source": stream.kind, **stream.parameters(), "seed": stream.seed, "senders": senders}


def _drawn(positions: DataFrame, stream: GeneratedStream) -> DataFrame:
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


# - files, tables and topics, read by Spark


@dataclass(frozen=True)
class Files:
    """Files, a table or a topic: its name, what Spark is given, the format, and the options of Spark's reader."""

    path: str
    address: str
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name for people: that of the file, the table or the topic."""
        return self.path if glob.has_magic(self.path) else os.path.basename(self.path.rstrip("/")) or self.path


def find_files(path: str, format: str | None = None, options: Mapping[str, Any] | None = None) -> Files:
    """Check without Spark that an input exists, and find its format.

    A path on this machine must exist. One elsewhere (s3a://…) is not checked. A name that is no path and has no ending
    of a file is a table. With `format` "kafka" it is a topic.

    >>> find_files("s3a://bucket/rows.csv.gz").format, find_files("sales.orders").format
    ('csv', 'table')
    """
    options = dict(options or {})
    if format is not None:
        format = format.lower()
    if format == KAFKA:
        if _BROKERS not in options:
            raise InputError(f"a Kafka topic needs its brokers: --option {_BROKERS}=localhost:9092")
        check_brokers(str(options[_BROKERS]))
    if format in (KAFKA, TABLE):
        return Files(path, path, format, options)
    if is_address(path):
        return Files(path, path, format or _guessed(path, [path]), options)
    local = local_path(path)
    there = [local] if os.path.lexists(local) else glob.glob(local)
    if not there:
        if format is None and is_table(path):
            return Files(path, path, TABLE, options)
        what = "no file matches this pattern" if glob.has_magic(path) else "no such file or folder"
        raise InputError(f"{path}: {what}")
    # Spark reads every address as a pattern.
    address = re.sub(r"([*?\[\]{}\\])", r"\\\1", local) if os.path.lexists(local) else local
    return Files(path, f"file://{address}", format or _guessed(path, there), options)


def is_address(path: str) -> bool:
    """Tell whether a path names a file system that is not this machine's.

    >>> [is_address(path) for path in ("s3a://bucket/x", "dbfs:/x", "file:/x", "file:///x", "C:/x", "a:b", "x")]
    [True, True, False, False, False, False, False]
    """
    return _ADDRESS.match(path) is not None and _LOCAL.match(path) is None


def local_path(path: str) -> str:
    """Return the absolute path of a path on this machine, with or without file:."""
    return os.path.abspath(_LOCAL.sub("", path, count=1))


def for_spark(path: str) -> str:
    """Return what Spark must be given, because its default file system may be another: an address as it is, or file://.

    >>> for_spark("/tmp/a b"), for_spark("hdfs:/x")
    ('file:///tmp/a b', 'hdfs:/x')
    """
    return path if is_address(path) else f"file://{local_path(path)}"


def format_of(path: str) -> str | None:
    """Return the format that the ending of a path names: 'csv' for 'a.csv.gz'; None if it names none."""
    ending = os.path.splitext(_PACKED.sub("", path.rstrip("/")))[1]
    return _FORMATS.get(ending.lower().lstrip("."))


def is_table(name: str) -> bool:
    """Tell whether a name is that of a table: it is no path and has no ending of a file.

    >>> is_table("sales.orders"), is_table("counts/"), is_table("counts.parquet")
    (True, False, False)
    """
    return format_of(name) is None and re.fullmatch(r"[\w`.-]+", name) is not None


def _guessed(path: str, names: Sequence[str]) -> str:
    """Return the format of the ending of a path, or of the files that a folder or a pattern has."""
    if (format := format_of(path)) is not None:
        return format
    inside = [
        file
        for name in names
        for file in (glob.glob(f"{glob.escape(name)}/**", recursive=True) if os.path.isdir(name) else [name])
        if os.path.isfile(file) and not os.path.basename(file).startswith(("_", "."))
    ]
    formats = {format_of(file) for file in inside}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        return only
    what = "the files have different endings" if len(formats) > 1 else "the ending is not that of a format"
    raise InputError(f"{path}: {what}: name the format of Spark's reader, such as csv, json, parquet or tsv")


def file_source(spark: SparkSession, files: Files, key: Sequence[str] = (), streaming: bool = False) -> Source:
    """Read files, a table or a topic with Spark's own reader.

    The columns of CSV files are text ('007' stays '007'). TSV files are lines of `time<TAB>key`. The key is `key` by
    default for TSV files and topics, whose keys and values are text; for others, name its columns. A `streaming` source
    of files has the columns of the files that exist, and also reads every file that is added.
    """
    rows = _topic(spark, files, streaming) if files.format == KAFKA else _read(spark, files, streaming)
    if not rows.columns:
        raise InputError(f"{files.path}: no rows and no header")
    if not key and files.format not in ("tsv", KAFKA):
        raise InputError(f"{files.path}: name the key column (--key); the columns are {', '.join(rows.columns)}")
    try:
        names = tuple(key_columns(rows, tuple(key) or ("key",)))
    except InputError as problem:
        raise InputError(f"{files.path}: {problem}") from None
    return Source(rows, names, files.title, {"source": files.path, "file_format": files.format}, keep=True)


def _read(spark: SparkSession, files: Files, streaming: bool) -> DataFrame:
    presets = {"csv": CSV, "tsv": _TSV}.get(files.format, {})
    options = {**presets, **files.options}
    schema = options.pop("schema", None)
    bounded, reader = spark.read.options(**options), (spark.readStream if streaming else spark.read).options(**options)
    if files.format == TABLE:
        return reader.table(files.address)
    format = "csv" if files.format == "tsv" else files.format
    if streaming and schema is None:
        schema = bounded.format(format).load(files.address).schema
    if schema is not None:
        reader = reader.schema(schema)
    return reader.format(format).load(files.address)


def _topic(spark: SparkSession, files: Files, streaming: bool) -> DataFrame:
    options = dict(files.options)
    brokers = str(options.pop(_BROKERS))
    starting, most = options.pop("startingOffsets", "earliest"), options.pop("maxOffsetsPerTrigger", None)
    rows_per_batch = None if most is None else checks.whole_number("maxOffsetsPerTrigger", int(most))
    return kafka_source(
        spark, brokers, files.path, starting=starting, streaming=streaming, max_rows=rows_per_batch, options=options
    )


def writer(rows: DataFrame, path: str) -> DataFrameWriter:
    """Return Spark's writer of rows, in the format of the ending of a path, else as Parquet."""
    format = format_of(path) or "parquet"
    if format == "tsv":
        return rows.write.format("csv").options(**CSV, sep="\t")
    return rows.write.format(format).options(**(CSV if format == "csv" else {}))
