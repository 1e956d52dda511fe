"""The options for what a command prints and writes, and for the Spark that it runs on."""

from typing import Annotated, Any

import typer

from keyspread.cli.options.parsers import COUNT

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
