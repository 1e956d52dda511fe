"""Spark for a command: started quietly, always stopped, and its failures reported in one line."""

import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyspread.errors import KeyspreadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyspread.cli.standard_error import HeldStderr

_LOCAL = {
    "spark.sql.shuffle.partitions": 16,  # Spark's default of 200 is meant for a cluster
    "spark.python.daemon.module": "keyspread.spark.launch.daemon",
}


@contextmanager
def spark_session(
    master: str | None,
    held: "HeldStderr",
    verbose: bool,
    short: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Iterator["SparkSession"]:
    """Yield the active session of this process if there is one, else a new one that stops at the end of the block.

    `short` jobs end before the JVM's second compiler pays off, so it is switched off. `settings` are Spark settings
    of a new session.
    """
    from pyspark.sql import SparkSession

    from keyspread.cli import interruption
    from keyspread.spark.launch.master import check_answers, is_local

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    started = _start(master, held, verbose, short, settings or {})
    try:
        with interruption.stop_on_ctrl_c(started.stop):
            if not is_local(master):
                with failures_in_one_line(verbose):
                    check_answers(started, str(master))
            yield started
    finally:
        started.stop()


def _start(
    master: str | None, held: "HeldStderr", verbose: bool, short: bool, settings: Mapping[str, Any]
) -> "SparkSession":
    from keyspread.cli import interruption
    from keyspread.spark import session
    from keyspread.spark.failures import SparkError, why
    from keyspread.spark.launch.java import SHORT_LIVED
    from keyspread.spark.launch.master import is_local

    config: dict[str, Any] = {} if verbose else {"spark.log.level": "OFF"}
    if is_local(master):
        config |= _LOCAL
        if short:
            config["spark.driver.extraJavaOptions"] = SHORT_LIVED
    config |= settings
    try:
        with interruption.delay_ctrl_c():  # a JVM whose launch is interrupted would stay alive
            if master is not None and master.startswith("sc://"):
                return session(remote=master)
            return session(master=master, **config)
    except KeyspreadError:
        raise
    except Exception as problem:  # py4j, PySpark and the JVM each raise their own
        if verbose:
            traceback.print_exc()
        errors = [line for line in held.text().splitlines() if re.search(r"(Error|Exception)\b", line)]
        raise SparkError(f"Spark did not start: {why(errors[0] if errors else str(problem))}") from problem


@contextmanager
def failures_in_one_line(verbose: bool) -> Iterator[None]:
    """Turn whatever Spark raises into an error of one line; if `verbose`, print the whole stack trace before it."""
    from keyspread.spark.failures import in_one_line

    with in_one_line():
        try:
            yield
        except KeyspreadError:
            raise
        except Exception:
            if verbose:
                traceback.print_exc()
            raise
