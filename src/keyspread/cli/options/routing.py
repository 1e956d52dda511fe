"""The options that decide how messages are routed: schemes, workers, senders, and what counts as hot."""

from typing import Annotated, Any

import typer

from keyspread.cli.options import completion
from keyspread.cli.options.parsers import COUNT, COUNT_OR_AUTO, NAME, NUMBER

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
