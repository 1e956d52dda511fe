"""`keyspread reproduce`: the paper's figures and claims, recomputed on Spark, each with a verdict, as one page."""

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.common.layout import print_json
from keyspread.cli.options.command import COUNT, NAME, PATH, option_groups
from keyspread.cli.options.input import FileInputs, given, one_column
from keyspread.cli.options.output import Json, Master, Verbose, output
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.paper.figures.figure import Scale
    from keyspread.streams import FileStream


def _sizes() -> list[str]:
    from keyspread.paper.figures.figure import SCALES

    return list(SCALES)


def _experiment(help: str, default: str | bool = True, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Experiments", show_default=default, **more)


@dataclass(frozen=True)
class Experiments:
    """What to reproduce, and how large."""

    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="1, 3 … 14, constraints, estimate, memory (default: all except 13 and 14)",
            show_default=False,
            metavar="FIGURES",
        ),
    ] = None
    size: Annotated[
        str, _experiment("[b]quick[/b], or [b]paper[/b] for the paper's sizes", autocompletion=_sizes, **NAME)
    ] = "quick"
    seeds: Annotated[int | None, _experiment("Number of streams and hash functions to try", "3", **COUNT)] = None


@option_groups
def reproduce(
    experiments: Experiments,
    streams: FileInputs,
    out: Annotated[
        str, output("Folder for the report and for the results, which are reused by later runs", **PATH)
    ] = "reproduced",
    as_json: Json = False,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    """Reproduce the paper's figures 1 and 3 to 14 and the claims of its text, with a verdict on each claim.

    An interrupted run resumes where it stopped. Your own files replace the streams of figures 11 and 12.

    [b]keyspread reproduce[/b]
    [b]keyspread reproduce 10 --size paper --out grid[/b]
    [b]keyspread reproduce 11 12 --input clicks.tsv.gz[/b]
    [b]keyspread reproduce 13 14[/b]
    """
    from keyspread.cli.common import layout
    from keyspread.cli.common.session import failures_in_one_line, hold_stderr, spark_session
    from keyspread.cli.screens.paper import show_verdicts
    from keyspread.paper.figures.figure import find_scale
    from keyspread.paper.figures.measurement import read_measurement
    from keyspread.paper.report import to_json, write_report
    from keyspread.paper.reproduce import find_figures, runs_of
    from keyspread.paper.reproduce import reproduce as run_experiments
    from keyspread.paper.runs.sweep import Results
    from keyspread.spark._launch.master import check_master

    # Check everything that can be checked without Spark before it starts.
    deployment = os.path.join(out, "deployment.json")
    measured = read_measurement(deployment) if os.path.exists(deployment) else None
    figures = find_figures(experiments.figures or (), deployed=measured is not None)
    find_scale(experiments.size, experiments.seeds)
    results = Results(os.path.join(out, "results"))
    if master is not None:
        check_master(master)
    scale = find_scale(experiments.size, experiments.seeds, _read_streams(streams))
    if any(figure.deployed for figure in figures):
        scale = replace(scale, deployment=measured or _measure(scale, master, deployment, verbose))
    missing = results.missing(runs_of(figures, scale))
    if missing:
        with (
            hold_stderr(not verbose) as held,
            spark_session(master, held, verbose, short=True) as session,  # the JVM has little to do
            failures_in_one_line(verbose),
            layout.late_progress(f"{len(missing):,} simulations", len(missing), held.console) as progress,
        ):
            reproduced = run_experiments(figures, scale, results, session, progress)
    else:
        reproduced = run_experiments(figures, scale, results, None)
    page = write_report(out, reproduced, _about(scale, out))
    if as_json:
        print_json({**to_json(reproduced), "report": str(page)})
    else:
        show_verdicts(reproduced, str(page), len(missing))


def _measure(scale: "Scale", master: str | None, path: str, verbose: bool) -> Any:
    """Measure the deployment of this size and write it to a file, so that it is not measured again."""
    from keyspread.cli.commands.bench import measure
    from keyspread.paper.figures.measurement import SETUPS

    measured = measure(SETUPS[scale.name], master, verbose)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(measured.to_dict(), file)
    os.replace(f"{path}.new", path)
    return measured


def _read_streams(streams: FileInputs) -> "list[FileStream]":
    """Find the user's streams. Each is read once here, so that an error shows up before an hour of work."""
    from keyspread.cli.common import layout
    from keyspread.cli.common.input_stream import as_options
    from keyspread.streams import find_streams, read_stream, total_bytes

    paths = streams.input or []
    options = given(format=streams.format, key=one_column(streams.key), time=streams.time, messages=streams.messages)
    if not paths and options:
        name, value = next(iter(options.items()))
        raise InputError(f"--{name} is for --input, got {value!r} without it: name the files")
    limit = options.pop("messages", None)
    readable: list[FileStream] = []
    for path in paths:
        for entry in find_streams(path):
            try:
                with layout.late_progress(f"reading {os.path.basename(entry)}", total_bytes(entry)) as progress:
                    read = read_stream(entry, **options, limit=limit, progress=progress)
            except InputError as problem:
                if not os.path.isdir(path):
                    raise as_options(problem) from problem
                layout.note(f"skipped {as_options(problem)}")
                continue
            if read.malformed.count:
                layout.note(f"{entry}: skipped {read.malformed}")
            readable.append(read.source)
    if paths and not readable:
        raise InputError(f"{', '.join(paths)}: no stream found: name a file, or pass its --format and --key")
    return readable


def _about(scale: "Scale", out: str) -> dict[str, str]:
    """Return what a reader of the report needs to reproduce it."""
    import platform
    from importlib.metadata import version

    import keyspread

    return {
        "command": " ".join(["keyspread", *sys.argv[1:]]),
        "size": f"{scale.name}: {scale.messages:,} messages per Zipf stream, z = {', '.join(map(str, scale.skews))}",
        "seeds": ", ".join(map(str, scale.seeds)),
        "look-alikes": f"WP at {scale.wikipedia:g}, TW at {scale.twitter:g}, CT at {scale.cashtags:g} of their size",
        "input": ", ".join(stream.title for stream in scale.data) or "look-alikes of the paper's streams",
        "defaults": "s = 5 sources, ε = 1e-4, θ = 1/(5n), unless a figure says otherwise",
        "results": f"{os.path.join(out, 'results')}, one row per run and time slot",
        "versions": f"keyspread {keyspread.__version__}, PySpark {version('pyspark')}, NumPy {version('numpy')}, "
        f"Python {platform.python_version()}",
    }
