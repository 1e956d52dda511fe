"""The options of `keyspread run`, on a bounded input and on a stream, in groups."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from keyspread.cli.options import completion, routing
from keyspread.cli.options.input import RunInput, given
from keyspread.cli.options.kafka import KafkaOptions
from keyspread.cli.options.output import Master, Overwrite, Top, Verbose, output, spark
from keyspread.cli.options.page import PageOptions
from keyspread.cli.options.parsers import COUNT, FILE, NAME, NUMBER, PATH
from keyspread.errors import InputError

DEFAULT_TRIGGER = 1.0
DEFAULT_WORK = "wait:1ms"


def _streaming(help: str, *names: str, default: str | bool = False, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Streaming", show_default=default, **more)


def _timing(help: str, default: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Timing", show_default=default, **more)


@dataclass(frozen=True)
class RunTiming:
    """The work per row of the job that is run three ways, and how often."""

    work: Annotated[
        str | None,
        _timing("Work per row: wait:TIME, as for a call to a service, cpu:TIME or none", DEFAULT_WORK, metavar="WORK"),
    ] = None
    rows: Annotated[
        int | None,
        _timing("Rows to time, a random sample", "what plain Spark does in 10 s", **COUNT),
    ] = None
    rounds: Annotated[int | None, _timing("How often each way runs", "2", **COUNT)] = None
    plot: Annotated[
        str | None, typer.Option(help="Draw the result into this .svg file", rich_help_panel="Timing", **FILE)
    ] = None

    default_work: ClassVar[str] = DEFAULT_WORK

    def given(self) -> dict[str, Any]:
        """Return the options that were given."""
        return given(work=self.work, rows=self.rows, rounds=self.rounds, plot=self.plot)


@dataclass(frozen=True)
class RunRouting:
    """The scheme, its workers and senders, its options, and the plan of `planned`."""

    workers: routing.Workers = 16
    senders: routing.SenderPartitions = None
    scheme: routing.RunScheme = None
    threshold: routing.Threshold = None
    tolerance: routing.Tolerance = None
    counters: routing.Counters = None
    choices: routing.Choices = None
    half_life: routing.HalfLife = None
    sample: Annotated[
        float | None, routing.routing("planned: share of the rows that is counted for the plan", "1", **NUMBER)
    ] = None
    plan_in: Annotated[str | None, routing.routing("planned: use this plan instead of counting", **FILE)] = None
    previous: Annotated[
        str | None, routing.routing("planned: make a new plan that stays close to this one", **FILE)
    ] = None
    plan_out: Annotated[str | None, routing.routing("planned: write the plan as JSON", **FILE)] = None

    def options(self) -> dict[str, Any]:
        """Return the options of the scheme that were given."""
        learning = given(threshold=self.threshold, counters=self.counters, half_life=self.half_life)
        return learning | given(tolerance=self.tolerance, choices=self.choices)

    def of_schemes(self) -> dict[str, Any]:
        """Return the options that ask for a scheme, by their names on the command line."""
        plans = {"sample": self.sample, "plan-in": self.plan_in, "previous": self.previous, "plan-out": self.plan_out}
        found = given(scheme=self.scheme) | self.options() | given(**plans)
        return {name.replace("_", "-"): value for name, value in found.items()}


@dataclass(frozen=True)
class StreamingOptions:
    """Whether the input is a stream, how fast it is read, and when the query stops."""

    streaming: Annotated[
        bool, _streaming("Run on a stream: endless zipf or drift, a folder that grows, a Kafka topic", "--streaming")
    ] = False
    live: Annotated[
        bool, _streaming("Draw workers, imbalance and hottest keys while it runs; implies --streaming", "--live")
    ] = False
    rate: Annotated[
        float | None,
        _streaming("Rows per second; for Kafka, the maximum", default="10000 for zipf and drift", **NUMBER),
    ] = None
    trigger: Annotated[
        float | None, _streaming("Seconds between the starts of two batches", default=f"{DEFAULT_TRIGGER:g}", **NUMBER)
    ] = None
    checkpoint: Annotated[
        str | None, _streaming("Folder for the checkpoint; the same command resumes from it", **PATH)
    ] = None
    batches: Annotated[int | None, _streaming("Stop after this many batches", default="at Ctrl-C", **COUNT)] = None
    seconds: Annotated[float | None, _streaming("Stop after this many seconds", default="at Ctrl-C", **NUMBER)] = None

    @property
    def interval(self) -> float:
        """Seconds between the starts of two batches."""
        return DEFAULT_TRIGGER if self.trigger is None else self.trigger

    @property
    def rows_per_batch(self) -> int | None:
        """Rows per batch that --rate amounts to."""
        return None if self.rate is None else max(1, round(self.rate * self.interval))


@dataclass(frozen=True)
class RunOutput:
    """What is computed for each key, shown and written."""

    aggregate: Annotated[
        list[str] | None,
        output(
            "What to compute per key, such as [b]total=sum(amount)[/b]; repeat the option for several",
            default="count",
            metavar="NAME=CALL",
        ),
    ] = None
    top: Top = 10
    no_compare: Annotated[
        bool, output("With a scheme: skip the comparison with others, which routes all rows again", "--no-compare")
    ] = False
    out: Annotated[str | None, output("Write the merged rows into this folder", **PATH)] = None
    out_format: Annotated[
        str | None,
        output(
            "parquet or csv",
            default="from the folder name, else parquet",
            autocompletion=completion.result_formats,
            **NAME,
        ),
    ] = None
    overwrite: Overwrite = False
    as_json: Annotated[
        bool, output("Print one JSON object instead of a screen; for a stream, one per batch", "--json")
    ] = False

    def aggregates(self) -> dict[str, str]:
        """Return the aggregates by their names; raise an error for one that cannot be merged."""
        return parse_aggregates(self.aggregate or ())

    def of_results(self) -> dict[str, Any]:
        """Return the options that ask for a result, by their names on the command line."""
        return given(aggregate=", ".join(self.aggregate) if self.aggregate else None, out=self.out)


@dataclass(frozen=True)
class RunSpark:
    """The Spark that the job runs on."""

    master: Master = None
    jars: Annotated[
        str | None,
        spark("Jars to load, such as Kafka's connector", default="Spark downloads the connector", metavar="FILE,…"),
    ] = None
    verbose: Verbose = False


@dataclass(frozen=True)
class RunOptions:
    """All options of a run."""

    input: RunInput
    kafka: KafkaOptions
    timing: RunTiming
    routing: RunRouting
    streaming: StreamingOptions
    output: RunOutput
    page: PageOptions
    spark: RunSpark


def parse_aggregates(texts: Sequence[str]) -> dict[str, str]:
    """['total=sum(amount)', 'count(*)'] → {'total': 'sum(amount)', 'count(*)': 'count(*)'}."""
    found: dict[str, str] = {}
    for text in texts:
        assignment = re.match(r"\s*([^=()]+?)\s*=\s*(.+)\Z", text, re.DOTALL)
        name, call = (assignment[1], assignment[2]) if assignment else (text.strip(), text)
        if name in found:
            raise InputError(f"--aggregate {text!r}: the name {name!r} is used twice, choose another one")
        found[name] = call
    return found
