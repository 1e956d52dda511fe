"""A picture as SVG, and as HTML around that SVG: no script, no other file, readable on light and on dark ground.

Every text that comes from data goes through `_plain`: keys may be called `<script>`.
"""

import re
from collections.abc import Sequence
from html import escape

from keyspread.drawing.picture import Bars, Columns, Part, Picture, Table, Trend, rows_of

WIDTH = 720
_GAP, _LINE = 28, 18
_CHART, _BAR, _TREND = 120, 26, 60
_MOST_COLUMNS = 120
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\""
_STYLE = ".ks-hot{fill:#d9660a}.ks-tail{fill:#5b8fc7}.ks-other{fill:#8b95a1}.ks-strong{fill:#2a9d5c}"
_STYLE += ".ks-quiet{fill:currentColor;opacity:.65}.ks-ink{fill:currentColor}"
_STYLE += (
    ".ks-even{stroke:currentColor;stroke-dasharray:4 3;opacity:.7}.ks-trend{fill:none;stroke:#5b8fc7;stroke-width:2}"
)
# A file is shown on a page of its own, where only the reader's setting tells whether the ground is dark.
_ALONE = "svg{color:#1b1f24}@media (prefers-color-scheme:dark){svg{color:#e6e9ed}}"


def as_html(picture: Picture) -> str:
    """Return the picture as a fragment of HTML, for a notebook or a page."""
    charts = [part for part in picture.parts if not isinstance(part, Table)]
    tables = [_table(part) for part in picture.parts if isinstance(part, Table)]
    drawn = _svg(picture, charts, heading=False) if charts else ""
    return (
        f'<div class="keyspread" style="max-width:{WIDTH}px"><strong>{_plain(picture.title)}</strong>'
        f'<div style="opacity:.75">{_plain(picture.facts)}</div>{drawn}{"".join(tables)}</div>'
    )


def as_svg(picture: Picture) -> str:
    """Return the picture as an SVG file of its own, light or dark as the reader prefers. Tables are left out."""
    charts = [part for part in picture.parts if not isinstance(part, Table)]
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _svg(picture, charts, heading=True, style=_ALONE) + "\n"


def _svg(picture: Picture, parts: Sequence[Part], heading: bool, style: str = "") -> str:
    top, body = 6, list[str]()
    if heading:
        body.append(_text(0, 22, picture.title, "ks-ink", size=17, weight=600))
        body.append(_text(0, 42, picture.facts, "ks-quiet"))
        top = 58
    for row in rows_of(parts):
        width = (WIDTH - _GAP) // 2 if len(row) == 2 else WIDTH
        height = 0
        for place, part in enumerate(row):
            height, drawn = _part(part, width)
            body.append(f'<g transform="translate({place * (width + _GAP)} {top})">{"".join(drawn)}</g>')
        top += height + 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="100%" role="img" '
        f'aria-label="{_plain(_described(picture))}" {_FONT} font-size="13" style="max-width:{WIDTH}px">'
        f"<style>{_STYLE}{style}</style>{''.join(body)}</svg>"
    )


def _described(picture: Picture) -> str:
    """Return the picture in words, for people who do not see it."""
    said = [picture.title, picture.facts]
    for part in picture.parts:
        if isinstance(part, Bars):
            said += [f"{bar.name}: {bar.text}" for bar in part.bars]
        elif isinstance(part, Columns):
            said.append(f"{part.title}: the busiest of {part.unit} has {part.busiest:.2f} times the {part.line}")
    return "; ".join(said)


def _part(part: Part, width: int) -> tuple[int, list[str]]:
    if isinstance(part, Columns):
        return _columns(part, width)
    if isinstance(part, Bars):
        return _bars(part, width)
    if isinstance(part, Trend):
        return _trend(part, width)
    raise TypeError(f"a {type(part).__name__} is not drawn as SVG")


def _columns(part: Columns, width: int) -> tuple[int, list[str]]:
    loads, hot = _thinned(part)
    most = max(part.scale or 0, part.most) or 1
    step = width / max(1, len(loads))
    gap = min(4.0, 0.2 * step)
    out = [_text(0, 13, part.title, "ks-ink")]
    bottom = _LINE + 6 + _CHART
    for place, (load, above) in enumerate(zip(loads, hot, strict=True)):
        left, high, part_of_hot = place * step, _CHART * load / most, _CHART * above / most
        out.append(_rectangle(left, bottom - high, step - gap, high - part_of_hot, "ks-tail"))
        out.append(_rectangle(left, bottom - part_of_hot, step - gap, part_of_hot, "ks-hot"))
    even = bottom - _CHART * part.even / most
    out.append(f'<line class="ks-even" x1="0" x2="{width}" y1="{even:.1f}" y2="{even:.1f}"/>')
    count = (
        f"{len(part.loads):,} {part.unit}"
        if len(loads) == len(part.loads)
        else f"{len(part.loads):,} {part.unit}, busiest of each group"
    )
    legend = bottom + 16
    out.append(_text(0, legend, count, "ks-quiet", size=12))
    right = width
    for text, mark in ((part.line, "ks-even"), *(((part.mark, "ks-hot"),) if part.hot is not None else ())):
        right -= 7 * len(text)
        out.append(_text(right, legend, text, "ks-quiet", size=12))
        if mark == "ks-even":
            out.append(
                f'<line class="ks-even" x1="{right - 22}" x2="{right - 6}" y1="{legend - 4}" y2="{legend - 4}"/>'
            )
        else:
            out.append(_rectangle(right - 16, legend - 9, 10, 10, mark))
        right -= 30
    return legend + 6, out


def _thinned(part: Columns) -> tuple[Sequence[float], Sequence[float]]:
    """Return the loads and hot loads, of many workers only the busiest of each group of neighbours."""
    hot = part.hot if part.hot is not None else [0.0] * len(part.loads)
    size = -(-len(part.loads) // _MOST_COLUMNS) or 1
    if size == 1:
        return part.loads, hot
    groups = [range(first, min(first + size, len(part.loads))) for first in range(0, len(part.loads), size)]
    busiest = [max(group, key=lambda worker: part.loads[worker]) for group in groups]
    return [part.loads[worker] for worker in busiest], [hot[worker] for worker in busiest]


def _bars(part: Bars, width: int) -> tuple[int, list[str]]:
    out = [_text(0, 13, part.title, "ks-ink")] if part.title else []
    top = _LINE + 4 if part.title else 0
    names = 8 * max((len(bar.name) for bar in part.bars), default=0) + 12
    room = width - names - 9 * max((len(bar.text) for bar in part.bars), default=0) - 12
    most = max((bar.value for bar in part.bars), default=0) or 1
    for bar in part.bars:
        long = max(2.0, room * bar.value / most)
        weight = 600 if bar.strong else 400
        out.append(_text(0, top + 16, bar.name, "ks-ink", weight=weight))
        out.append(_rectangle(names, top + 3, long, _BAR - 8, "ks-strong" if bar.strong else "ks-other"))
        out.append(_text(names + long + 8, top + 16, bar.text, "ks-ink", weight=weight))
        top += _BAR
    return top + 4, out


def _trend(part: Trend, width: int) -> tuple[int, list[str]]:
    out, top = [_text(0, 13, part.title, "ks-ink")], _LINE + 6
    most, values = max(part.values, default=0) or 1, list(part.values)
    step = width / max(1, len(values) - 1)
    points = " ".join(
        f"{place * step:.1f},{top + _TREND * (1 - value / most):.1f}" for place, value in enumerate(values)
    )
    if len(values) == 1:
        points = f"{points} {width},{top + _TREND * (1 - values[0] / most):.1f}"
    out.append(f'<polyline class="ks-trend" points="{points}"/>')
    out.append(
        f'<line x1="0" x2="{width}" y1="{top + _TREND}" y2="{top + _TREND}" stroke="currentColor" opacity=".3"/>'
    )
    return top + _TREND + 8, out


def _rectangle(left: float, top: float, width: float, height: float, name: str) -> str:
    if height < 0.1 or width < 0.1:  # nothing to see
        return ""
    return f'<rect class="{name}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(left: float, base: float, text: str, name: str, size: int = 13, weight: int = 400) -> str:
    return (
        f'<text class="{name}" x="{left:.1f}" y="{base:.1f}" font-size="{size}" font-weight="{weight}">'
        f"{_plain(text)}</text>"
    )


def _table(table: Table) -> str:
    cell = "padding:2px 12px 2px 0;text-align:"
    head = "".join(
        f'<th style="{cell}{"left" if not place else "right"};opacity:.75">{_plain(text)}</th>'
        for place, text in enumerate(table.header)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{cell}{"left" if not place else "right"}">{_plain(text)}</td>'
            for place, text in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<table style="border-collapse:collapse;margin:.5em 0">{body}</table>'


def _plain(text: str) -> str:
    """Return a text that cannot be taken for markup, without the characters that XML forbids."""
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))
