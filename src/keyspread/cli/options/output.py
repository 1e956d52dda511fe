"""The options for routing, for what a command prints and writes, and for the Spark that it runs on."""

from typing import Annotated, Any

import typer

from keyspread.cli.options import input as completion
from keyspread.cli.options.command import COUNT, COUNT_OR_AUTO, NAME, NUMBER

OUTPUT, SPARK = "Output", "Spark"


def output(help: str, *names: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option of the panel Output; `default` describes a default that is derived."""
    return typer.Option(*names, help=help, rich_help_panel=OUTPUT, show_default=default, **more)


def spark(help: str, *names: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option of the panel Spark; `default` describes a default that is derived."""
    return typer.Option(*names, help=help, rich_help_panel=SPARK, show_default=default, **more)


Json = Annotated[bool, output("Print one JSON object instead of a screen", "--json")]
Top = Annotated[int, output("Number of hottest keys to show", **COUNT)]
Overwrite = Annotated[bool, output("Replace files that exist", "--overwrite")]
Master = Annotated[
    str | None,
    spark("Spark to run on: local[4], spark://host:7077, sc://host, yarn, …", default="local[*]", metavar="ADDRESS"),
]
Verbose = Annotated[bool, spark("Show Spark's own output", "--verbose")]


# The options that decide how messages are routed: schemes, workers, senders, and what counts as hot.


ROUTING = "Routing"


def routing(help: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option of the panel Routing; `default` describes a default that the library derives."""
    return typer.Option(help=help, rich_help_panel=ROUTING, show_default=default, **more)


Workers = Annotated[int, routing("Number of workers", **COUNT)]
Senders = Annotated[int, routing("Number of senders (sources) that share the stream", **COUNT)]
Scheme = Annotated[
    str,
    routing(
        "How a message is assigned to a worker: per-key, d-choices, w-choices, planned, look-ahead, key, …",
        autocompletion=completion.schemes,
        **NAME,
    ),
]
Threshold = Annotated[float | None, routing("Minimum share of a hot key", "1/(5·workers)", **NUMBER)]
Tolerance = Annotated[float | None, routing("d-choices, per-key: imbalance that is acceptable", "1e-4", **NUMBER)]
Counters = Annotated[int | None, routing("Number of counters per sender", "2/threshold", **COUNT)]
Choices = Annotated[int | None, routing("greedy: number of workers a hot key may use", False, **COUNT)]
HalfLife = Annotated[
    str | None, routing("Messages after which a count weighs half, or auto", "no fading", **COUNT_OR_AUTO)
]
HalfLifeToCompare = Annotated[
    str | None,
    routing("Messages after which a count weighs half, or auto", "auto for per-key, else no fading", **COUNT_OR_AUTO),
]
Windows = Annotated[
    int,
    typer.Option(help="Number of windows, with equal message counts", rich_help_panel="Output", **COUNT),
]
