"""`keyspread compare`: every scheme on your stream, side by side, and what to take."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, count_or_auto, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keyspread.evaluation.compare import Compared

_COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
_NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}


def compare(
    stream: Annotated[
        str, typer.Argument(help="zipf, drift, wp, tw, ct; or a file, folder or pattern.", metavar="STREAM|PATH")
    ],
    workers: Annotated[int, typer.Option(help="Workers to spread over.", **_COUNT)] = 50,
    sources: Annotated[int, typer.Option(help="Senders that share the stream.", **_COUNT)] = 5,
    windows: Annotated[int, typer.Option(help="Windows of equal message count.", **_COUNT)] = 50,
    seed: Annotated[int, typer.Option(help="Same seed, same result.", **_COUNT)] = 0,
    threshold: Annotated[
        float | None, typer.Option(help="Share from which a key is hot.", show_default="1/(5·workers)", **_NUMBER)
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            parser=count_or_auto,
            help="Messages after which a count weighs half, or auto.",
            show_default="auto for per-key, no fading for others",
            metavar="COUNT|auto",
        ),
    ] = None,
    skew: Annotated[float | None, typer.Option(help="Exponent of zipf or drift.", **_NUMBER)] = None,
    keys: Annotated[int | None, typer.Option(help="Keys of zipf or drift.", **_COUNT)] = None,
    messages: Annotated[int | None, typer.Option(help="Messages; of a file, to read at most.", **_COUNT)] = None,
    scale: Annotated[float | None, typer.Option(help="Share of the size of wp, tw or ct.", **_NUMBER)] = None,
    format: Annotated[str | None, typer.Option(help="Of a file.", show_default="by the file", metavar="NAME")] = None,
    key: Annotated[str | None, typer.Option(help="Column of the key (csv, json, parquet).", metavar="COLUMN")] = None,
    plot: Annotated[
        str | None, typer.Option(help="Draw replicas against imbalance into a .svg, .png or .pdf.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Try every scheme on a stream and say which one to take, or that none is needed.

    [b]keyspread compare clicks.csv --key user --workers 200[/b]
    """
    from keyspread.cli.plot_file import check_plot
    from keyspread.cli.screens import layout
    from keyspread.cli.stream_argument import given_stream
    from keyspread.evaluation.compare import ALL, advice, frontier
    from keyspread.evaluation.compare import compare as compare_schemes

    if plot is not None:
        check_plot(plot)
    options = {"skew": skew, "keys": keys, "scale": scale, "format": format, "key": key}
    found = given_stream(stream, False, options, messages, seed)
    rules: dict[str, Any] = {"threshold": threshold, "half_life": half_life}
    with layout.late_progress("comparing", len(ALL)) as progress:
        compared = compare_schemes(
            found.encoded,
            workers,
            sources=sources,
            seed=seed,
            windows=windows,
            progress=progress,
            **{name: value for name, value in rules.items() if value is not None},
        )
    said = advice(compared, workers)
    if plot is not None:
        from keyspread.report.compare_plot import plot_comparison

        plot_comparison(f"{found.title}, {workers} workers", compared, plot)
    if as_json:
        content = {
            **{"stream": stream, **found.parameters, "workers": workers, "sources": sources, "windows": windows},
            "schemes": [one.to_dict() for one in compared],
            "frontier": [one.scheme for one in frontier(compared)],
            "advice": said,
            "plot": plot,
        }
        print(json.dumps(content))
    else:
        _show(f"{found.title}, {workers:,} workers, {sources:,} sources", compared, said, plot)


def _show(title: str, compared: "Sequence[Compared]", said: str, plot: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from keyspread.cli.screens import layout
    from keyspread.evaluation.compare import best, frontier

    out = layout.console()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column("scheme")
    for name in ("busiest", "in windows", "at the end", "replicas", "a key", "rate"):
        table.add_column(name, justify="right", no_wrap=True)
    base = next((one.rate for one in compared if one.scheme == "partial-key"), compared[0].rate)
    chosen, unbeaten = best(compared), {one.scheme for one in frontier(compared)}
    mark = "•" if layout.can_print(out, "•") else "*"
    for one in sorted(compared, key=lambda one: (one.windowed_imbalance, one.replicas)):
        table.add_row(
            f"{mark if one.scheme in unbeaten else ' '} {one.scheme}",
            f"{one.busiest:.2f} ×",
            f"{one.windowed_imbalance:.1e}",
            f"{one.imbalance:.1e}",
            f"{one.replicas:,}",
            f"{one.replicas_per_key:.2f}",
            f"{one.rate / base:.2f} ×",
            style="bold" if one is chosen else "",
        )
    out.print()
    out.print(Text(title, "bold"))
    out.print()
    out.print(table)
    out.print(
        Text(
            f"busiest: mean over windows, × an even share; {mark} beaten by none in both imbalance and replicas; "
            "rate: × partial-key",
            layout.QUIET_STYLE,
        )
    )
    out.print()
    out.print(Text(said, "bold"))
    if plot is not None:
        out.print(Text(f"the plot in {plot}"), soft_wrap=True)
    out.print()
