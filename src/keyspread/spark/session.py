"""A Spark session that says nothing unless something is wrong, on a machine with or without Java.

May be changed here: the defaults of our own sessions. Users' sessions are never touched by the library.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from keyspread.errors import ExtraMissingError, InputError
from keyspread.spark.launch.java import use_java
from keyspread.spark.launch.stderr import StartupErrors

_DEFAULTS = {
    "spark.app.name": "keyspread",
    "spark.driver.memory": "2g",  # with a local master everything is in the driver; Spark's 1g is little
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # fastest for routing in Python
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Stopping a streaming query in mid-batch can overflow a stack of the usual size, and prints all of it.
_STACK = "-Xss16m"
_LOG4J = Path(__file__).parent / "launch" / "log4j2.properties"
_SHORT = {"master": "spark.master", "app_name": "spark.app.name", "remote": "spark.remote"}
_CONNECT_CLIENT = ("spark.sql.", "spark.remote", "spark.app.name")


def session(**config: Any) -> SparkSession:
    """A running Spark session that prints errors only; Java is found, or brought by `keyspread[java]`.

    For commands, tests and quick starts; the library works with any other session as well. If Spark runs in
    this process already, its session is returned, with `config` applied as by `SparkSession.builder`.

    `config` may have `master` (`local[*]` if not given), `app_name`, `remote`, and every setting of Spark by
    its name with dots. `remote` makes it a Spark Connect session: of a server (`sc://host`), or of one that
    is started here (`local[2]`).

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
            f"session() takes {', '.join(_SHORT)} and settings of Spark, got {name}={value!r}; "
            'a setting is given as session(**{"spark.ui.enabled": True})'
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _runs_already() -> bool:
    # spark-submit starts the JVM first and then this Python: master and settings are its business then.
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
        # Otherwise Spark looks up the host's name, which many laptops cannot. A cluster needs the real one.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _DEFAULTS | wanted
    java_options = [f'"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"', _STACK]
    java_options.append(wanted.get("spark.driver.extraJavaOptions", ""))  # last, so that the caller's win
    settings["spark.driver.extraJavaOptions"] = " ".join(java_options).strip()

    with StartupErrors() as errors:
        if SparkContext._gateway is None:
            # What the builder would do, but with the JVM's standard error in our hands. SPARK_REMOTE is in
            # the settings by now; the launcher would refuse it beside a master.
            os.environ.pop("SPARK_REMOTE", None)
            conf = SparkConf().setAll([(k, v) for k, v in settings.items() if k != "spark.remote"])
            gateway = launch_gateway(conf, {"stderr": errors.descriptor})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
        if remote is not None:
            # The server has all settings from its launch; the client may set few, and warns of others.
            settings = {k: v for k, v in settings.items() if k.startswith(_CONNECT_CLIENT)}
        return _get(settings)


def _check_connect(remote: str) -> None:
    for package in ("grpc", "grpc_status", "zstandard"):
        if find_spec(package) is None:
            raise ExtraMissingError(
                f"remote={remote!r} is Spark Connect and needs {package}, which is not installed: "
                "pip install 'keyspread[connect]'"
            )
