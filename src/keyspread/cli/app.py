"""All commands, in the order of `keyspread --help`."""

from typing import Annotated

import typer

import keyspread
from keyspread.cli.commands.bench import bench
from keyspread.cli.commands.diagnose import diagnose
from keyspread.cli.commands.doctor import doctor
from keyspread.cli.commands.reproduce import reproduce
from keyspread.cli.commands.run import run
from keyspread.cli.commands.streams import compare, datasets, simulate
from keyspread.cli.options.command import Command, CommandGroup


class _AllCommands(CommandGroup):
    order = ("run", "diagnose", "simulate", "compare", "datasets", "reproduce", "bench", "doctor")


app = typer.Typer(
    cls=_AllCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A bug must show where it is: Typer's framed stack trace hides more than it shows.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command(cls=Command)(run)
app.command(cls=Command)(diagnose)
app.command(cls=Command)(simulate)
app.command(cls=Command)(compare)
app.add_typer(datasets, name="datasets")
app.command(cls=Command)(reproduce)
app.add_typer(bench, name="bench")
app.command(cls=Command)(doctor)


@app.callback(invoke_without_command=True)
def keyspread_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit")] = False,
) -> None:
    """Keyed data streams that stay balanced when a few keys are hot."""
    if version:
        print(f"keyspread {keyspread.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
