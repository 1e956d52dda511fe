"""All commands, in the order of `keyspread --help`."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import keyspread
from keyspread.cli.commands.bench import bench
from keyspread.cli.commands.compare import compare
from keyspread.cli.commands.datasets import datasets
from keyspread.cli.commands.doctor import doctor
from keyspread.cli.commands.reproduce import reproduce
from keyspread.cli.commands.run import run
from keyspread.cli.commands.simulate import simulate

_ORDER = ("run", "simulate", "compare", "datasets", "reproduce", "bench", "doctor")


class _InOrder(TyperGroup):
    """Typer lists commands with commands of their own last; here they stand where they are looked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


app = typer.Typer(
    cls=_InOrder,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A bug must show where it is; typer's framed version hides more than it tells.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(run)
app.command()(simulate)
app.command()(compare)
app.add_typer(datasets, name="datasets")
app.command()(reproduce)
app.add_typer(bench, name="bench")
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
