"""A picture as text for a terminal: bars, a line of marks for a trend, and tables."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import wrap

from keyspread.drawing.picture import Bars, Columns, Picture, Table, Trend

WIDTH = 80
_MOST_WORKERS = 20
_MARKS = "▁▂▃▄▅▆▇█"


def as_text(picture: Picture, width: int = WIDTH) -> str:
    """Return the picture as lines of at most `width` columns.

    >>> from keyspread.drawing.picture import Columns, Picture
    >>> print(as_text(Picture("Two workers", "4 rows", [Columns("rows", [3, 1], [2, 0])]), width=40))
    Two workers
    4 rows
    <BLANKLINE>
    rows
    worker 0 █████████████▒▒▒▒▒▒▒  75.00 %
    worker 1 ▒▒▒▒▒▒▒      │        25.00 %
    """
    lines = [picture.title, *(wrap(picture.facts, width) or [""])]
    for part in picture.parts:
        lines.append("")
        if isinstance(part, Columns):
            lines += _columns(part, width)
        elif isinstance(part, Bars):
            lines += _bars(part, width)
        elif isinstance(part, Trend):
            lines += [part.title, _trend(part.values, width)]
        else:
            lines += _table(part)
    return "\n".join(cut(line, width) for line in lines)


def cut(text: str, width: int) -> str:
    """Return one line of text that is not longer than `width`."""
    text = " ".join(text.split("\n")).rstrip()
    return text if len(text) <= width else text[: width - 1] + "…"


def _columns(part: Columns, width: int) -> Iterator[str]:
    yield part.title
    hot = part.hot if part.hot is not None else [0.0] * len(part.loads)
    most, total = max(part.scale or 0, part.most) or 1, sum(part.loads) or 1
    shown = _shown(part.loads)
    label = max((len(name) for name, _ in shown), default=0)
    room = width - label - 2 - 10
    even = round(room * part.even / most)
    for name, worker in shown:
        end, hot_end = round(room * part.loads[worker] / most), round(room * hot[worker] / most)
        bar = list("█" * hot_end + "▒" * (end - hot_end) + " " * (room - end))
        if end <= even < room:
            bar[even] = "│"
        yield f"{name:{label}} {''.join(bar)} {100 * part.loads[worker] / total:6.2f} %"


def _shown(loads: Sequence[float]) -> list[tuple[str, int]]:
    """Return the workers that have a line: all, or some ranks from the busiest to the idlest."""
    if len(loads) <= _MOST_WORKERS:
        return [(f"worker {worker}", worker) for worker in range(len(loads))]
    order = sorted(range(len(loads)), key=lambda worker: -loads[worker])
    ranks = {"busiest": 0.0, "p90": 0.1, "p75": 0.25, "median": 0.5, "p25": 0.75, "p10": 0.9, "idlest": 1.0}
    return [(name, order[round(share * (len(order) - 1))]) for name, share in ranks.items()]


def _bars(part: Bars, width: int) -> Iterator[str]:
    if part.title:
        yield part.title
    names = max((len(bar.name) for bar in part.bars), default=0)
    texts = max((len(bar.text) for bar in part.bars), default=0)
    room, most = max(4, width - names - texts - 2), max((bar.value for bar in part.bars), default=0) or 1
    for bar in part.bars:
        yield f"{bar.name:{names}} {'█' * max(1, round(room * bar.value / most))} {bar.text}"


def _trend(values: Sequence[float], width: int) -> str:
    if len(values) > width:  # keep the largest value of each section, so that no peak is lost
        borders = [len(values) * column // width for column in range(width + 1)]
        values = [max(values[first:last]) for first, last in pairwise(borders)]
    most = max(values, default=0) or 1
    return "".join(_MARKS[round((len(_MARKS) - 1) * value / most)] for value in values)


def _table(table: Table) -> Iterator[str]:
    rows = [[cut(text, 40) for text in row] for row in (table.header, *table.rows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.header))]
    for row in rows:
        cells = [f"{text:{'<' if not place else '>'}{widths[place]}}" for place, text in enumerate(row)]
        yield "  ".join(cells)
