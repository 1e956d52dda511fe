"""Kafka's own client in Spark's JVM. Classic Spark only: Spark Connect has no JVM on this side.

Apart from the files that start Spark and the clients of the live benchmark (`deployment/live/topics.py`), this
is the only one that calls the JVM. Only error messages depend on it.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


class NoClientError(Exception):
    """Spark was started without the connector, so it lacks Kafka's classes."""


def admin_client(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Make a client with these settings, which the caller closes. Bad settings raise a Py4JError."""
    java = _jvm(spark).java.util.Properties()
    for name, value in settings.items():
        java.setProperty(name, value)
    try:
        return _jvm(spark).org.apache.kafka.clients.admin.AdminClient.create(java)
    except TypeError:  # py4j raises it for a class that does not exist
        raise NoClientError from None


def topic_names(spark: SparkSession, client: Any) -> set[str]:
    """Return the names of all topics, including internal ones; raise a Py4JError if no answer comes in time."""
    wanted = _jvm(spark).org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(True)
    return set(client.listTopics(wanted).names().get())


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
