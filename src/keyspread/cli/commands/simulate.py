"""`keyspread simulate`: one scheme over one stream, in-process; a table for people or JSON for machines."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, count_or_auto, number

if TYPE_CHECKING:
    from keyspread.cli.stream_argument import GivenStream


def simulate(
    stream: Annotated[
        str,
        typer.Option(
            help="[b]zipf[/b], drift, wp, tw, ct (see [b]keyspread datasets list[/b]); or a file, folder or pattern.",
            metavar="NAME|PATH",
        ),
    ] = "zipf",
    skew: Annotated[
        float | None,
        typer.Option(parser=number, help="Zipf exponent, 0 is uniform.", show_default="1.4", metavar="NUMBER"),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option(parser=count, help="Keys of the Zipf law.", show_default="10000", metavar="COUNT"),
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(
            parser=count,
            help="Messages to draw; of a file, to read at most.",
            show_default="1e6",
            metavar="COUNT",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(parser=number, help="Share of the size of wp, tw or ct.", show_default="1", metavar="NUMBER"),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="Of a file: tsv, wikibench, words, csv, …", show_default="by the file", metavar="NAME"),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Column of the key (csv, json, parquet).", metavar="COLUMN")] = None,
    workers: Annotated[int, typer.Option(parser=count, help="Workers to spread over.", metavar="COUNT")] = 50,
    scheme: Annotated[
        str,
        typer.Option(help="How a message finds its worker: per-key, d-choices, w-choices, …", metavar="NAME"),
    ] = "per-key",
    sources: Annotated[int, typer.Option(parser=count, help="Senders that share the stream.", metavar="COUNT")] = 5,
    seed: Annotated[int, typer.Option(parser=count, help="Same seed, same result.", metavar="COUNT")] = 0,
    windows: Annotated[int, typer.Option(parser=count, help="Windows of equal message count.", metavar="COUNT")] = 50,
    threshold: Annotated[
        float | None,
        typer.Option(
            parser=number,
            help="Share from which a key is hot.",
            show_default="1/(5·workers)",
            metavar="NUMBER",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(parser=number, help="Imbalance that may be left.", show_default="1e-4", metavar="NUMBER"),
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(parser=count, help="Counters a sender keeps.", show_default="2/threshold", metavar="COUNT"),
    ] = None,
    choices: Annotated[
        int | None, typer.Option(parser=count, help="Fixed choices of a hot key (greedy).", metavar="COUNT")
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            parser=count_or_auto,
            help="Messages after which a count weighs half, or auto.",
            show_default="no fading",
            metavar="COUNT|auto",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file with malformed lines.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate one scheme on a made stream or a file, and show how even the load is.

    [b]keyspread simulate --skew 1.4 --workers 50 --scheme d-choices[/b]
    """
    import keyspread
    from keyspread.cli.screens import layout
    from keyspread.cli.stream_argument import given_stream

    given = given_stream(
        stream, strict, {"skew": skew, "keys": keys, "scale": scale, "format": format, "key": key}, messages, seed
    )
    named = {
        "threshold": threshold,
        "tolerance": tolerance,
        "counters": capacity,
        "choices": choices,
        "half_life": half_life,
    }
    options: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    with layout.late_progress("simulating", given.encoded.messages) as progress:
        result = keyspread.simulate(
            given.encoded,
            scheme,
            workers,
            sources=sources,
            seed=seed,
            windows=windows,
            progress=progress,
            **options,
        )
    if as_json:
        malformed = 0 if given.malformed is None else given.malformed.count
        facts = {"stream": stream, **given.parameters, "malformed": malformed}
        print(json.dumps({**facts, "windows": windows, **options, **result.to_dict()}))
    else:
        _show(given, result)


def _show(given: "GivenStream", result: Any) -> None:
    """Draw the result for people."""
    from rich.text import Text

    from keyspread.cli.screens import layout

    out = layout.console()
    choices = sorted(set(result.choices))
    spread = str(choices[0]) if len(choices) == 1 else f"{choices[0]} to {choices[-1]}" if choices else "none"
    per_key = result.replicas / max(1, result.keys)
    busiest = result.workers * max(result.loads.tolist()) / max(1, result.messages)
    out.print()
    where = f", {_many(result.workers, 'worker')}, {_many(result.sources, 'source')}: {given.title}"
    out.print(Text.assemble((result.scheme, "bold"), where))
    out.print()
    out.print(
        layout.facts(
            [
                ("messages", f"{result.messages:,}", "imbalance at the end", f"{result.imbalance:.2e}"),
                ("keys", f"{result.keys:,}", "mean over time", f"{result.mean_imbalance:.2e}"),
                (
                    "hot from a share of",
                    f"{result.threshold:.3g}",
                    "within a window",
                    f"{result.windowed_imbalance:.2e}",
                ),
                ("choices of a hot key", spread, "busiest worker", f"{busiest:.2f} × even share"),
                ("replicas", f"{result.replicas:,}", "replicas a key", f"{per_key:.2f}"),
                ("  of hot keys", f"{result.head_replicas:,}", "", ""),
            ]
        )
    )
    out.print()
    out.print(layout.bar_legend(out))
    out.print(layout.load_bars(result.head_load.tolist(), result.tail_load.tolist(), out))
    course = result.imbalance_over_time.tolist()
    if course:
        out.print()
        out.print(f"imbalance over time, log scale, {course[0]:.1e} to {course[-1]:.1e}")
        out.print(layout.sparkline(course, out), style=layout.HEAD_STYLE)
    out.print()


def _many(number_of: int, thing: str) -> str:
    return f"{number_of:,} {thing}{'' if number_of == 1 else 's'}"
