"""`keyspread datasets`: which streams there are, what one is like, and a made one as a file.

Each command checks what it was given, calls `keyspread.streams` and prints; `dataset_screen.py` draws.
"""

import json
import os
from typing import Annotated, Any

import typer

from keyspread.cli.options import count, number

_FORMATS = {
    "tsv": "time<TAB>key lines",
    "wikibench": "traces of WikiBench, 'counter time url flag' lines; key = url",
    "words": "tweets, one a line, text or JSON: a message for each word",
    "cashtags": "tweets, one a line, text or JSON: a message for each cashtag",
    "csv": "lines of values under a header; --key and --time name columns",
    "json": "an object a line; --key and --time name fields",
    "parquet": "--key and --time name columns",
}

datasets = typer.Typer(
    help="Streams to try schemes on: which there are, what one is like, a made one as a file.",
    rich_markup_mode="rich",
)


@datasets.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _made(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Made streams", **more)


def _file(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Files", **more)


_COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
_NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}

_Skew = Annotated[float | None, _made("Zipf exponent, 0 is uniform.", show_default="zipf 1.4, drift 1.2", **_NUMBER)]
_Keys = Annotated[int | None, _made("Keys of the Zipf law.", show_default="zipf 1e4, drift 1e5", **_COUNT)]
_Messages = Annotated[int | None, _made("Messages of zipf and drift.", show_default="1e6", **_COUNT)]
_Every = Annotated[int | None, _made("drift: messages between changes.", show_default="50000", **_COUNT)]
_Hottest = Annotated[int | None, _made("drift: ranks that get other keys.", show_default="100", **_COUNT)]
_Redrawn = Annotated[float | None, _made("drift: share of them that does, each time.", show_default="1", **_NUMBER)]
_Scale = Annotated[float | None, _made("wp, tw, ct: share of the original's size.", show_default="1", **_NUMBER)]
_Seed = Annotated[int | None, _made("Same seed, same stream.", show_default="0", **_COUNT)]


@datasets.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the streams that keyspread makes, and the formats of files that it reads."""
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.dataset import percent, plain_table

    known = _known()
    if as_json:
        formats = [{"name": name, "what": what} for name, what in _FORMATS.items()]
        print(json.dumps({"made": known, "formats": formats}, ensure_ascii=False))
        return
    out = layout.console()
    out.print()
    table = plain_table("made", ("messages", "keys", "p_1"), first=5)
    table.add_column("what it is")
    for one in known:
        what = ("like " if one["look_alike"] else "") + one["what"]
        table.add_row(one["name"], f"{one['messages']:,}", f"{one['keys']:,}", percent(one["p1"]), what)
    out.print(table)
    out.print()
    table = plain_table("files", (), first=9)
    table.add_column("plain or gzip; one, a folder or a pattern")
    for name, what in _FORMATS.items():
        table.add_row(name, what)
    out.print(table)
    out.print()
    out.print("See what one is like: keyspread datasets describe ct")
    out.print()


@datasets.command()
def describe(
    what: Annotated[
        str, typer.Argument(help="zipf, drift, wp, tw, ct; or a file, folder or pattern.", metavar="STREAM|PATH")
    ],
    skew: _Skew = None,
    keys: _Keys = None,
    messages: _Messages = None,
    every: _Every = None,
    hottest: _Hottest = None,
    redrawn: _Redrawn = None,
    scale: _Scale = None,
    seed: _Seed = None,
    format: Annotated[
        str | None,
        _file(f"{', '.join(_FORMATS)}.", show_default="by the ending or the first lines", metavar="NAME"),
    ] = None,
    key: Annotated[str | None, _file("Column of the key.", metavar="COLUMN")] = None,
    time: Annotated[str | None, _file("Column of the time, to sort by.", metavar="COLUMN")] = None,
    limit: Annotated[int | None, _file("Read so many messages at most.", **_COUNT)] = None,
    top: Annotated[int, typer.Option(help="Hottest keys to show.", **_COUNT)] = 10,
    windows: Annotated[int, typer.Option(help="Windows of equal message count.", **_COUNT)] = 10,
    plot: Annotated[str | None, typer.Option(help="Draw it into a .svg, .png or .pdf.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a stream is like: how hot its keys are, by which law, and whether they change.

    [b]keyspread datasets describe ct[/b]
    [b]keyspread datasets describe clicks.csv --key user --time at --plot clicks.svg[/b]
    """
    from keyspread import checks
    from keyspread.cli.plot_file import check_plot
    from keyspread.cli.screens.dataset import as_json as described
    from keyspread.cli.screens.dataset import show
    from keyspread.cli.stream_argument import clean, find_stream, refuse_foreign
    from keyspread.streams.profile import profile

    made = _given(skew=skew, keys=keys, messages=messages, every=every, hottest=hottest, redrawn=redrawn)
    made |= _given(scale=scale, seed=seed)
    read = _given(format=format, key=key, time=time, limit=limit)
    refuse_foreign(what, {**made, **read})
    checks.whole_number("top", top, minimum=0)
    checks.whole_number("windows", windows)
    if plot is not None:
        check_plot(plot)
    found = find_stream(what, {**made, **read})
    result = profile(found.encoded, windows, top)
    names = found.names([hash_ for hash_, _ in (*result.top, *result.leaders)])
    if plot is not None:
        from keyspread.report.stream_plot import plot_stream

        plot_stream(clean(found.title), result, {key: found.label(name) for key, name in names.items()}, plot)
    if as_json:
        print(json.dumps(described(found, result, names, plot), ensure_ascii=False))
    else:
        show(found, result, names, plot)


@datasets.command()
def make(
    what: Annotated[str, typer.Argument(help="zipf, drift, wp, tw or ct.", metavar="STREAM")],
    out: Annotated[str, typer.Argument(help="File to write: .tsv, .tsv.gz or .parquet.", metavar="FILE")],
    skew: _Skew = None,
    keys: _Keys = None,
    messages: _Messages = None,
    every: _Every = None,
    hottest: _Hottest = None,
    redrawn: _Redrawn = None,
    scale: _Scale = None,
    seed: _Seed = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a made stream to a file, message i at time i: time<TAB>key lines, or the columns time and key.

    [b]keyspread datasets make wp wp.tsv.gz --scale 0.05[/b]
    """
    from keyspread.cli.screens import layout
    from keyspread.cli.stream_argument import refuse_foreign
    from keyspread.streams.generated.catalog import DEFAULTS, named_stream
    from keyspread.streams.generated.writer import write_stream

    given = _given(skew=skew, keys=keys, messages=messages, every=every, hottest=hottest, redrawn=redrawn)
    given |= _given(scale=scale, seed=seed)
    if what.lower() in DEFAULTS:
        refuse_foreign(what, given)
    stream = named_stream(what, **given)
    with layout.late_progress(f"writing {os.path.basename(out)}", stream.messages) as progress:
        write_stream(stream, out, overwrite=overwrite, progress=progress)
    size = os.path.getsize(out) / 1e6
    print(f"{stream.messages:,} messages of {stream.title} in {out}, {size:,.1f} MB")


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _known() -> list[dict[str, Any]]:
    from keyspread.streams import ORIGINALS, zipf_probabilities
    from keyspread.streams.generated.catalog import DEFAULTS

    whats = {
        "zipf": "a Zipf law with exponent {skew:g}",
        "drift": "Zipf {skew:g}, other hot keys every {every:,} messages",
    }
    known = []
    for name, what in whats.items():
        law = DEFAULTS[name]
        p1 = float(zipf_probabilities(law["skew"], law["keys"])[0])
        known.append({"name": name, "what": what.format(**law), "look_alike": False, **law, "p1": p1})
    for name, one in ORIGINALS.items():
        sizes = {"messages": one.messages, "keys": one.keys, "p1": one.p1}
        known.append({"name": name, "what": one.what, "look_alike": True, **DEFAULTS[name], **sizes})
    return known
