"""`keyspread simulate`, `compare` and `datasets`: schemes on a stream in memory, and streams to try them on."""

import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread import checks
from keyspread.cli.common import layout
from keyspread.cli.common.input_stream import note_malformed, read_input, refuse_unused
from keyspread.cli.common.layout import print_json
from keyspread.cli.options import output as routing
from keyspread.cli.options.command import COUNT, FILE, Command, CommandGroup, option_groups
from keyspread.cli.options.input import GeneratedInput, StreamInput, given
from keyspread.cli.options.output import Json, Overwrite, Top, Windows, output
from keyspread.errors import InputError


@dataclass(frozen=True)
class SimulateRouting:
    """The scheme, its workers and senders, and its options."""

    scheme: routing.Scheme = "per-key"
    workers: routing.Workers = 50
    senders: routing.Senders = 5
    threshold: routing.Threshold = None
    tolerance: routing.Tolerance = None
    counters: routing.Counters = None
    choices: routing.Choices = None
    half_life: routing.HalfLife = None

    def options(self) -> dict[str, Any]:
        """Return the options of the scheme that were given."""
        learning = given(threshold=self.threshold, counters=self.counters, half_life=self.half_life)
        return learning | given(tolerance=self.tolerance, choices=self.choices)


@option_groups
def simulate(stream: StreamInput, route: SimulateRouting, windows: Windows = 50, as_json: Json = False) -> None:
    """Simulate one scheme on a generated stream or a file, and show how even the load is.

    [b]keyspread simulate --skew 1.4 --workers 50 --scheme d-choices[/b]
    [b]keyspread simulate --input clicks.csv --key user --workers 200[/b]
    """
    import keyspread
    from keyspread.cli.screens.streams import show_simulation

    checks.whole_number("senders", route.senders)
    messages = read_input(stream, routed=True)
    note_malformed(messages)
    options = route.options()
    with layout.late_progress("simulating", messages.encoded.messages) as progress:
        result = keyspread.simulate(
            messages.encoded,
            route.scheme,
            route.workers,
            sources=route.senders,
            seed=stream.seed or 0,
            windows=windows,
            progress=progress,
            **options,
        )
    if as_json:
        print_json({**messages.facts(), "windows": windows, **options, **result.to_dict()})
    else:
        show_simulation(messages.title, result)


@dataclass(frozen=True)
class CompareRouting:
    """The workers and senders, and the options that all schemes get."""

    workers: routing.Workers = 50
    senders: routing.Senders = 5
    threshold: routing.Threshold = None
    half_life: routing.HalfLifeToCompare = None

    def options(self) -> dict[str, Any]:
        """Return the options of the schemes that were given."""
        return given(threshold=self.threshold, half_life=self.half_life)


@option_groups
def compare(
    stream: StreamInput,
    route: CompareRouting,
    windows: Windows = 50,
    as_json: Json = False,
) -> None:
    """Simulate every scheme on a stream and say which one to take, or that none is needed.

    [b]keyspread compare --input clicks.csv --key user --workers 200[/b]
    """
    from keyspread.cli.screens.streams import show_comparison
    from keyspread.evaluation.compare import ALL, RATE_INCLUDES, Sample, advise, frontier
    from keyspread.evaluation.compare import compare as compare_schemes

    checks.whole_number("senders", route.senders)
    messages = read_input(stream, routed=True)
    note_malformed(messages)
    with layout.late_progress("comparing", len(ALL)) as progress:
        compared = compare_schemes(
            messages.encoded,
            route.workers,
            sources=route.senders,
            seed=stream.seed or 0,
            windows=windows,
            progress=progress,
            **route.options(),
        )
    sample = Sample(route.workers, messages.encoded.messages, windows, messages.encoded.keys)
    advice = advise(compared, sample)
    if as_json:
        print_json(
            {
                **messages.facts(),
                **{"workers": route.workers, "sources": route.senders, "windows": windows},
                "schemes": [result.to_dict() for result in compared],
                "rate_includes": RATE_INCLUDES,
                "frontier": [result.scheme for result in frontier(compared)],
                "recommended": advice.scheme,
                "advice": advice.text,
            }
        )
    else:
        title = f"{messages.title}, {layout.many(route.workers, 'worker')}, {layout.many(route.senders, 'sender')}"
        show_comparison(title, compared, advice)


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
    from keyspread.cli.screens.streams import show_list

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
    from keyspread.cli.screens.streams import profile_as_dict, show_profile
    from keyspread.streams.encoded import profile

    checks.whole_number("top", top, minimum=0)
    checks.whole_number("windows", windows)
    checks.whole_number("workers", workers)
    messages = read_input(stream, routed=False)
    note_malformed(messages)
    result = profile(messages.encoded, windows, top, workers)
    names = messages.names([hash_ for hash_, _ in (*result.top, *result.leaders)])
    if as_json:
        print_json(profile_as_dict(messages, result, names))
    else:
        show_profile(messages, result, names)


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
