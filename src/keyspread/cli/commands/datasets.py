"""`keyspread datasets`: list the generated streams, describe any stream, or write a generated one to a file."""

import os
from typing import Annotated

import typer

from keyspread.cli.common.layout import print_json
from keyspread.cli.options.command import COUNT, FILE, Command, CommandGroup, option_groups
from keyspread.cli.options.input import GeneratedInput, StreamInput
from keyspread.cli.options.output import Json, Overwrite, Top, Windows, output
from keyspread.errors import InputError

datasets = typer.Typer(
    cls=CommandGroup,
    help="List streams to try schemes on, describe one, or write a generated one to a file.",
    rich_markup_mode="rich",
)


@datasets.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@datasets.command("list", cls=Command)
def list_() -> None:
    """List the streams that keyspread generates."""
    from keyspread.cli.screens.dataset import show_list

    show_list()


@datasets.command(cls=Command)
@option_groups
def describe(
    stream: StreamInput,
    top: Top = 10,
    windows: Windows = 10,
    workers: Annotated[
        int, output("Number of workers that the stream is for: a key with at least 1/(5·workers) is hot", **COUNT)
    ] = 50,
    as_json: Json = False,
) -> None:
    """Show how skewed a stream is: its hottest keys, the share of all hot keys, and how they change over time.

    [b]keyspread datasets describe --input ct --workers 200[/b]
    [b]keyspread datasets describe --input clicks.csv --key user --time at[/b]
    """
    from keyspread import checks
    from keyspread.cli.common.input_stream import note_malformed, read_input
    from keyspread.cli.screens.dataset import as_dict, show
    from keyspread.streams.encoded import profile

    checks.whole_number("top", top, minimum=0)
    checks.whole_number("windows", windows)
    checks.whole_number("workers", workers)
    messages = read_input(stream, routed=False)
    note_malformed(messages)
    result = profile(messages.encoded, windows, top, workers)
    names = messages.names([hash_ for hash_, _ in (*result.top, *result.leaders)])
    if as_json:
        print_json(as_dict(messages, result, names))
    else:
        show(messages, result, names)


@datasets.command(cls=Command)
@option_groups
def make(
    stream: GeneratedInput,
    out: Annotated[str | None, output("File to write: .tsv, .tsv.gz or .parquet", **FILE)] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a generated stream to a file: lines of time<TAB>key, or columns time and key. Message i has time i.

    [b]keyspread datasets make --input wp --scale 0.05 --out wp.tsv.gz[/b]
    """
    from keyspread.cli.common import layout
    from keyspread.cli.common.input_stream import refuse_unused
    from keyspread.streams.catalog import DEFAULTS, named_stream, write_stream

    if out is None:
        raise InputError("--out is missing: name the file to write, such as --out stream.tsv.gz")
    if stream.input.lower() in DEFAULTS:
        refuse_unused(stream.input, stream.parameters())
    generated = named_stream(stream.input, **stream.parameters())
    with layout.late_progress(f"writing {os.path.basename(out)}", generated.messages) as progress:
        write_stream(generated, out, overwrite=overwrite, progress=progress)
    size = os.path.getsize(out) / 1e6
    print(f"{generated.messages:,} messages of {generated.title} written to {out}, {size:,.1f} MB")
