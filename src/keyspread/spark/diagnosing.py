"""`diagnosing`: print where the time of the queries within a block went, from the session's own event log."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keyspread.diagnosis.diagnose_log import diagnose_files, read_events
from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.log.files import LogFiles, find_logs
from keyspread.errors import InputError

_UNREADABLE = ("lz4", "lzf")
"""The last block of lz4 is written only when the session stops, and lzf is not read at all."""
_PATIENCE = 10.0
_STEP = 0.1


@dataclass
class Diagnosing:
    """What the block has to say, once it has ended."""

    diagnosis: Diagnosis | None = field(default=None)
    """The findings; None within the block."""


@contextmanager
def diagnosing(spark: SparkSession, *, show: bool = True) -> Iterator[Diagnosing]:
    """Diagnose the queries that run within the block, and print the findings at its end.

    Spark keeps what happened in each task only in its event log, so the session needs one, in a folder that this
    process can read: `spark.eventLog.enabled=true` and `spark.eventLog.dir=…` when Spark starts. Without it, one line
    says so before anything runs. This holds for Spark Connect too, whose server writes the log.

    The block yields an object whose `diagnosis` is set at the end; `show=False` prints nothing.

    Args:
        spark: The session whose queries are diagnosed.
        show: Whether the findings are printed.

    Returns:
        A context manager; its value has the `diagnosis` at the end.

    Raises:
        InputError: The session writes no event log that this process can read.

    >>> from keyspread.spark import diagnosing
    >>> with diagnosing(spark):  # doctest: +SKIP
    ...     orders.join(customers, "customer").write.parquet("out")
    """
    log = _log_of(spark)
    begin = int(time.time() * 1000)
    seen = Diagnosing()
    yield seen
    seen.diagnosis = _settled(log, begin)
    if show:
        print(seen.diagnosis)


def _log_of(spark: SparkSession) -> Path:
    """Return the log of the running application: a file or a rolling folder."""
    if (_setting(spark, "spark.eventLog.enabled") or "false").lower() != "true":
        raise InputError(
            "diagnosing needs the event log of the session, which is off: start Spark with spark.eventLog.enabled=true "
            "and spark.eventLog.dir=FOLDER, or run the job and use keyspread diagnose on its log"
        )
    codec = _setting(spark, "spark.eventLog.compression.codec") or "zstd"
    if codec in _UNREADABLE and (_setting(spark, "spark.eventLog.compress") or "").lower() == "true":
        raise InputError(
            f"the event log is compressed with {codec}, which cannot be read while the session runs: start Spark with "
            "spark.eventLog.compression.codec=zstd, the default"
        )
    folder = _setting(spark, "spark.eventLog.dir") or "/tmp/spark-events"
    path = folder.removeprefix("file:")
    if "://" in path.removeprefix("//"):
        raise InputError(
            f"the event log is in {folder}, which this process cannot read: copy it, then keyspread diagnose"
        )
    name = _setting(spark, "spark.app.id") or ""
    local = Path(os.path.normpath(path))
    logs = [entry for entry in local.glob(f"*{name}*") if not entry.name.startswith(".")] if name else []
    if not logs:
        raise InputError(
            f"no event log of {name or 'this application'} in {folder}: this process must be able to read it"
        )
    return max(logs, key=lambda entry: entry.stat().st_mtime)


def _setting(spark: SparkSession, name: str) -> str | None:
    try:
        return spark.conf.get(name, None)
    except PySparkException:
        return None


def _settled(log: Path, begin: int) -> Diagnosis:
    """Return the diagnosis once the log holds the end of every job that it holds the start of."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        events = read_events(_running(log)).application.events
        if events["SparkListenerJobStart"] <= events["SparkListenerJobEnd"]:
            break
        time.sleep(_STEP)
    diagnosis = diagnose_files(_running(log), begin)
    # A session that runs has a log without an end.
    return replace(diagnosis, notes=tuple(note for note in diagnosis.notes if "ends early" not in note))


def _running(log: Path) -> LogFiles:
    (files,) = find_logs([log])
    return replace(files, running=False)
