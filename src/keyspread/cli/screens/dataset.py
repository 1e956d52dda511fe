"""What `keyspread datasets` shows: the list of streams; facts, hottest keys, distribution and drift of one stream."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.input_stream import InputStream, clean
from keyspread.cli.screens import layout
from keyspread.cli.screens.layout import percent, plain_table
from keyspread.streams.profile import Profile

_MOST_RUNS = 12


def show_list(streams: Sequence[Mapping[str, Any]], formats: Mapping[str, str]) -> None:
    """Print the generated streams and the file formats for people."""
    out = layout.console()
    out.print()
    table = plain_table("generated", ("messages", "keys", "hottest"), first=5)
    table.add_column("description")
    for stream in streams:
        what = ("like " if stream["look_alike"] else "") + stream["what"]
        table.add_row(stream["name"], f"{stream['messages']:,}", f"{stream['keys']:,}", percent(stream["p1"]), what)
    out.print(table)
    out.print(Text("hottest: share of the hottest key", layout.QUIET_STYLE))
    out.print()
    table = plain_table("files", (), first=9)
    table.add_column("plain or gzip: a file, a folder or a pattern")
    for name, what in formats.items():
        table.add_row(name, what)
    out.print(table)
    out.print()
    out.print("To see how skewed a stream is: keyspread datasets describe --input ct")
    out.print()


def as_dict(stream: InputStream, result: Profile, names: dict[int, Any]) -> dict[str, Any]:
    """Return the profile as plain values, ready for JSON."""
    malformed = asdict(stream.malformed) if stream.malformed is not None else {"count": 0}
    plain = asdict(result)
    return {
        "title": stream.title,
        "parameters": stream.parameters,
        **{name: plain[name] for name in ("messages", "keys", "p1")},
        "workers": result.workers,
        "hot_from": result.hot_from,
        **{name: plain[name] for name in ("hot_keys", "hot_share", "half", "evenness", "exponent", "drift")},
        "top": [
            {"key": names[key], "hash": key, "messages": count, "share": count / result.messages}
            for key, count in result.top
        ],
        "law": result.law,
        "leaders": [{"key": names[key], "hash": key, "share": share} for key, share in result.leaders],
        "p1_over_time": result.p1_over_time,
        "from": None if stream.span is None else _moment(stream.span[0]).isoformat(),
        "to": None if stream.span is None else _moment(stream.span[1]).isoformat(),
        "malformed": malformed,
    }


def show(stream: InputStream, result: Profile, names: dict[int, Any]) -> None:
    """Print the profile for people."""
    out = layout.console()
    out.print()
    out.print(Text(clean(stream.title), "bold"))
    for line in _remarks(stream):
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()
    out.print(_facts(result))
    if result.top:
        out.print()
        table = plain_table("hottest keys", ("messages", "share"), first=14)
        for key, count in result.top:
            table.add_row(Text(stream.label(names[key])), f"{count:,}", percent(count / result.messages))
        out.print(table)
    if result.keys > 1:
        out.print()
        for text in _distribution(result, out):
            out.print(text)
    if result.leaders:
        out.print()
        _show_drift(stream, result, names, out)
    if result.messages:
        out.print()
        out.print(Text(_verdict(result), "bold"))
    out.print()


def _remarks(stream: InputStream) -> list[str]:
    lines = []
    if stream.span is not None:
        first, last = map(_moment, stream.span)
        days = (last - first).total_seconds() / 86_400
        duration = f"{days:,.1f} days" if days >= 2 else f"{24 * days:,.1f} hours"
        lines.append(f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, {duration}")
    if stream.malformed is not None and stream.malformed.count:
        lines.append(f"skipped {clean(str(stream.malformed))}")
    return lines


def _facts(result: Profile) -> Table:
    exponent = "none" if result.exponent is None else f"{result.exponent:.2f}"
    hot_from = percent(result.hot_from)
    return layout.facts(
        [
            ("messages", f"{result.messages:,}", f"hot keys (at least {hot_from})", f"{result.hot_keys:,}"),
            ("keys", f"{result.keys:,}", "share of all hot keys", percent(result.hot_share)),
            ("share of the hottest key", percent(result.p1), "keys with half the messages", f"{result.half:,}"),
            ("fitted Zipf exponent", exponent, "evenness (1 is uniform)", f"{result.evenness:.2f}"),
        ]
    )


def _distribution(result: Profile, out: Console, width: int = 66, height: int = 10) -> list[Text]:
    """Draw share over rank, both on a log scale: columns filled up to the share, hot keys darker."""
    nice = layout.can_print(out, "█▒▁▂▃▄▅▆▇┤│└─┬")
    full, light, parts, side, tick, corner, line, down = (
        ("█", "▒", " ▁▂▃▄▅▆▇", "│", "┤", "└", "─", "┬") if nice else ("#", "=", "  ..::##", "|", "+", "+", "-", "+")
    )
    shares = [share for _, share in result.law]
    top, bottom = math.ceil(math.log10(shares[0]) - 1e-9), math.floor(math.log10(shares[-1]) + 1e-9)
    bottom = min(bottom, top - 1)
    rows_per_decade = max(1, height // (top - bottom))
    rows = rows_per_decade * (top - bottom)
    last = math.log(result.keys)
    at = np.linspace(0, last, width)
    logs = np.interp(at, np.log([rank for rank, _ in result.law]), np.log10(shares))
    legend = Text.assemble("share of each key by rank, log scales   ", (full, layout.HEAD_STYLE), " hot keys  ")
    lines = [legend + Text.assemble((light, layout.TAIL_STYLE), " other keys")]
    labels = {
        rows_per_decade * decade: f"{10.0 ** (2 + top - decade):.{max(0, decade - top - 2)}f} %"
        for decade in range(top - bottom + 1)
    }
    margin = max(map(len, labels.values()))
    for row in range(rows):
        text = Text(f"{labels.get(row, ''):>{margin}} {tick if row in labels else side}", layout.QUIET_STYLE)
        for value in logs:
            filled = (value - bottom) * rows_per_decade - (rows - 1 - row)  # part of this cell; 1 or more fills it
            filled = max(filled, 0.5) if row == rows - 1 else filled  # even the rarest keys are visible
            if value >= math.log10(result.hot_from) - 1e-9:
                text.append(full if filled >= 1 else parts[max(0, int(8 * filled))], layout.HEAD_STYLE)
            else:
                text.append(light if filled >= 0.5 else " ", layout.TAIL_STYLE)
        lines.append(text)
    axis, numbers = [line] * width, " " * width
    for rank in [10**power for power in range(len(str(result.keys)))]:
        column = round((width - 1) * math.log(rank) / last)
        axis[column] = down
        if column + len(f"{rank:,}") <= width:
            numbers = numbers[:column] + f"{rank:,}" + numbers[column + len(f"{rank:,}") :]
    lines.append(Text(f"{labels[rows]:>{margin}} {corner}{''.join(axis)}", layout.QUIET_STYLE))
    lines.append(Text(f"{'rank':>{margin}}  {numbers}".rstrip(), layout.QUIET_STYLE))
    return lines


def _show_drift(stream: InputStream, result: Profile, names: dict[int, Any], out: Console) -> None:
    course = result.p1_over_time
    out.print(f"share of the hottest key in each window, log scale, {_range(course)}")
    wide = [share for share in course for _ in range(max(1, 50 // len(course)))]
    out.print(layout.sparkline(wide, out), style=layout.HEAD_STYLE)
    if len(course) > 1:
        out.print(f"drift {result.drift:.2f}: {result.drift_in_words}, compared with the window before")
    runs: list[tuple[int, int, int]] = []
    for key, group in groupby(enumerate(result.leaders), key=lambda window: window[1][0]):
        places = [place for place, _ in group]
        runs.append((key, places[0], places[-1]))
    table = plain_table("hottest key", ("windows", "share"), first=14)
    for key, first, last in runs[:_MOST_RUNS]:
        windows = f"{first + 1}" if first == last else f"{first + 1} to {last + 1}"
        table.add_row(Text(stream.label(names[key])), windows, _range(course[first : last + 1]))
    out.print(table)
    if len(runs) > _MOST_RUNS:
        out.print(f"and {len(runs) - _MOST_RUNS:,} more changes", style=layout.QUIET_STYLE)


def _verdict(result: Profile) -> str:
    workers = layout.many(result.workers, "worker")
    overall, in_window = result.workers * result.p1, result.workers * max(result.p1_over_time)
    said = f"With {workers}, the hottest key alone would keep {overall:.1f} of them busy"
    # A window with few messages always has a key with a large share of them.
    if in_window > max(1, 1.5 * overall) and result.messages >= 5 * result.workers * len(result.leaders):
        return f"{said}, and up to {in_window:.1f} within a window."
    return f"{said}." if overall >= 1 else f"With {workers}, no key alone would keep one of them busy."


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
