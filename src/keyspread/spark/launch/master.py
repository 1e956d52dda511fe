"""Check that a master answers before Spark starts: Spark itself would try for minutes and print many lines."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from keyspread.errors import InputError

_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\])?\Z")
_PATIENCE = 5.0
"""Seconds for a master to accept a connection."""

_EXAMPLES = "local, local[2], local[*], spark://host:7077, yarn, k8s://host:port and, for Spark Connect, sc://host"


def is_local(master: str | None) -> bool:
    """Return whether Spark will run in a process of this machine."""
    return master is None or master.startswith("local")


def check_master(master: str) -> None:
    """Refuse an invalid address, and a master that does not answer within five seconds."""
    if _LOCAL.match(master):
        return
    if master == "yarn":
        if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
            raise InputError(
                "master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: set it to the folder of the cluster's settings"
            )
        return
    if not master.startswith(("spark://", "k8s://", "sc://")):
        raise InputError(f"unknown master {master!r}; known are {_EXAMPLES}")
    reasons = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()
            return
        except OSError as problem:
            reasons.append(f"{host}:{port}: {problem.strerror or problem}")
    raise InputError(
        f"no Spark answers at {master} ({', '.join(reasons)}): check the address and that Spark is running"
    )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield ('a', 1), ('b', 2) for 'spark://a:1,b:2': a standby master may be given too."""
    kind, _, rest = master.partition("://")
    default = {"spark": 7077, "k8s": 443, "sc": 15002}[kind]
    for place in rest.partition(";")[0].split(","):
        try:
            parts = urlsplit(place if "://" in place else f"//{place}")
            host, port = parts.hostname, parts.port or default
        except ValueError:
            host = None
        if not host:
            raise InputError(f"{master!r} has no host and port: write it as {kind}://host:{default}")
        yield host, port


def check_answers(spark: SparkSession, master: str, seconds: float = 60) -> None:
    """Run a job of one row; refuse a cluster that does not finish it in time because it has no free cores."""
    failed: list[BaseException] = []

    def count() -> None:
        try:
            spark.range(1, numPartitions=1).count()
        except BaseException as problem:
            failed.append(problem)

    asking = threading.Thread(target=count, daemon=True)
    asking.start()
    asking.join(seconds)
    if asking.is_alive():
        raise InputError(
            f"{master} gave no cores within {seconds:g} seconds: check that its workers are running and free"
        )
    if failed:
        raise failed[0]
