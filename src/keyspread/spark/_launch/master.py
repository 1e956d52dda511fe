"""Check that a master answers before Spark starts: Spark itself would try for minutes and print many lines."""

import contextlib
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


# The JVM's standard error: held back while Spark starts, shown if the start fails, passed on afterwards.


# The library behind Spark's sketches prints this once; the sketches work.
_HARMLESS = b"Java versions > Java 11 can only operate in restricted mode"
_UNRESOLVED = re.compile(rb"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+)")
_STARTED, _FAILED = b"\0keyspread: started\n", b"\0keyspread: failed\n"


class StartupErrors:
    """A successful start shows nothing of the JVM's standard error, a failed one all of it; later lines are shown.

    On a successful start, the JVM's own warnings and the list of downloaded packages are dropped. If Spark logs an
    error but starts, the error and all lines after it are shown.

    Only the JVM's process gets `descriptor`, so that the output of Python is not held back. If a package cannot be
    downloaded, `unresolved` names it, and the resolver's report of eighty lines is not shown.
    """

    unresolved: tuple[str, ...] = ()
    """Packages of spark.jars.packages that were not found, after a failed start."""

    def __enter__(self) -> "StartupErrors":
        """Open the pipe and start reading it."""
        self._read, self.descriptor = os.pipe()
        self._settled = threading.Event()
        # A daemon thread: it ends with the JVM or with this process, whichever ends first.
        threading.Thread(target=self._pass_on, name="keyspread-jvm-stderr", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the outcome into the pipe itself, so that exactly the lines before it count as start-up."""
        os.write(self.descriptor, _STARTED if kind is None else _FAILED)
        os.close(self.descriptor)
        self._settled.wait(timeout=5)  # so that the reason of a failure is printed above the exception

    def _pass_on(self) -> None:
        held: list[bytes] = []
        starting = True
        with os.fdopen(self._read, "rb") as pipe:
            for line in pipe:
                if not starting:
                    if _HARMLESS not in line:
                        _show(line)
                elif line in (_STARTED, _FAILED):
                    starting = False
                    self.unresolved = _unresolved(held) if line == _FAILED else ()
                    if not self.unresolved:
                        _show(b"".join(held if line == _FAILED else _from_first_error(held)))
                    self._settled.set()
                else:
                    held.append(line)


def _unresolved(lines: list[bytes]) -> tuple[str, ...]:
    """Return ('group:module:version',) for lines such as '… unresolved dependency: group#module;version: not found'."""
    found = (match for match in map(_UNRESOLVED.search, lines) if match)
    return tuple(dict.fromkeys(b":".join(match.groups()).decode() for match in found))


def _from_first_error(lines: list[bytes]) -> list[bytes]:
    first = next((i for i, line in enumerate(lines) if b" ERROR " in line), len(lines))
    return lines[first:]


def _show(text: bytes) -> None:
    # Not sys.stderr: Python aborts if a daemon thread holds its lock at exit. If standard error is closed, errors are
    # ignored, because the pipe must be emptied, or the JVM would wait for room in it.
    with contextlib.suppress(OSError):
        os.write(2, text)
