"""What `keyspread datasets describe` shows: facts, hottest keys, the law, who leads when; and the same as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout
from keyspread.cli.stream_argument import GivenStream, clean
from keyspread.streams.profile import HOT_SHARE, Profile

_WORKERS = 50
_MOST_RUNS = 12


def as_json(found: GivenStream, result: Profile, names: dict[int, Any], plot: str | None) -> dict[str, Any]:
    """Give all of it as plain values."""
    malformed = asdict(found.malformed) if found.malformed is not None else {"count": 0}
    plain = asdict(result)
    return {
        "title": found.title,
        "parameters": found.parameters,
        **{name: plain[name] for name in ("messages", "keys", "p1")},
        "hot_from": HOT_SHARE,
        **{name: plain[name] for name in ("hot_keys", "hot_share", "half", "evenness", "exponent", "drift")},
        "top": [
            {"key": names[key], "hash": key, "messages": many, "share": many / result.messages}
            for key, many in result.top
        ],
        "law": result.law,
        "leaders": [{"key": names[key], "hash": key, "share": share} for key, share in result.leaders],
        "p1_over_time": result.p1_over_time,
        "from": None if found.span is None else _moment(found.span[0]).isoformat(),
        "to": None if found.span is None else _moment(found.span[1]).isoformat(),
        "malformed": malformed,
        "plot": plot,
    }


def show(found: GivenStream, result: Profile, names: dict[int, Any], plot: str | None) -> None:
    """Draw it for people."""
    out = layout.console()
    out.print()
    out.print(Text(clean(found.title), "bold"))
    for line in _remarks(found):
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()
    out.print(_facts(result))
    if result.top:
        out.print()
        table = plain_table("hottest keys", ("messages", "share"), first=14)
        for key, many in result.top:
            table.add_row(Text(found.label(names[key])), f"{many:,}", percent(many / result.messages))
        out.print(table)
    if result.keys > 1:
        out.print()
        for text in _law_plot(result, out):
            out.print(text)
    if result.leaders:
        out.print()
        _show_drift(found, result, names, out)
    if result.messages:
        out.print()
        out.print(Text(_verdict(result), "bold"))
    if plot is not None:
        out.print(Text(f"the plot in {plot}"), soft_wrap=True)
    out.print()


def plain_table(title: str, numbers: tuple[str, ...], first: int) -> Table:
    """Make a table without lines: a column of names, and columns of numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column(title, min_width=first, max_width=40, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _remarks(found: GivenStream) -> list[str]:
    lines = []
    if found.span is not None:
        first, last = map(_moment, found.span)
        days = (last - first).total_seconds() / 86_400
        lasted = f"{days:,.1f} days" if days >= 2 else f"{24 * days:,.1f} hours"
        lines.append(f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, {lasted}")
    if found.malformed is not None and found.malformed.count:
        lines.append(f"left out {clean(str(found.malformed))}")
    return lines


def _facts(result: Profile) -> Table:
    exponent = "none" if result.exponent is None else f"{result.exponent:.2f}"
    return layout.facts(
        [
            ("messages", f"{result.messages:,}", f"hot keys, {percent(HOT_SHARE)} or more", f"{result.hot_keys:,}"),
            ("keys", f"{result.keys:,}", "their share together", percent(result.hot_share)),
            ("hottest key, p_1", percent(result.p1), "keys that have half of all", f"{result.half:,}"),
            ("Zipf exponent, fitted", exponent, "evenness, 1 if all are alike", f"{result.evenness:.2f}"),
        ]
    )


def _law_plot(result: Profile, out: Console, width: int = 66, height: int = 10) -> list[Text]:
    """Share over rank, both on a log scale: columns filled up to the share, hot keys darker."""
    nice = layout.can_print(out, "█▒▁▂▃▄▅▆▇┤│└─┬")
    full, light, parts, side, tick, corner, line, down = (
        ("█", "▒", " ▁▂▃▄▅▆▇", "│", "┤", "└", "─", "┬") if nice else ("#", "=", "  ..::##", "|", "+", "+", "-", "+")
    )
    shares = [share for _, share in result.law]
    top, bottom = math.ceil(math.log10(shares[0]) - 1e-9), math.floor(math.log10(shares[-1]) + 1e-9)
    bottom = min(bottom, top - 1)
    a_decade = max(1, height // (top - bottom))
    rows = a_decade * (top - bottom)
    last = math.log(result.keys)
    at = np.linspace(0, last, width)
    logs = np.interp(at, np.log([rank for rank, _ in result.law]), np.log10(shares))
    legend = Text.assemble("share of each key by its rank, log scales   ", (full, layout.HEAD_STYLE), " hot keys  ")
    drawn = [legend + Text.assemble((light, layout.TAIL_STYLE), " other keys")]
    labels = {
        a_decade * decade: f"{10.0 ** (2 + top - decade):.{max(0, decade - top - 2)}f} %"
        for decade in range(top - bottom + 1)
    }
    margin = max(map(len, labels.values()))
    for row in range(rows):
        text = Text(f"{labels.get(row, ''):>{margin}} {tick if row in labels else side}", layout.QUIET_STYLE)
        for value in logs:
            filled = (value - bottom) * a_decade - (rows - 1 - row)  # of this cell, 1 and more is all
            filled = max(filled, 0.5) if row == rows - 1 else filled  # the rarest keys are keys too
            if value >= math.log10(HOT_SHARE) - 1e-9:
                text.append(full if filled >= 1 else parts[max(0, int(8 * filled))], layout.HEAD_STYLE)
            else:
                text.append(light if filled >= 0.5 else " ", layout.TAIL_STYLE)
        drawn.append(text)
    axis, numbers = [line] * width, " " * width
    for rank in [10**power for power in range(len(str(result.keys)))]:
        column = round((width - 1) * math.log(rank) / last)
        axis[column] = down
        if column + len(f"{rank:,}") <= width:
            numbers = numbers[:column] + f"{rank:,}" + numbers[column + len(f"{rank:,}") :]
    drawn.append(Text(f"{labels[rows]:>{margin}} {corner}{''.join(axis)}", layout.QUIET_STYLE))
    drawn.append(Text(f"{'rank':>{margin}}  {numbers}".rstrip(), layout.QUIET_STYLE))
    return drawn


def _show_drift(found: GivenStream, result: Profile, names: dict[int, Any], out: Console) -> None:
    course = result.p1_over_time
    out.print(f"share of the hottest key over time, log scale, {_range(course)}")
    wide = [share for share in course for _ in range(max(1, 50 // len(course)))]
    out.print(layout.sparkline(wide, out), style=layout.HEAD_STYLE)
    if len(course) > 1:
        kept = "all" if result.drift == 0 else f"{100 * (1 - result.drift):.0f} %"
        out.print(f"drift {result.drift:.2f}: {kept} of a window's ten hottest keys are among those of the next")
    runs: list[tuple[int, int, int]] = []
    for key, group in groupby(enumerate(result.leaders), key=lambda one: one[1][0]):
        places = [place for place, _ in group]
        runs.append((key, places[0], places[-1]))
    table = plain_table("who leads", ("windows", "share"), first=14)
    for key, first, last in runs[:_MOST_RUNS]:
        windows = f"{first + 1}" if first == last else f"{first + 1} to {last + 1}"
        table.add_row(Text(found.label(names[key])), windows, _range(course[first : last + 1]))
    out.print(table)
    if len(runs) > _MOST_RUNS:
        out.print(f"and {len(runs) - _MOST_RUNS:,} further changes", style=layout.QUIET_STYLE)


def _verdict(result: Profile) -> str:
    overall, in_window = _WORKERS * result.p1, _WORKERS * max(result.p1_over_time)
    said = f"Of {_WORKERS} workers the hottest key alone would keep {overall:.1f} busy"
    # A window of a few messages always has a key with a large share of them.
    if in_window > max(1, 1.5 * overall) and result.messages >= 5 * _WORKERS * len(result.leaders):
        return f"{said}, in a window up to {in_window:.1f}."
    return f"{said}." if overall > 1 else f"No key alone would keep one of {_WORKERS} workers busy."


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def percent(share: float) -> str:
    """Write a share with two decimals, or with an exponent where those say nothing."""
    return f"{100 * share:.2f} %" if share >= 1e-4 or not share else f"{100 * share:.1e} %"


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
