"""The report: one page that needs nothing but a browser, and beside it every picture and table as a file of its own.

The same figures give the same bytes. What may be changed here: what a reader sees. How a plot looks is in `style.py`,
how the page looks in `page.html.jinja`.
"""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from keyspread.errors import InputError
from keyspread.experiments.outcome import Reproduced
from keyspread.experiments.verdict import Outcome, Verdict
from keyspread.report import style

SYMBOLS = {Outcome.HOLDS: "✓", Outcome.IN_PART: "◐", Outcome.FAILS: "✗"}
ROWS_SHOWN = 40
"""Of a table; all rows are in its CSV file."""
WIDE = 7.0
"""Inches from which on a picture takes the whole width, with the text below."""


def write_report(folder: str | os.PathLike[str], made: Sequence[Reproduced], about: Mapping[str, str]) -> Path:
    """Write report.html, figures/, tables/ and verdicts.json to this folder, and give the path of the page.

    `about` is shown at the end: scale, seeds, versions, command line, … by name.
    """
    target = Path(folder)
    sections = [_Section.of(one) for one in made]
    page = _template().render(
        sections=sections,
        summary=_summary(made),
        about=about,
        symbols=SYMBOLS,
        kinds={outcome: outcome.name.lower() for outcome in Outcome},
    )
    try:
        for name in ("figures", "tables"):
            (target / name).mkdir(parents=True, exist_ok=True)
        for section in sections:
            section.write(target)
        _write(target / "verdicts.json", json.dumps(to_json(made), ensure_ascii=False, indent=2) + "\n")
        _write(target / "report.html", page)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"cannot write the report to {os.fspath(folder)!r}: {reason}; name another folder") from error
    return target / "report.html"


def to_json(made: Sequence[Reproduced]) -> dict[str, Any]:
    """Give all verdicts as plain values, ready for JSON: how many of each outcome, then figure by figure."""
    verdicts = [verdict for one in made for verdict in one.verdicts]
    return {
        "claims": len(verdicts),
        "outcomes": {outcome.value: _count(verdicts, outcome) for outcome in Outcome},
        "figures": [
            {
                "name": one.figure.name,
                "label": one.figure.label,
                "title": one.figure.title,
                "runs": one.runs,
                "rows": len(one.table),
                "verdicts": [verdict.to_dict() for verdict in one.verdicts],
            }
            for one in made
        ],
    }


def _count(verdicts: Sequence[Verdict], outcome: Outcome) -> int:
    return sum(verdict.outcome == outcome for verdict in verdicts)


def _summary(made: Sequence[Reproduced]) -> str:
    """Say it in one line: 23 claims: 20 hold, 2 in part, 1 does not."""
    verdicts = [verdict for one in made for verdict in one.verdicts]
    holds, in_part, fails = (_count(verdicts, outcome) for outcome in Outcome)
    return (
        f"{len(verdicts)} {'claim' if len(verdicts) == 1 else 'claims'}: {holds} {'holds' if holds == 1 else 'hold'}, "
        f"{in_part} in part, {fails} {'does' if fails == 1 else 'do'} not"
    )


@dataclass(frozen=True)
class _Section:
    """What the page shows of one figure, and the files beside it."""

    one: Reproduced
    id: str
    svg: str | None
    png: bytes | None

    @classmethod
    def of(cls, one: Reproduced) -> "_Section":
        svg = png = None
        if one.picture is not None:
            svg, png = style.as_svg(one.picture), style.as_png(one.picture)
        return cls(one, _file_name(one.figure.name), svg, png)

    def write(self, target: Path) -> None:
        _write(target / self.csv_path, self.one.table.to_csv(index=False, lineterminator="\n"))
        if self.svg is not None and self.png is not None:
            _write(target / self.svg_path, self.svg)
            (target / self.png_path).write_bytes(self.png)

    @property
    def csv_path(self) -> str:
        return f"tables/{self.id}.csv"

    @property
    def svg_path(self) -> str:
        return f"figures/{self.id}.svg"

    @property
    def png_path(self) -> str:
        return f"figures/{self.id}.png"

    @property
    def inline_svg(self) -> Markup:
        return Markup(_inline(self.svg or "", self.id, self.heading))

    @property
    def wide(self) -> bool:
        return self.one.picture is not None and self.one.picture.get_figwidth() > WIDE

    @property
    def width(self) -> int:
        """Give it in CSS pixels; a little larger than on paper, as screens are read from further away."""
        return round((self.one.picture.get_figwidth() if self.one.picture is not None else 0) * 105)

    @property
    def heading(self) -> str:
        return f"{self.one.figure.label}. {self.one.figure.title}"

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """Give the name of each column, and whether it has numbers."""
        return [
            (re.sub(" percent$", " (%)", str(name).replace("_", " ")), kind.kind in "iuf")
            for name, kind in self.one.table.dtypes.items()
        ]

    @property
    def rows(self) -> list[list[tuple[str, bool]]]:
        """Give the text of each cell, and whether its column has numbers."""
        table = self.one.table.head(ROWS_SHOWN)
        return [
            [(_cell(value), number) for value, (_, number) in zip(row, self.columns, strict=True)]
            for row in table.itertuples(index=False, name=None)
        ]


def _cell(value: Any) -> str:
    """Write a value so that people can read it.

    >>> _cell(12345), _cell(0.000123456), _cell(float("nan")), _cell("W-C"), _cell(True), _cell([1, 2.5])
    ('12,345', '0.0001235', '–', 'W-C', 'yes', '1, 2.5')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(_cell(item) for item in value)
    if pd.isna(value):
        return "–"
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if 1000 <= abs(float(value)) < math.inf else f"{value:.4g}"
    return str(value)


def _set(text: str) -> Markup:
    """Set a text for the page: escaped, numbers not torn from their signs, p_1 with a lowered 1.

    >>> str(_set("p_1 < 3 % at z = 1.0"))
    'p<sub>1</sub>\xa0&lt;\xa03\xa0% at z\xa0=\xa01.0'
    """
    text = re.sub(r" ([=<>≤≥≈]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    text = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
    return Markup(re.sub(r"\b([A-Za-z])_([a-z0-9])\b", r"\1<sub>\2</sub>", str(Markup.escape(text))))


def _sentence(text: str) -> Markup:
    """Set a text with a full stop at its end, whether it had one or not."""
    return _set(text.rstrip(". ") + ".")


def _file_name(name: str) -> str:
    """Make a name for files and anchors: figure-03 of 3, and table-1 as it is."""
    return f"figure-{int(name):02d}" if name.isdecimal() else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _inline(svg: str, prefix: str, label: str) -> str:
    """Make an SVG file fit to stand in a page with others: ids of its own, no header, no rules for the whole page."""
    svg = svg[svg.index("<svg") :]
    for dispensable in (r"<metadata>.*?</metadata>", r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", r"<!--.*?-->"):
        svg = re.sub(dispensable, "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid=")', rf"\1{prefix}-", svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", svg)
    head, body = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    return f'<svg {view.group() if view else ""} role="img" aria-label="{Markup.escape(label)}">{body}'


def _template() -> jinja2.Template:
    source = files("keyspread.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"set": _set, "sentence": _sentence}
    return made.from_string(source)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
