"""`keyspread reproduce`: the paper's figures made anew on Spark, each claim with a verdict, as one page."""

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count
from keyspread.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keyspread.experiments.figure_result import FigureResult
    from keyspread.streams import FileStream

_MARKS = {"holds": ("✓", "ok", "green"), "holds in part": ("◐", "~~", "yellow"), "does not hold": ("✗", "NO", "red")}


def _data(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Your own streams, for figures 11 and 12", **more)


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="1, 3 … 14, table-1 … table-3, constraints, estimate, memory; for none, all but 13 and 14."
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="[b]quick[/b], or [b]paper[/b] for the paper's sizes.", metavar="NAME")
    ] = "quick",
    seeds: Annotated[
        int | None,
        typer.Option(parser=count, help="Streams and hash functions to try.", show_default="3", metavar="COUNT"),
    ] = None,
    out: Annotated[
        str, typer.Option(help="Folder of the report, and of the results, which are never computed twice.")
    ] = "reproduced",
    data: Annotated[
        list[str] | None, _data("A file, or a folder of which every entry is a stream; repeatable.", metavar="PATH")
    ] = None,
    format: Annotated[
        str | None,
        _data("tsv, wikibench, words, cashtags, csv, json, parquet.", show_default="by the file", metavar="NAME"),
    ] = None,
    key: Annotated[str | None, _data("Column of the key (csv, json, parquet).", metavar="COLUMN")] = None,
    time: Annotated[str | None, _data("Column to sort by (csv, json, parquet).", metavar="COLUMN")] = None,
    limit: Annotated[int | None, _data("Messages of each to read at most.", parser=count, metavar="COUNT")] = None,
    deployment: Annotated[
        str | None,
        typer.Option(
            help="What [b]keyspread bench deployment --json[/b] printed, for figures 13 and 14.",
            show_default="measured here, if they are named",
            metavar="FILE",
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark to run on: local[4], spark://host:7077, …", show_default="local[*]", metavar="ADDRESS"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as one JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show all that Spark says.")] = False,
) -> None:
    """Make the paper's figures 1 and 3 to 14 anew, with its tables and claims, and judge each claim.

    Started again, it goes on where it was stopped.

    [b]keyspread reproduce[/b]
    [b]keyspread reproduce 10 --scale paper --out grid[/b]
    [b]keyspread reproduce 11 12 --data clicks.tsv.gz[/b]
    [b]keyspread reproduce 13 14[/b]
    """
    from keyspread.cli import engine, interruption, measurement
    from keyspread.cli.screens import layout
    from keyspread.evaluation.result_store import Results
    from keyspread.experiments.reproduce import find_figures, runs_of
    from keyspread.experiments.reproduce import reproduce as make
    from keyspread.experiments.scale import find_scale
    from keyspread.report.page import to_json, write_report
    from keyspread.spark.launch.master import check_master

    # Whatever can be refused without Spark is refused before it starts.
    found = measurement.known(out, deployment)
    chosen = find_figures(figures or (), deployed=found is not None)
    size = find_scale(scale, seeds)
    results = Results(os.path.join(out, "results"))
    if master is not None:
        check_master(master)
    size = find_scale(scale, seeds, _streams(data or (), format, key, time, limit))
    if any(figure.deployed for figure in chosen):
        size = replace(size, deployment=found or measurement.measure_for(size, master, out, verbose))
    missing = results.missing(runs_of(chosen, size))
    if missing:
        with (
            interruption.held(not verbose) as held,
            engine.spark(master, held, verbose, short=True) as spark,  # the JVM has little to do
            engine.told(verbose),
            layout.time_left(held.console, f"{len(missing):,} simulations") as progress,
        ):
            made = make(chosen, size, results, spark, progress)
    else:
        made = make(chosen, size, results, None)
    page = write_report(out, made, _about(size, out))
    if as_json:
        print(json.dumps({**to_json(made), "report": str(page)}, ensure_ascii=False))
    else:
        _show(made, str(page), len(missing))


def _streams(
    paths: "Sequence[str]", format: str | None, key: str | None, time: str | None, limit: int | None
) -> "list[FileStream]":
    """Find the streams, each read once here: what is wrong with one shall be said before an hour of work."""
    from keyspread.cli.screens import layout
    from keyspread.cli.stream_argument import as_options
    from keyspread.streams import FileStream, find_streams, read_stream, total_bytes

    options: dict[str, Any] = {"format": format, "key": key, "time": time, "limit": limit}
    if not paths and (given := [name for name, value in options.items() if value is not None]):
        raise InputError(f"--{given[0]} is for --data, got {options[given[0]]!r} without it: name the files")
    found: list[FileStream] = []
    for path in paths:
        several = os.path.isdir(path)
        for entry in find_streams(path):
            try:
                with layout.late_progress(f"reading {os.path.basename(entry)}", total_bytes(entry)) as progress:
                    read = read_stream(entry, **options, progress=progress)
            except InputError as problem:
                if not several:
                    raise as_options(problem) from problem
                layout.note(f"left out {as_options(problem)}")
                continue
            if read.malformed.count:
                layout.note(f"{entry}: skipped {read.malformed}")
            found.append(FileStream(entry, read.format, key, time, limit))
    if paths and not found:
        raise InputError(f"{', '.join(paths)}: no stream in there: name a file, or say its --format and --key")
    return found


def _about(size: Any, out: str) -> dict[str, str]:
    """What a reader needs to make it again."""
    import platform
    from importlib.metadata import version

    import keyspread

    return {
        "command": " ".join(["keyspread", *sys.argv[1:]]),
        "scale": f"{size.name}: {size.messages:,} messages a Zipf stream, z = {', '.join(map(str, size.skews))}",
        "seeds": ", ".join(map(str, size.seeds)),
        "look-alikes": f"WP at {size.wikipedia:g}, TW at {size.twitter:g}, CT at {size.cashtags:g} of their size",
        "data": ", ".join(stream.title for stream in size.data) or "none given: look-alikes",
        "defaults": "s = 5 sources, ε = 1e-4, θ = 1/(5n), unless a figure says otherwise",
        "results": f"{os.path.join(out, 'results')}, one row a run and time slot",
        "versions": f"keyspread {keyspread.__version__}, PySpark {version('pyspark')}, NumPy {version('numpy')}, "
        f"Python {platform.python_version()}",
    }


def _show(made: "list[FigureResult]", page: str, simulated: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from keyspread.cli.screens import layout

    out = layout.console()
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for title in ("", "where", "claim", "found"):
        table.add_column(title, no_wrap=title in ("", "where"))
    verdicts = [verdict for one in made for verdict in one.verdicts]
    plain = 0 if layout.can_print(out, "✓◐✗") else 1
    for verdict in verdicts:
        *signs, colour = _MARKS[verdict.outcome]
        table.add_row(
            Text(signs[plain], colour), verdict.where.split(",")[0], Text(verdict.claim), Text(verdict.measured)
        )
    out.print()
    out.print(table)
    out.print()
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in _MARKS}
    summary = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    out.print(Text(f"{len(verdicts)} claims: {summary or 'none'}", "bold"))
    out.print(f"{simulated:,} simulations; report and plots in {page}", soft_wrap=True)
    out.print()
