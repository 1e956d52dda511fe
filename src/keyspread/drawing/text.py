"""A picture as lines of styled text: bars, a line of marks for a trend, tables. One renderer for terminals and `print`.

A line is a list of pieces, each with the name of its style, so that this module needs no package for terminals.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import wrap

from keyspread.drawing.picture import Bars, Columns, Part, Picture, Table, Trend, rows_of

WIDTH = 80
MOST_WORKERS = 20
"""Of more workers than this, only a few ranks are shown, from the busiest to the idlest."""
Line = list[tuple[str, str]]
"""Pieces of text with their styles: title, quiet, hot, tail, strong, other, or none."""

_MARKS = "▁▂▃▄▅▆▇█"
ASCII = str.maketrans("█▒│▁▂▃▄▅▆▇×·…–", "#=|_.-~=+*x-.-")
"""What a terminal without Unicode shows instead."""
_RANKS = {"busiest": 0.0, "p90": 0.1, "p75": 0.25, "median": 0.5, "p25": 0.75, "p10": 0.9, "idlest": 1.0}
_SHARE = 10  # columns of ' 100.00 %'
_FIRST = (14, 40)  # narrowest and widest first column of a table


def as_text(picture: Picture, width: int = WIDTH) -> str:
    """Return the picture as lines of at most `width` columns.

    >>> from keyspread.drawing.picture import Columns, Picture
    >>> print(as_text(Picture("Two workers", "4 rows", [Columns("rows", [3, 1], [2, 0])]), width=40))
    Two workers
    4 rows
    <BLANKLINE>
    rows  █ hot keys  ▒ others  │ even share
    worker 0 █████████████▒▒▒▒▒▒▒  75.00 %
    worker 1 ▒▒▒▒▒▒▒      │        25.00 %
    """
    return "\n".join("".join(piece for piece, _ in line) for line in lines(picture, width))


def lines(picture: Picture, width: int = WIDTH, *, ascii_only: bool = False) -> Iterator[Line]:
    """Yield the picture line by line, none longer than `width`."""
    drawn: list[Line] = [[(picture.title, "title")]] if picture.title else []
    drawn += [[(text, "quiet")] for text in wrap(clean(picture.facts), width)]
    has_legend = False
    for row in rows_of(picture.parts):
        drawn.append([])
        drawn += _part(row, width, legend=not has_legend)
        has_legend = has_legend or isinstance(row[0], Columns)
    for line in drawn:
        yield [(piece.translate(ASCII) if ascii_only else piece, style) for piece, style in _cut(line, width)]


def clean(text: str) -> str:
    """Return one line without what a terminal would interpret: control characters, line breaks."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def _cut(line: Line, width: int) -> Iterator[tuple[str, str]]:
    """Yield the pieces up to `width` columns, without control characters and without blanks at the end."""
    plain = ["".join(sign if sign.isprintable() else "?" for sign in piece) for piece, _ in line]
    whole = "".join(plain).rstrip()
    left = len(whole) if len(whole) <= width else width - 1
    for piece, (_, style) in zip(plain, line, strict=True):
        if left > 0:
            yield piece[:left], style
        left -= len(piece)
    if len(whole) > width:
        yield "…", ""


def _part(row: Sequence[Part], width: int, legend: bool) -> Iterator[Line]:
    """Yield the lines of one part, or of two halves side by side."""
    part = row[0]
    if isinstance(part, Columns):
        yield from _columns([one for one in row if isinstance(one, Columns)], width, legend)
    elif isinstance(part, Bars):
        yield from _bars(part, width)
    elif isinstance(part, Trend):
        yield [(part.title, "")]
        yield [(sparkline(part.values, width), "tail")]
    else:
        yield from _table(part, width)


def _columns(parts: Sequence[Columns], width: int, legend: bool) -> Iterator[Line]:
    meaning: Line = []
    if legend:
        if any(part.hot is not None for part in parts):
            meaning += [("█", "hot"), (" hot keys  ", ""), ("▒", "tail"), (" others  ", "")]
        else:
            meaning += [("▒", "tail"), (" rows  ", "")]
        meaning += [("│", "quiet"), (" even share", "")]
    ranked = [_shown(part.loads) for part in parts]
    label = max((len(name) for name, _ in ranked[0]), default=0)
    room = max(8, (width - label - 1) // len(parts) - _SHARE - len(parts))
    if len(parts) > 1:
        yield meaning
        yield [(f"{'':{label}} ", ""), *((f"{clean(part.title):{room + 1 + _SHARE}} ", "quiet") for part in parts)]
    else:
        title = clean(parts[0].title)
        fits = len(title) + 2 + sum(len(piece) for piece, _ in meaning) <= width
        yield [(title, ""), *([("  ", ""), *meaning] if meaning and fits else [])]
        if meaning and not fits:
            yield meaning
    for place, (name, _) in enumerate(ranked[0]):
        line: Line = [(f"{name:{label}} ", "quiet")]
        for part, shown in zip(parts, ranked, strict=True):
            line += _bar(part, shown[place][1], room)
            line.append((f"{100 * part.loads[shown[place][1]] / (sum(part.loads) or 1):>{_SHARE - 3}.2f} %", ""))
            line.append((" " * len(parts), ""))
        yield line


def _bar(part: Columns, worker: int, room: int) -> Line:
    """Return the bar of one worker: hot keys, then others, and a mark at the even share if the bar ends before it."""
    most = max(part.scale or 0, part.most) or 1
    end, hot_end = (
        round(room * load / most) for load in (part.loads[worker], 0 if part.hot is None else part.hot[worker])
    )
    even = round(room * part.even / most)
    bar: Line = [("█" * hot_end, "hot"), ("▒" * (end - hot_end), "tail")]
    if end <= even:
        return [*bar, (" " * (even - end), ""), ("│", "quiet"), (" " * (room - even), "")]
    return [*bar, (" " * (room + 1 - end), "")]


def _shown(loads: Sequence[float]) -> list[tuple[str, int]]:
    """Return the workers that have a line: all, or some ranks from the busiest to the idlest."""
    if len(loads) <= MOST_WORKERS:
        return [(f"worker {worker}", worker) for worker in range(len(loads))]
    order = sorted(range(len(loads)), key=lambda worker: -loads[worker])
    return [(name, order[round(share * (len(order) - 1))]) for name, share in _RANKS.items()]


def _bars(part: Bars, width: int) -> Iterator[Line]:
    if part.title:
        yield [(part.title, "")]
    names = max((len(bar.name) for bar in part.bars), default=0)
    texts = max((len(bar.text) for bar in part.bars), default=0)
    room, most = max(4, width - names - texts - 2), max((bar.value for bar in part.bars), default=0) or 1
    for bar in part.bars:
        full = "█" * max(1, round(room * bar.value / most))
        style = "strong" if bar.strong else ""
        yield [(f"{bar.name:{names}} ", style), (full, "strong" if bar.strong else "other"), (f" {bar.text}", style)]


def sparkline(values: Sequence[float], width: int) -> str:
    """Return values over time as one line of marks, on a log scale; the lowest mark also stands for zero.

    >>> sparkline([1e-5, 1e-4, 1e-3, 1e-2], width=50)
    '▁▃▆█'
    """
    if len(values) > width:  # keep the largest value of each section, so that no peak is lost
        borders = [len(values) * column // width for column in range(width + 1)]
        values = [max(values[first:last]) for first, last in pairwise(borders)]
    positive = [value for value in values if value > 0]
    if not positive:
        return _MARKS[0] * len(values)
    low, high = math.log(min(positive)), math.log(max(positive))
    span = max(high - low, math.log(2))  # so that a tiny change looks tiny
    top = len(_MARKS) - 1
    return "".join(_MARKS[round(top * (math.log(value) - low) / span) if value > 0 else 0] for value in values)


def _table(table: Table, width: int) -> Iterator[Line]:
    rows = [[clean(text) or repr(text) for text in row] for row in (table.header, *table.rows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.header))]
    narrowest, widest = _FIRST
    room = max(narrowest, width - sum(size + 2 for size in widths[1:]))
    widths[0] = min(max(widths[0], narrowest), widest, room)
    for row, style in zip(rows, ["quiet", *[""] * len(table.rows)], strict=True):
        first = row[0] if len(row[0]) <= widths[0] else row[0][: widths[0] - 1] + "…"
        cells = [f"{first:{widths[0]}}", *(f"{text:>{size}}" for text, size in zip(row[1:], widths[1:], strict=True))]
        yield [("  ".join(cells), "strong" if table.strong and row is rows[1] else style)]
