"""What every run on a bounded input checks before Spark starts, and the rows that it reads."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyspread.cli.options.run import RunOptions, RunOutput
from keyspread.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyspread.job.sinks import Target
    from keyspread.job.sources import Files, Source
    from keyspread.streams import GeneratedStream

_SHORT = 5_000_000
"""Up to this many rows a run ends before the JVM's second compiler pays off; without it, the run uses 25 % less CPU."""


@dataclass(frozen=True)
class BoundedInput:
    """An input that exists: a generated stream, files, or a Kafka topic as it is now. Made by `check_input`."""

    options: RunOptions
    generated: "GeneratedStream | None"
    files: "Files | None"

    @property
    def is_short(self) -> bool:
        """Whether the run is short."""
        return self.generated is not None and self.generated.messages <= _SHORT

    def settings(self) -> dict[str, Any]:
        """Return the settings of Spark that the input needs."""
        from keyspread.cli.options.kafka import spark_settings

        return dict(spark_settings(self.options.input.input, self.options.spark.jars))

    def source(self, session: "SparkSession") -> "Source":
        """Return the rows."""
        from keyspread.job.sources import file_source, made_source
        from keyspread.job.stream_sources import topic_source

        key, kafka, senders = self.options.input.key_columns, self.options.kafka, self.options.routing.senders
        if self.generated is not None:
            return made_source(session, self.generated, senders)
        if self.files is not None:
            return file_source(session, self.files, key, senders)
        return topic_source(session, str(kafka.brokers), str(kafka.topic), key, schema=kafka.schema, streaming=False)


def check_input(options: RunOptions, **defaults: Any) -> BoundedInput:
    """Check the input without Spark; `defaults` replace those of the generated streams that take them."""
    from keyspread import checks
    from keyspread.cli.options.kafka import is_kafka
    from keyspread.job.sources import find_files
    from keyspread.streams import named_stream
    from keyspread.streams.generated.catalog import DEFAULTS

    input, senders = options.input, options.routing.senders
    checks.whole_number("workers", options.routing.workers)
    options.kafka.check(input.input, input.format)
    taken = DEFAULTS.get(input.input.lower())
    generated = files = None
    if taken is not None:
        fitting = {name: value for name, value in defaults.items() if name in taken}
        generated = named_stream(input.input, **fitting | input.parameters())
        checks.whole_number("messages", generated.messages)
    elif not is_kafka(input.input):
        files = find_files(input.input, input.format)
    if senders is not None:
        checks.whole_number("senders", senders)
        if is_kafka(input.input):
            raise InputError(
                f"--senders is for files and generated streams only, got {senders} with kafka: leave it out"
            )
    return BoundedInput(options, generated, files)


def check_target(output: RunOutput, files: "Files | None") -> "Target | None":
    """Return where results are written, after checking that it is possible; None without --out."""
    from keyspread.job.sinks import check_apart, find_target

    if output.out is None:
        if output.out_format is not None:
            raise InputError(f"--out-format {output.out_format} has no effect without --out")
        return None
    target = find_target(output.out, output.out_format, output.overwrite)
    if files is not None:
        check_apart(target, files.path)
    return target
