"""Spark for a command: started quietly, stopped in any case, its troubles told in one line."""

import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyspread.errors import KeyspreadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyspread.cli.interruption import Held

_LOCAL = {
    "spark.sql.shuffle.partitions": 16,  # Spark's own 200 are for a cluster
    "spark.python.daemon.module": "keyspread.spark.launch.daemon",
}


@contextmanager
def spark(
    master: str | None,
    held: "Held",
    verbose: bool,
    short: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Iterator["SparkSession"]:
    """Give the session of this process if there is one, else a new one that ends with the block.

    `short` work is over before the JVM's second compiler pays. `settings` are Spark's, for a new session.
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
        with interruption.stopped_by_ctrl_c(started.stop):
            if not is_local(master):
                with told(verbose):
                    check_answers(started, str(master))
            yield started
    finally:
        started.stop()


def _start(master: str | None, held: "Held", verbose: bool, short: bool, settings: Mapping[str, Any]) -> "SparkSession":
    from keyspread.cli import interruption
    from keyspread.spark import session
    from keyspread.spark.failures import SparkError, why
    from keyspread.spark.launch.master import is_local

    config: dict[str, Any] = {} if verbose else {"spark.log.level": "OFF"}
    if is_local(master):
        config |= _LOCAL
        if short:
            config["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    config |= settings
    try:
        with interruption.uninterrupted():  # a JVM whose launch is cut short would be left behind, alive
            if master is not None and master.startswith("sc://"):
                return session(remote=master)
            return session(master=master, **config)
    except KeyspreadError:
        raise
    except Exception as problem:  # py4j, PySpark and the JVM each have their own
        if verbose:
            traceback.print_exc()
        said = [line for line in held.text().splitlines() if re.search(r"(Error|Exception)\b", line)]
        raise SparkError(f"Spark did not start: {why(said[0] if said else str(problem))}") from problem


@contextmanager
def told(verbose: bool) -> Iterator[None]:
    """Turn what Spark throws into one line, after all of it if the user wants to see it."""
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
