"""The options of `run --input kafka`: checked before Spark starts, and the settings that Spark needs for them."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread.errors import InputError

KAFKA = "kafka"


def _kafka(help: str, metavar: str) -> Any:
    return typer.Option(help=help, rich_help_panel="Kafka", metavar=metavar)


@dataclass(frozen=True)
class KafkaOptions:
    """A topic, the brokers that have it, and the schema of its values."""

    brokers: Annotated[str | None, _kafka("Kafka brokers to connect to", "HOST:PORT,…")] = None
    topic: Annotated[str | None, _kafka("Topic to read", "NAME")] = None
    schema: Annotated[str | None, _kafka("Fields of the JSON values, such as 'user STRING, spent DOUBLE'", "SQL")] = (
        None
    )

    def check(self, source: str, format: str | None) -> None:
        """Raise an error for options that do not fit the input, and for brokers that do not answer."""
        from keyspread.spark.kafka import check_brokers, checked_topics

        if not is_kafka(source):
            for name, value in vars(self).items():
                if value is not None:
                    raise InputError(f"--{name} is for --input kafka only, got {value!r} with {source}: leave it out")
            return
        if format is not None:
            raise InputError(f"--format is for files only, got {format!r} with kafka: leave it out")
        if self.topic is None:
            raise InputError("--input kafka needs --topic, the name of the topic")
        if self.brokers is None:
            raise InputError("--input kafka needs --brokers, such as --brokers localhost:9092")
        checked_topics(self.topic)
        check_brokers(self.brokers)


def is_kafka(source: str) -> bool:
    """Return whether an input is a topic, as opposed to a generated stream or files."""
    return source.lower() == KAFKA


def spark_settings(source: str, jars: str | None) -> dict[str, Any]:
    """Return the Spark settings for an input: the jars that were named; for Kafka without jars, Spark fetches them."""
    from keyspread.spark.kafka import with_kafka

    settings = {} if jars is None else {"spark.jars": jars}
    return with_kafka(settings) if is_kafka(source) else settings
