"""The options of `keyspread run`, at most 20, and the values that `--option` and `--scheme-option` name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread.cli.options import completion, routing
from keyspread.cli.options.input import COLUMN, INPUT, Keys, MessagesToRun, RunInputName, Skew, given
from keyspread.cli.options.output import Json, Master, Verbose, output
from keyspread.cli.options.parsers import COUNT, FILE, NAME, count, count_or_auto, number
from keyspread.errors import InputError

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
