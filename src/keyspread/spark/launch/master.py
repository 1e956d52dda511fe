"""Is there a Spark to run on? Asked before it is started, because Spark itself asks for minutes and in many lines."""

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
"""Seconds for a master to take a connection."""

_KNOWN = "local, local[2], local[*], spark://host:7077, yarn, k8s://host:port and, for Spark Connect, sc://host"


def is_local(master: str | None) -> bool:
    """Say whether Spark will run in a process of this machine."""
    return master is None or master.startswith("local")


def check_master(master: str) -> None:
    """Refuse an address that is none, and a master that does not answer within five seconds."""
    if _LOCAL.match(master):
        return
    if master == "yarn":
        if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
            raise InputError("master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR, the folder of the cluster's settings")
        return
    if not master.startswith(("spark://", "k8s://", "sc://")):
        raise InputError(f"unknown master {master!r}; known are {_KNOWN}")
    reasons = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()
            return
        except OSError as problem:
            reasons.append(f"{host}:{port}: {problem.strerror or problem}")
    raise InputError(f"no Spark answers at {master} ({', '.join(reasons)}): check the address and that it runs")


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """'spark://a:1,b:2' → ('a', 1), ('b', 2): a stand-by master may be named too."""
    kind, _, rest = master.partition("://")
    default = {"spark": 7077, "k8s": 443, "sc": 15002}[kind]
    for place in rest.partition(";")[0].split(","):
        try:
            parts = urlsplit(place if "://" in place else f"//{place}")
            host, port = parts.hostname, parts.port or default
        except ValueError:
            host = None
        if not host:
            raise InputError(f"{master!r} names no host and port; write it as in {kind}://host:{default}")
        yield host, port


def check_answers(spark: SparkSession, master: str, seconds: float = 60) -> None:
    """Run a job of one row; refuse a cluster that has not done it in time, for want of free cores."""
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
        raise InputError(f"{master} gave no cores within {seconds:g} seconds: are its workers up, and free?")
    if failed:
        raise failed[0]
