"""Kafka: read messages as rows and write rows as messages, through Spark's own connector."""

from keyspread.spark.kafka.connector import check_brokers, check_topic, checked_topics, connector, with_kafka
from keyspread.spark.kafka.messages import MALFORMED, as_messages, kafka_sink, kafka_source, parsed, split

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
