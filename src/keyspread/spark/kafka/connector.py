"""Spark's Kafka connector: its Maven coordinate, and the settings of a session that loads it."""

import re
from collections.abc import Mapping
from typing import Any

import pyspark

from keyspread.errors import InputError


def connector(version: str | None = None) -> str:
    """Return the Maven coordinate of the Kafka connector for the installed Spark, or for another version.

    >>> connector("4.2.0"), connector("3.5.6")
    ('org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0', 'org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.6')
    """
    found = version or pyspark.__version__
    # The PySpark of the package index is built for Scala 2.12 up to 3.5, and for 2.13 from 4.0 on.
    module = f"spark-sql-kafka-0-10_{'2.12' if found.startswith('3.') else '2.13'}"
    # The index's 4.1.0.dev1 is Maven's 4.1.0-preview1.
    return f"org.apache.spark:{module}:{re.sub(r'[.]dev(?=[0-9]+$)', '-preview', found)}"


def with_kafka(config: Mapping[str, Any] | None = None, version: str | None = None) -> dict[str, Any]:
    """Return the settings of a session with the connector added, for `session(**with_kafka({...}))`.

    The connector must be loaded when Spark starts. Spark downloads it once from Maven Central and caches it. Settings
    that name a Kafka connector already, in `spark.jars` or `spark.jars.packages`, are returned unchanged, as are those
    of a Spark Connect server (`sc://`), which has its own.

    Args:
        config: Settings of the session.
        version: The version of Spark, by default the installed one.

    Returns:
        The settings with the connector.

    >>> with_kafka({"master": "local[2]"}, version="4.2.0")["spark.jars.packages"]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    settings = dict(config or {})
    packages = str(settings.get("spark.jars.packages") or "")
    remote = str(settings.get("remote") or settings.get("spark.remote") or "")
    if "spark-sql-kafka" in f"{packages},{settings.get('spark.jars') or ''}" or remote.startswith("sc://"):
        return settings
    return settings | {"spark.jars.packages": ",".join(filter(None, [packages, connector(version)]))}


def no_connector() -> InputError:
    """Return the error for a session without the connector."""
    return InputError(
        "this Spark was started without its Kafka connector: start it with session(**with_kafka({...})), or with "
        f"spark.jars.packages={connector()}"
    )
