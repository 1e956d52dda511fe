"""`keyspread simulate`: one scheme over one stream, in-process; a table for people or JSON for machines."""

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, count_or_auto, number
from keyspread.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ZIPF = {"skew": 1.4, "keys": 10_000, "messages": 1_000_000}


@dataclass(frozen=True)
class _Input:
    """A stream to simulate, and what to say about it."""

    title: str
    hashes: "npt.NDArray[np.int64]"
    facts: dict[str, Any]


def simulate(
    stream: Annotated[
        str,
        typer.Option(help="[b]zipf[/b], or a file of time<TAB>key lines, plain or gzip.", metavar="zipf|FILE"),
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
    workers: Annotated[int, typer.Option(parser=count, help="Workers to spread over.", metavar="COUNT")] = 50,
    scheme: Annotated[
        str,
        typer.Option(help="How a message finds its worker: d-choices, w-choices, partial-key, …", metavar="NAME"),
    ] = "d-choices",
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
        typer.Option(parser=number, help="Imbalance that d-choices may leave.", show_default="1e-4", metavar="NUMBER"),
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
    """Simulate one scheme on a Zipf stream or a file, and show how even the load is.

    [b]keyspread simulate --skew 1.4 --workers 50 --scheme d-choices[/b]
    """
    import keyspread
    from keyspread.cli import screen

    given = _read(stream, strict, skew, keys, messages) if stream != "zipf" else _draw(skew, keys, messages, seed)
    named = {
        "threshold": threshold,
        "tolerance": tolerance,
        "capacity": capacity,
        "choices": choices,
        "half_life": half_life,
    }
    options: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    with screen.late_progress("simulating", len(given.hashes)) as progress:
        result = keyspread.simulate(
            given.hashes,
            scheme,
            workers,
            sources=sources,
            seed=seed,
            windows=windows,
            progress=progress,
            **options,
        )
    if as_json:
        print(json.dumps({**given.facts, "windows": windows, **options, **result.to_dict()}))
    else:
        _show(given, result)


def _draw(skew: float | None, keys: int | None, messages: int | None, seed: int) -> _Input:
    """Draw a Zipf stream."""
    from keyspread.streams import zipf

    law = {**_ZIPF}
    law |= {
        name: value for name, value in (("skew", skew), ("keys", keys), ("messages", messages)) if value is not None
    }
    hashes = zipf(law["skew"], int(law["keys"]), int(law["messages"]), seed)
    title = f"Zipf {law['skew']:g} over {int(law['keys']):,} keys"
    return _Input(title, hashes, {"stream": "zipf", "skew": law["skew"], "zipf_keys": law["keys"], "malformed": 0})


def _read(path: str, strict: bool, skew: float | None, keys: int | None, messages: int | None) -> _Input:
    """Read a stream from a file."""
    from keyspread.cli import screen
    from keyspread.streams import read_stream

    for name, value in (("--skew", skew), ("--keys", keys)):
        if value is not None:
            raise InputError(f"{name} is for --stream zipf only, got {value:g} with --stream {path}: leave it out")
    if not os.path.exists(path):
        raise InputError(f"--stream must be zipf or a file of time<TAB>key lines, found no file {path}: check the path")
    with screen.late_progress(f"reading {os.path.basename(path)}", os.path.getsize(path)) as progress:
        found = read_stream(path, strict=strict, progress=progress)
    if found.malformed.count:
        screen.note(f"{path}: skipped {found.malformed}")
    hashes = found.hashes if messages is None else found.hashes[:messages]
    return _Input(os.path.basename(path), hashes, {"stream": path, "malformed": found.malformed.count})


def _show(given: _Input, result: Any) -> None:
    """Draw the result for people."""
    from rich.text import Text

    from keyspread.cli import screen

    out = screen.console()
    choices = sorted(set(result.choices))
    spread = str(choices[0]) if len(choices) == 1 else f"{choices[0]} to {choices[-1]}" if choices else "none"
    per_key = result.replicas / max(1, result.keys)
    busiest = result.workers * max(result.loads.tolist()) / max(1, result.messages)
    out.print()
    where = f", {_many(result.workers, 'worker')}, {_many(result.sources, 'source')}: {given.title}"
    out.print(Text.assemble((result.scheme, "bold"), where))
    out.print()
    out.print(
        screen.facts(
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
    out.print(screen.bar_legend(out))
    out.print(screen.load_bars(result.head_load.tolist(), result.tail_load.tolist(), out))
    course = result.imbalance_over_time.tolist()
    if course:
        out.print()
        out.print(f"imbalance over time, log scale, {course[0]:.1e} to {course[-1]:.1e}")
        out.print(screen.sparkline(course, out), style=screen.HEAD_STYLE)
    out.print()


def _many(number_of: int, thing: str) -> str:
    return f"{number_of:,} {thing}{'' if number_of == 1 else 's'}"
