"""Kafka's own client, in Spark's JVM. For classic Spark only: under Connect there is no JVM on this side.

The one file of the library, beside those that start Spark, that reaches into the JVM; nothing depends on its answer
but a clearer message.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


class NoClientError(Exception):
    """Spark was started without the connector, so Kafka's classes are not there."""


def admin_client(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Make a client with these settings; whoever has it closes it. Bad settings are a Py4JError."""
    java = _jvm(spark).java.util.Properties()
    for name, value in settings.items():
        java.setProperty(name, value)
    try:
        return _jvm(spark).org.apache.kafka.clients.admin.AdminClient.create(java)
    except TypeError:  # what py4j says of a class that is not there
        raise NoClientError from None


def topic_names(spark: SparkSession, client: Any) -> set[str]:
    """Ask for all topics, internal ones too; no answer in time is a Py4JError."""
    wanted = _jvm(spark).org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(True)
    return set(client.listTopics(wanted).names().get())


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
