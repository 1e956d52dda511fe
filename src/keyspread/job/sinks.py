"""Where the result goes: a folder of Parquet or CSV files, all of it or nothing.

May be changed here: the formats that are written. A folder is replaced only if Spark wrote it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from keyspread.errors import InputError

FORMATS = ("csv", "parquet")


@dataclass(frozen=True)
class Target:
    """A place that can be written to; `local` if it is a folder of this machine, which is written beside first."""

    path: str
    format: str
    overwrite: bool
    local: bool


def find_target(path: str, format: str | None = None, overwrite: bool = False) -> Target:
    """Look whether results can be written there, before anything is computed; the format is told by the ending.

    A path with a scheme (s3a://…, hdfs://…) is left to Spark.
    """
    format = result_format(path, format)
    if "://" in path and not path.startswith("file:///"):
        return Target(path, format, overwrite, local=False)
    folder = os.path.abspath(path.removeprefix("file://") if path.startswith("file:///") else path)
    check_new(folder, overwrite)
    if os.path.exists(folder):
        _check_replaceable(folder)
    return Target(folder, format, overwrite, local=True)


def result_format(path: str, format: str | None) -> str:
    """Give the format asked for, or that of the path's ending."""
    if format is None:
        return "csv" if path.rstrip("/").lower().endswith(".csv") else "parquet"
    if format.lower() not in FORMATS:
        raise InputError(f"results are written as {' or '.join(FORMATS)}, got {format!r}")
    return format.lower()


def check_new(path: str, overwrite: bool) -> None:
    """Refuse what is there already, unless it may be overwritten, and what cannot be made."""
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} is there already: choose another name, or allow --overwrite")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: there is no folder {parent}, make it first")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".keyspread-", dir=parent))
    except OSError as problem:
        raise InputError(f"{path} cannot be written ({problem.strerror}): check the rights of {parent}") from None


def _check_replaceable(folder: str) -> None:
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is a file, and results are a folder: choose another name")
    foreign = [name for name in sorted(os.listdir(folder)) if not name.startswith(("part-", ".part-", "_", "._"))]
    if foreign:
        raise InputError(f"{folder} holds {foreign[0]!r}, which Spark did not write: choose another folder")


def check_apart(target: Target, source: str) -> None:
    """Refuse to replace what is being read."""
    read, written = os.path.realpath(source.removeprefix("file://")), os.path.realpath(target.path)
    if target.local and (read + os.sep).startswith(written + os.sep):
        raise InputError(f"{target.path} is where the rows come from: choose another folder for the results")


def check_columns(result: StructType, target: Target) -> None:
    """Refuse columns that the format cannot hold."""
    if target.format != "csv":
        return
    for field in result.fields:
        if isinstance(field.dataType, ArrayType | BinaryType | MapType | StructType):
            kind = field.dataType.simpleString()
            raise InputError(f"CSV cannot hold column {field.name!r} of type {kind}: write Parquet")


def check_remote(spark: SparkSession, target: Target) -> None:
    """Refuse, before anything is computed, a remote folder that is there already."""
    if target.local or target.overwrite:
        return
    try:
        spark.read.text(target.path).schema  # noqa: B018  (asks whether it is there)
    except AnalysisException:
        return
    raise InputError(f"{target.path} is there already: choose another name, or allow --overwrite")


def write(result: DataFrame, target: Target) -> None:
    """Write all rows, or leave everything as it was: a local folder appears at once, when it is complete."""
    if target.local:
        with _put_in_place(target.path) as beside:
            save(result, beside, target.format, "overwrite")
    else:
        save(result, target.path, target.format, "overwrite" if target.overwrite else "errorifexists")


def save(result: DataFrame, path: str, format: str, mode: str) -> None:
    """Write into a folder, as Spark does it."""
    writer = result.write.mode(mode)
    if format == "csv":
        writer.option("header", True).csv(path)
    else:
        writer.parquet(path)


@contextmanager
def _put_in_place(folder: str) -> Iterator[str]:
    """Give a name beside the folder; what was written there takes the folder's place if all went well."""
    parent, name = os.path.split(folder)
    workshop = tempfile.mkdtemp(prefix=f".{name}-", dir=parent)
    new, old = os.path.join(workshop, "new"), os.path.join(workshop, "old")
    try:
        yield new
        if os.path.lexists(folder):
            os.rename(folder, old)
        try:
            os.rename(new, folder)
        except OSError:
            if os.path.lexists(old):
                os.rename(old, folder)
            raise
    except OSError as problem:
        raise InputError(f"{folder} cannot be written ({problem.strerror}): check the rights of {parent}") from None
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def write_text(text: str, path: str) -> None:
    """Write a file at once: all of it or nothing."""
    parent = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, beside = tempfile.mkstemp(prefix=".keyspread-", dir=parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(text)
            os.chmod(beside, 0o644)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as problem:
        raise InputError(f"{path} cannot be written ({problem.strerror}): check the rights of {parent}") from None
