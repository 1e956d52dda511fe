"""All commands, in the order of `keyspread --help`."""

from typing import Annotated

import typer

import keyspread
from keyspread.cli.doctor import doctor
from keyspread.cli.run import run
from keyspread.cli.simulate import simulate

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A bug must show where it is; typer's framed version hides more than it tells.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(run)
app.command()(simulate)
app.command()(doctor)


@app.callback(invoke_without_command=True)
def keyspread_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Keyed data streams that stay balanced when a few keys are hot."""
    if version:
        print(f"keyspread {keyspread.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
