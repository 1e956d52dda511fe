"""The options of `--source kafka`: looked at before Spark starts, and what Spark needs for them."""

from typing import Any

from keyspread.errors import InputError

KAFKA = "kafka"


def is_kafka(source: str) -> bool:
    """Whether a source is a topic, not a made stream or files."""
    return source.lower() == KAFKA


def check_kafka(source: str, *, brokers: str | None, topic: str | None, schema: str | None, format: str | None) -> None:
    """Refuse what does not go together, and brokers that do not answer."""
    from keyspread.spark.kafka import check_brokers, checked_topics

    if not is_kafka(source):
        for name, value in (("brokers", brokers), ("topic", topic), ("schema", schema)):
            if value is not None:
                raise InputError(f"--{name} is for --source kafka only, got {value!r} with {source}: leave it out")
        return
    if format is not None:
        raise InputError(f"--format is for files only, got {format!r} with kafka: leave it out")
    if topic is None:
        raise InputError("--source kafka needs --topic, the name of the topic")
    if brokers is None:
        raise InputError("--source kafka needs --brokers, as in --brokers localhost:9092")
    checked_topics(topic)
    check_brokers(brokers)


def spark_settings(source: str, jars: str | None) -> dict[str, Any]:
    """Give what a session needs to have Kafka's connector: the jars that were named, or Spark fetches them."""
    from keyspread.spark.kafka import with_kafka

    settings = {} if jars is None else {"spark.jars": jars}
    return with_kafka(settings) if is_kafka(source) else settings
