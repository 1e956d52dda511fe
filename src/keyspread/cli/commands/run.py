"""`keyspread run`: a job on Spark, from an input to a result; a screen for people, JSON for machines.

Without further options it runs the same work three ways and shows the seconds of each. With --scheme it shows what the
scheme does to the rows, with --streaming a query on a stream (`run_streaming.py`). There are at most 20 options;
`--option` and `--scheme-option` name further values.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.common.layout import print_json
from keyspread.cli.options import input as completion
from keyspread.cli.options import output as routing
from keyspread.cli.options.command import COUNT, FILE, NAME, count, count_or_auto, number, option_groups
from keyspread.cli.options.input import COLUMN, INPUT, Keys, MessagesToRun, RunInputName, Skew, given
from keyspread.cli.options.output import Json, Master, Verbose, output
from keyspread.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keyspread.drawing.picture import Picture
    from keyspread.run.sources import Files, Source
    from keyspread.streams import GeneratedStream

DEFAULT_WORK = "wait:1ms"
_ASSIGNMENT: dict[str, Any] = {"metavar": "NAME=VALUE", "show_default": False}
_GENERATED = {
    **dict.fromkeys(("skew", "redrawn", "scale", "rate"), number),
    **dict.fromkeys(("keys", "messages", "every", "hottest", "seed", "senders"), count),
}
_SCHEME = {
    **dict.fromkeys(("threshold", "tolerance"), number),
    **dict.fromkeys(("counters", "choices", "seed"), count),
    "half_life": count_or_auto,
}


def _input(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=INPUT, **more)


def _job(help: str, default: str | bool = False, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=routing.ROUTING, show_default=default, **more)


def _streaming(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Streaming", show_default=False, **more)


@dataclass(frozen=True)
class RunInput:
    """A generated stream, or a path, table or topic that Spark reads."""

    input: RunInputName = "zipf"
    format: Annotated[
        str | None,
        _input(
            "Format of Spark's reader: csv, json, parquet, orc, kafka, table, …; tsv has lines of time<TAB>key",
            show_default="by the ending of the name",
            autocompletion=completion.run_formats,
            **NAME,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        _input(
            "Option of Spark's reader, such as header=false; setting of Spark, such as spark.jars=…; or parameter of a "
            "generated stream: senders, seed, rate, every, hottest, redrawn, scale. Repeat it for several",
            **_ASSIGNMENT,
        ),
    ] = None
    key: Annotated[
        list[str] | None,
        _input("Column of the key; repeat the option for several columns", show_default=False, **COLUMN),
    ] = None
    skew: Skew = None
    keys: Keys = None
    messages: MessagesToRun = None

    def assignments(self) -> dict[str, str]:
        """Return what --option names."""
        return _assignments("--option", self.option or ())

    def generated(self) -> dict[str, Any]:
        """Return the parameters of a generated stream, of --option and of their own options."""
        own = given(skew=self.skew, keys=self.keys, messages=self.messages)
        named = {name: text for name, text in self.assignments().items() if not name.startswith("spark.")}
        for name in sorted(own.keys() & named.keys()):
            raise InputError(f"--{name} is given twice, as --option {name}={named[name]} too: leave one out")
        return own | _parsed("--option", named, _GENERATED)


@dataclass(frozen=True)
class RunJob:
    """What is done with the rows: by a scheme, or three ways with the time of each."""

    workers: routing.Workers = 16
    scheme: Annotated[
        str | None,
        _job(
            "Show what a scheme does to the rows: d-choices, w-choices, per-key, planned, key, …",
            "time three ways; look-ahead for a stream",
            autocompletion=completion.run_schemes,
            **NAME,
        ),
    ] = None
    scheme_option: Annotated[
        list[str] | None,
        _job(
            "Option of the scheme: threshold, tolerance, counters, choices, half_life or seed. Repeat it for several",
            metavar="NAME=VALUE",
        ),
    ] = None
    work: Annotated[
        str | None,
        _job(
            "Work per row while three ways are timed: wait:TIME, as for a call to a service, cpu:TIME or none",
            DEFAULT_WORK,
            metavar="WORK",
        ),
    ] = None

    def options(self) -> dict[str, Any]:
        """Return the options of the scheme."""
        return _parsed("--scheme-option", _assignments("--scheme-option", self.scheme_option or ()), _SCHEME)


@dataclass(frozen=True)
class RunStreaming:
    """Whether the input is a stream, where it resumes, when it stops, and its live page."""

    streaming: Annotated[
        bool,
        _streaming("Run on a stream, shown live: endless zipf or drift, a folder that grows, a topic", "--streaming"),
    ] = False
    checkpoint: Annotated[
        str | None, _streaming("Folder for the checkpoint; the same command resumes from it", metavar="PATH")
    ] = None
    batches: Annotated[int | None, _streaming("Stop after this many batches, not at Ctrl-C", **COUNT)] = None
    page: Annotated[
        str | None,
        _streaming(
            "Serve a live page here, such as 4050. Hosts other than 127.0.0.1 need KEYSPREAD_PAGE_TOKEN",
            metavar="[HOST:]PORT",
        ),
    ] = None


@dataclass(frozen=True)
class RunOutput:
    """What is written and printed, and the Spark that it runs on."""

    out: Annotated[
        str | None,
        output(
            "With --scheme or --streaming: write the counts per key to this path or table; the ending is the format",
            default=False,
            metavar="PATH|TABLE",
        ),
    ] = None
    plot: Annotated[
        str | None, output("Draw the result into this .svg file; of a stream, the page as .html", default=False, **FILE)
    ] = None
    as_json: Json = False
    master: Master = None
    verbose: Verbose = False


def _assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    """['header=false'] → {'header': 'false'}."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{option} must be NAME=VALUE, got {text!r}")
        if name.strip() in assigned:
            raise InputError(f"{option} {name.strip()} is given twice: leave one out")
        assigned[name.strip()] = value
    return assigned


def _parsed(option: str, texts: dict[str, str], kinds: dict[str, Any]) -> dict[str, Any]:
    """Return values with their types; refuse a name that means nothing here."""
    values = {}
    for name, text in texts.items():
        if name not in kinds:
            raise InputError(f"{option} {name} is unknown here: use {', '.join(kinds)}")
        try:
            values[name] = kinds[name](text)
        except typer.BadParameter as problem:
            raise InputError(f"{option} {name} {problem}") from None
    return values


_MESSAGES = 24_000
"""Of a generated stream: with 1 ms per row and 16 workers, three ways in two rounds take about half a minute."""
_MOST_SLOTS = 64
"""Every slot is a Python process on this machine."""
_SHORT = 5_000_000
"""Up to this many rows a run ends before the JVM's second compiler pays off; without it, the run uses 25 % less CPU."""
_FAIL_FAST = {"mode": "FAILFAST", "columnPruning": "false"}
"""A malformed line is an error; without column pruning, also one with too many columns."""


@option_groups
def run(input: RunInput, job: RunJob, streaming: RunStreaming, output: RunOutput) -> None:
    """Run a job with work per row three ways on Spark: plain groupBy, salting by hand, keyspread. Show what it gains.

    With --scheme, show what a scheme does to the rows, and count them by key; with --streaming, on a stream.

    [b]keyspread run[/b]
    [b]keyspread run --input clicks.csv --key user --work wait:5ms[/b]
    [b]keyspread run --scheme d-choices --workers 50 --out counts.parquet[/b]
    [b]keyspread run --streaming --input drift --page 4050[/b]
    """
    if streaming.streaming:
        if job.work is not None:
            raise InputError(f"--work is for a run without --streaming, got {job.work}: leave it out")
        from keyspread.cli.commands.run_streaming import run_streaming

        run_streaming(input, job, streaming, output)
        return
    for name in ("checkpoint", "batches", "page"):
        if getattr(streaming, name) is not None:
            raise InputError(f"--{name} is for --streaming only, got {getattr(streaming, name)}: leave it out")
    if job.scheme is None:
        for name, value in (("scheme-option", job.scheme_option), ("out", output.out)):
            if value:
                shown = value if isinstance(value, str) else ", ".join(value)
                raise InputError(f"--{name} needs --scheme, such as --scheme planned, got {shown}")
        _time_three_ways(input, job, output)
        return
    if job.work is not None:
        raise InputError(
            f"--work is timed three ways, got {job.work} with --scheme {job.scheme}: leave one of them out"
        )
    _run_scheme(input, job, output)


def _time_three_ways(input: RunInput, job: RunJob, output: RunOutput) -> None:
    """Run the same work by plain groupBy, salting by hand and keyspread, and print what they took."""
    from keyspread.cli.common import layout
    from keyspread.cli.screens.run import show_gain
    from keyspread.run.gain import ROUNDS, measure_gain
    from keyspread.run.three_ways import WAYS, Work

    work = Work.of(DEFAULT_WORK if job.work is None else job.work)
    bounded = BoundedInput.of(input, job.workers, messages=_MESSAGES)
    check_plot(output.plot)
    # Every worker has its slot, whatever the machine has: the work waits.
    master = f"local[{min(job.workers, _MOST_SLOTS)}]" if output.master is None else output.master
    with running_spark(input, output, 2 + 1 + ROUNDS * len(WAYS), bounded, master=master) as (session, step):
        gain = measure_gain(bounded.source(session), job.workers, work, progress=step)
    draw_plot(gain.picture(), output.plot)
    if output.as_json:
        print_json({"input": input.input, **gain.to_dict()})
    else:
        show_gain(gain)
        layout.written(output.plot)


def _run_scheme(input: RunInput, job: RunJob, output: RunOutput) -> None:
    """Route by the scheme, count, merge, write what was asked for, and print the result."""
    from keyspread.cli.common import layout
    from keyspread.cli.screens.run import show_scheme
    from keyspread.run.pipeline import check_scheme, run_job
    from keyspread.sender.registry import PLANNED

    scheme, options = str(job.scheme), job.options()
    name, _ = check_scheme(scheme, job.workers, options)
    bounded = BoundedInput.of(input, job.workers)
    check_plot(output.plot)
    check_out(output.out)
    steps = 3 + (name == PLANNED) + (output.out is not None)
    with running_spark(input, output, steps, bounded) as (session, step):
        result = run_job(bounded.source(session), job.workers, scheme, progress=step, **options)
        if output.out is not None:
            step("writing")
            write_result(result.merged, output.out)
        result.release()
    draw_plot(result.picture(), output.plot)
    if output.as_json:
        print_json({"input": input.input, **result.to_dict(), "out": output.out})
    else:
        show_scheme(result)
        layout.written(output.out, output.plot)


@dataclass(frozen=True)
class BoundedInput:
    """An input that ends: a generated stream, or what Spark reads. Made by `of`, which needs no Spark."""

    stream: "GeneratedStream | None"
    senders: int | None
    files: "Files | None"
    key: tuple[str, ...]

    @classmethod
    def of(cls, input: RunInput, workers: int, **defaults: Any) -> "BoundedInput":
        """Check the input without Spark; `defaults` replace those of the generated streams that take them."""
        from keyspread import checks
        from keyspread.streams import named_stream
        from keyspread.streams.catalog import DEFAULTS

        checks.whole_number("workers", workers)
        if not is_generated(input):
            return cls(None, None, checked_files(input), tuple(input.key or ()))
        refuse_for_generated(input)
        parameters = input.generated()
        if "rate" in parameters:
            raise InputError(f"--option rate is for --streaming only, got {parameters['rate']:g}: leave it out")
        senders = parameters.pop("senders", None)
        if senders is not None:
            checks.whole_number("senders", senders)
        taken = DEFAULTS[input.input.lower()]
        fitting = {name: value for name, value in defaults.items() if name in taken}
        stream = named_stream(input.input, **fitting | parameters)
        checks.whole_number("messages", stream.messages)
        return cls(stream, senders, None, ())

    def source(self, session: "SparkSession") -> "Source":
        """Return the rows."""
        from keyspread.run.sources import file_source, made_source

        if self.stream is not None:
            return made_source(session, self.stream, self.senders)
        assert self.files is not None
        return file_source(session, self.files, self.key)


def is_generated(input: RunInput) -> bool:
    """Return whether an input is a generated stream, as opposed to what Spark reads."""
    from keyspread.streams.catalog import NAMES

    return input.input.lower() in NAMES and input.format is None


def refuse_for_generated(input: RunInput) -> None:
    """Refuse what a generated stream does not take."""
    if input.key:
        raise InputError(f"--key is for files, tables and topics, got {', '.join(input.key)} with {input.input}")


def checked_files(input: RunInput, **defaults: str) -> "Files":
    """Check a path, table or topic without Spark; `defaults` are reader options that the user may replace."""
    from keyspread.run.sources import find_files

    for name in ("skew", "keys", "messages"):
        value = getattr(input, name)
        if value is not None:
            raise InputError(f"--{name} is for generated streams only, got {value:g} with {input.input}: leave it out")
    named = {name: text for name, text in input.assignments().items() if not name.startswith("spark.")}
    files = find_files(input.input, input.format, named)
    if files.format in ("csv", "tsv", "json"):
        lower = {name.lower() for name in named}
        strict = {name: value for name, value in _FAIL_FAST.items() if name.lower() not in lower}
        files = find_files(input.input, input.format, {**strict, **defaults, **named})
    return files


@contextmanager
def running_spark(
    input: RunInput, output: RunOutput, steps: int, bounded: BoundedInput | None, master: str | None = None
) -> "Iterator[tuple[SparkSession, Callable[[str], None]]]":
    """Yield a session and a function that names the current step, with standard error held and failures in one line."""
    from keyspread.cli.common import layout
    from keyspread.cli.common.session import failures_in_one_line, hold_stderr, spark_session
    from keyspread.spark._launch.master import check_master

    if output.master is not None:
        check_master(output.master)
    short = bounded is not None and bounded.stream is not None and bounded.stream.messages <= _SHORT
    with hold_stderr(not output.verbose) as held, layout.steps(held.console, steps) as step:
        step("starting Spark")
        with (
            spark_session(master or output.master, held, output.verbose, short, settings_of(input)) as session,
            failures_in_one_line(output.verbose),
            malformed_lines(input),
        ):
            yield session, step


def settings_of(input: RunInput) -> dict[str, Any]:
    """Return the settings of Spark that --option names, with the connector of a Kafka topic."""
    from keyspread.run.sources import KAFKA
    from keyspread.spark.kafka import with_kafka

    settings = {name: text for name, text in input.assignments().items() if name.startswith("spark.")}
    return with_kafka(settings) if (input.format or "").lower() == KAFKA else settings


@contextmanager
def malformed_lines(input: RunInput) -> Iterator[None]:
    """Say how to go on when Spark stops at a malformed line."""
    try:
        yield
    except Exception as problem:
        if "MALFORMED_RECORD" in str(problem) or "Malformed record" in str(problem):
            raise InputError(
                f"{input.input}: a line does not match the format: fix it, or skip such lines with "
                "--option mode=DROPMALFORMED"
            ) from problem
        raise


def check_plot(path: str | None, ending: str = ".svg") -> None:
    """Refuse a file that cannot be drawn, before Spark starts."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not path.lower().endswith(ending):
        raise InputError(f"--plot must end in {ending} here, got {path}")
    if os.path.isdir(path):
        raise InputError(f"--plot {path} is a folder: name a file")
    if not os.path.isdir(folder):
        raise InputError(f"--plot {path} cannot be written: there is no folder {folder}, create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--plot {path} cannot be written: check the permissions of {folder}")


def draw_plot(picture: "Picture", path: str | None) -> None:
    """Draw a result into an SVG file, without matplotlib."""
    if path is None:
        return
    from keyspread.drawing.markup import as_svg

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(as_svg(picture))
    except OSError as problem:
        raise InputError(f"--plot {path} cannot be written ({problem.strerror}): name another file") from None


def check_out(out: str | None) -> None:
    """Refuse a path on this machine that exists, before anything is computed."""
    from keyspread.run.sources import is_address, is_table, local_path

    if out is not None and not is_table(out) and not is_address(out) and os.path.lexists(local_path(out)):
        raise InputError(f"--out {out} exists already: choose another name")


def write_result(rows: "DataFrame", out: str) -> None:
    """Write rows with Spark's own writer, into a new folder or a new table."""
    from keyspread.run.sources import for_spark, is_table, writer

    if is_table(out):
        rows.write.saveAsTable(out)
    else:
        writer(rows, out).save(for_spark(out))
