"""Kafka: read messages as rows and write rows as messages, through Spark's own connector."""

from keyspread.spark.kafka.checks import check_brokers, check_topic, checked_topics
from keyspread.spark.kafka.connector import connector, with_kafka
from keyspread.spark.kafka.sink import as_messages, kafka_sink
from keyspread.spark.kafka.source import kafka_source
from keyspread.spark.kafka.values import MALFORMED, parsed, split

__all__ = [
    "MALFORMED",
    "as_messages",
    "check_brokers",
    "check_topic",
    "checked_topics",
    "connector",
    "kafka_sink",
    "kafka_source",
    "parsed",
    "split",
    "with_kafka",
]
