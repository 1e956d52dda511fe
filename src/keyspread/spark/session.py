"""`session`: a Spark session that prints errors only, on a machine with or without Java.

The defaults apply to sessions that start here. The library never changes settings of other sessions.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from keyspread.errors import ExtraMissingError, InputError
from keyspread.spark._launch.java import use_java
from keyspread.spark._launch.master import StartupErrors

_DEFAULTS = {
    "spark.app.name": "keyspread",
    "spark.driver.memory": "2g",  # a local master runs everything in the driver, and Spark's default of 1g is small
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # the fastest for routing in Python
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Stopping a streaming query in mid-batch can overflow a stack of the default size, which prints a long trace.
_STACK = "-Xss16m"
_LOG4J = Path(__file__).parent / "_launch" / "log4j2.properties"
_SHORT = {"master": "spark.master", "app_name": "spark.app.name", "remote": "spark.remote"}
_CONNECT_CLIENT = ("spark.sql.", "spark.remote", "spark.app.name")


def session(**config: Any) -> SparkSession:
    """Return a running Spark session that prints errors only; find Java, or use the one of `keyspread[java]`.

    It is for commands, tests and quick starts; the library works with any other session too. If Spark already runs in
    this process, its session is returned, with `config` applied as by `SparkSession.builder`.

    `config` takes `master` (default `local[*]`), `app_name`, `remote`, and every setting of Spark by its name with
    dots. `remote` makes it a Spark Connect session: to a server (`sc://host`), or to one that is started here
    (`local[2]`).

    Returns:
        The session that runs, or a new one.

    Raises:
        InputError: A setting is unknown, or Spark cannot download a package.
        ExtraMissingError: Spark Connect needs a package that is not installed.
        JavaMissingError: There is no Java that this Spark can use.

    >>> from keyspread.spark import session
    >>> spark = session(master="local[2,4]", **{"spark.sql.shuffle.partitions": 4})
    >>> spark.range(10).count()
    10
    """
    wanted = {_SHORT.get(name, name): _text(name, value) for name, value in config.items() if value is not None}
    active = SparkSession.getActiveSession()
    if active is not None and not wanted:
        return active
    if active is not None and is_remote() and "spark.remote" not in wanted:
        for name, value in wanted.items():  # the builder would ask for the server's address again
            active.conf.set(name, value)
        return active
    if _runs_already():
        return _get(wanted)
    return _start(wanted)


def _text(name: str, value: Any) -> str:
    if name not in _SHORT and "." not in name:
        raise InputError(
            f"session() takes {', '.join(_SHORT)} and settings of Spark, got {name}={value!r}: "
            'pass a setting as session(**{"spark.ui.enabled": True})'
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _runs_already() -> bool:
    # spark-submit starts the JVM before this Python process, and decides on master and settings.
    return SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _get(settings: dict[str, str]) -> SparkSession:
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _start(wanted: dict[str, str]) -> SparkSession:
    if "spark.master" not in wanted and "spark.remote" not in wanted:
        if "SPARK_REMOTE" in os.environ:
            wanted["spark.remote"] = os.environ["SPARK_REMOTE"]
        else:
            wanted["spark.master"] = "local[*]"
    remote = wanted.get("spark.remote")
    if remote is not None:
        _check_connect(remote)
        if remote.startswith("sc://"):  # no JVM on this side
            return _get(wanted)

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (remote or wanted["spark.master"]).startswith("local"):
        # Otherwise Spark looks up the name of the host, which fails on many laptops. A cluster needs the real address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _DEFAULTS | wanted
    java_options = [f'"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"', _STACK]
    java_options.append(wanted.get("spark.driver.extraJavaOptions", ""))  # last, so that the caller's take precedence
    settings["spark.driver.extraJavaOptions"] = " ".join(java_options).strip()

    with _packages_found(StartupErrors()) as errors:
        if SparkContext._gateway is None:
            # As the builder does, but with the JVM's standard error redirected. SPARK_REMOTE is already in the
            # settings; the launcher would refuse it together with a master.
            os.environ.pop("SPARK_REMOTE", None)
            conf = SparkConf().setAll([(k, v) for k, v in settings.items() if k != "spark.remote"])
            gateway = launch_gateway(conf, {"stderr": errors.descriptor})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
        if remote is not None:
            # The server got all settings at its launch; the client may set only these, and warns about others.
            settings = {k: v for k, v in settings.items() if k.startswith(_CONNECT_CLIENT)}
        return _get(settings)


@contextmanager
def _packages_found(errors: StartupErrors) -> Iterator[StartupErrors]:
    """Say in one line which packages could not be downloaded, instead of the resolver's report."""
    try:
        with errors:
            yield errors
    except Exception:
        if not errors.unresolved:
            raise
        raise InputError(
            f"Spark cannot download {', '.join(errors.unresolved)} (spark.jars.packages): it is in no local cache, and "
            "no repository has it; check the version and the network, or pass the jars and their dependencies: "
            'session(**{"spark.jars": "a.jar,b.jar"}), or keyspread run --option spark.jars=a.jar,b.jar'
        ) from None


def _check_connect(remote: str) -> None:
    for package in ("grpc", "grpc_status", "zstandard"):
        if find_spec(package) is None:
            raise ExtraMissingError(
                f"remote={remote!r} is Spark Connect and needs {package}, which is not installed: "
                "pip install 'keyspread[connect]'"
            )
