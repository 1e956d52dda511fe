"""Write the result to a folder of Parquet or CSV files, completely or not at all.

An existing folder is replaced only if Spark wrote it.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from keyspread.errors import InputError
from keyspread.job.addresses import for_spark, is_address, local_path
from keyspread.job.sources import CSV

FORMATS = ("csv", "parquet")
_REMOVALS = 50  # at most, a tenth of a second apart


@dataclass(frozen=True)
class Target:
    """A folder for results; if it is `local`, on this machine, it is written under another name and then renamed."""

    path: str
    format: str
    overwrite: bool
    local: bool


def find_target(path: str, format: str | None = None, overwrite: bool = False) -> Target:
    """Check that results can be written to a path before anything is computed; its ending decides the format.

    An address (s3a://…, hdfs:/…) is not checked here.
    """
    format = result_format(path, format)
    if is_address(path):
        return Target(path, format, overwrite, local=False)
    folder = local_path(path)
    check_new(folder, overwrite)
    if os.path.exists(folder):
        _check_replaceable(folder)
    return Target(folder, format, overwrite, local=True)


def result_format(path: str, format: str | None) -> str:
    """Return the given format, or that of the path's ending."""
    if format is None:
        return "csv" if path.rstrip("/").lower().endswith(".csv") else "parquet"
    if format.lower() not in FORMATS:
        raise InputError(f"results are written as {' or '.join(FORMATS)}, got format {format!r}")
    return format.lower()


def check_new(path: str, overwrite: bool) -> None:
    """Refuse a path that exists, unless it may be overwritten, and a path that cannot be created."""
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} exists already: choose another name, or use --overwrite")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: there is no folder {parent}, create it first")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".keyspread-", dir=parent))
    except OSError as problem:
        raise InputError(f"{path} cannot be written ({problem.strerror}): check permissions of {parent}") from None


def _check_replaceable(folder: str) -> None:
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is a file, but results are a folder: choose another name")
    foreign = [name for name in sorted(os.listdir(folder)) if not name.startswith(("part-", ".part-", "_", "._"))]
    if foreign:
        raise InputError(f"{folder} holds {foreign[0]!r}, which Spark did not write: choose another folder")


def check_apart(target: Target, source: str) -> None:
    """Refuse a target that contains the input."""
    if not target.local or is_address(source):
        return
    read, written = os.path.realpath(local_path(source)), os.path.realpath(target.path)
    if (read + os.sep).startswith(written + os.sep):
        raise InputError(f"{target.path} contains the input: choose another folder for the results")


def check_columns(result: StructType, target: Target) -> None:
    """Refuse columns that the format cannot hold."""
    if target.format != "csv":
        return
    for field in result.fields:
        if isinstance(field.dataType, ArrayType | BinaryType | MapType | StructType):
            kind = field.dataType.simpleString()
            raise InputError(f"CSV cannot hold column {field.name!r} of type {kind}: write Parquet")


def check_remote(spark: SparkSession, target: Target) -> None:
    """Refuse a remote folder that exists already, before anything is computed."""
    if target.local or target.overwrite:
        return
    try:
        spark.read.text(target.path).schema  # noqa: B018  (raises if it does not exist)
    except AnalysisException:
        return
    raise InputError(f"{target.path} exists already: choose another name, or use --overwrite")


def write(result: DataFrame, target: Target) -> None:
    """Write all rows, or leave everything as it was: a local folder appears when it is complete."""
    if target.local:
        with _replacing(target.path) as temporary:
            save(result, for_spark(temporary), target.format, "overwrite")
    else:
        save(result, target.path, target.format, "overwrite" if target.overwrite else "errorifexists")


def save(result: DataFrame, path: str, format: str, mode: str) -> None:
    """Write a folder with Spark."""
    writer = result.write.mode(mode)
    if format == "csv":
        writer.options(**CSV).csv(path)
    else:
        writer.parquet(path)


@contextmanager
def _replacing(folder: str) -> Iterator[str]:
    """Yield a temporary path next to the folder, and rename it to the folder if nothing failed."""
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
    except BaseException as problem:
        _remove_for_good(workshop)
        if isinstance(problem, OSError):
            raise InputError(
                f"{folder} cannot be written ({problem.strerror}): check permissions of {parent}"
            ) from None
        raise
    shutil.rmtree(workshop, ignore_errors=True)


def _remove_for_good(folder: str) -> None:
    """Remove a folder until it stays away: tasks of a job that has failed may still write for a moment."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)
        if not os.path.lexists(folder):
            return


def write_text(text: str, path: str) -> None:
    """Write a file completely or not at all."""
    parent = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".keyspread-", dir=parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as problem:
        raise InputError(f"{path} cannot be written ({problem.strerror}): check permissions of {parent}") from None
