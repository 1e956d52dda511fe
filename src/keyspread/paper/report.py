"""The report: one HTML page that needs nothing but a browser, and every plot and table as a separate file.

The same results always give the same bytes. `style.py` has the look of the plots, `page.html.jinja` that of the page.
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
from keyspread.paper.figures import style
from keyspread.paper.figures.figure import FigureResult, Outcome, Verdict, count, summary

SYMBOLS = {Outcome.HOLDS: "✓", Outcome.IN_PART: "◐", Outcome.FAILS: "✗"}
ROWS_SHOWN = 40
"""Rows of a table that the page shows; its CSV file has all of them."""
WIDE = 7.0
"""A picture wider than this, in inches, takes the whole width of the page, with the text below."""


def write_report(folder: str | os.PathLike[str], results: Sequence[FigureResult], about: Mapping[str, str]) -> Path:
    """Write report.html, figures/, tables/, and verdicts.json to this folder; return the path of the page.

    `about` is shown at the end of the page: size, seeds, versions, command line, … by name.
    """
    target = Path(folder)
    sections = [_Section.of(result) for result in results]
    page = _template().render(
        sections=sections,
        summary=summary(all_verdicts(results)),
        about=about,
        symbols=SYMBOLS,
        kinds={outcome: outcome.name.lower() for outcome in Outcome},
    )
    try:
        for name in ("figures", "tables"):
            (target / name).mkdir(parents=True, exist_ok=True)
        for section in sections:
            section.write(target)
        published = {"size": about.get("size", ""), "seeds": about.get("seeds", ""), **to_json(results)}
        _write(target / "verdicts.json", json.dumps(published, ensure_ascii=False, indent=2) + "\n")
        _write(target / "report.html", page)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"cannot write the report to {os.fspath(folder)!r}: {reason}; name another folder") from error
    return target / "report.html"


def all_verdicts(results: Sequence[FigureResult]) -> list[Verdict]:
    """Return the verdicts of all figures, in their order."""
    return [verdict for result in results for verdict in result.verdicts]


def to_json(results: Sequence[FigureResult]) -> dict[str, Any]:
    """Return all verdicts as plain values, ready for JSON: the number of each outcome, then figure by figure."""
    verdicts = all_verdicts(results)
    outcomes = count(verdicts)
    return {
        "claims": sum(outcomes.values()),
        "checks": len(verdicts) - sum(outcomes.values()),
        "outcomes": {outcome.value: number for outcome, number in outcomes.items()},
        "figures": [
            {
                "name": result.figure.name,
                "label": result.figure.label,
                "title": result.figure.title,
                "runs": result.runs,
                "rows": len(result.table),
                "verdicts": [verdict.to_dict() for verdict in result.verdicts],
            }
            for result in results
        ],
    }


@dataclass(frozen=True)
class _Section:
    """The part of the page about one figure, and its files."""

    result: FigureResult
    id: str
    svg: str

    @classmethod
    def of(cls, result: FigureResult) -> "_Section":
        return cls(result, _file_name(result.figure.name), style.as_svg(result.picture))

    def write(self, target: Path) -> None:
        _write(target / self.csv_path, self.result.table.to_csv(index=False, lineterminator="\n"))
        _write(target / self.svg_path, self.svg)

    @property
    def csv_path(self) -> str:
        return f"tables/{self.id}.csv"

    @property
    def svg_path(self) -> str:
        return f"figures/{self.id}.svg"

    @property
    def inline_svg(self) -> Markup:
        return Markup(_inline(self.svg, self.id, self.heading))

    @property
    def wide(self) -> bool:
        return bool(self.result.picture.get_figwidth() > WIDE)

    @property
    def width(self) -> int:
        """Width of the picture in CSS pixels: a little larger than in print."""
        return round(self.result.picture.get_figwidth() * 105)

    @property
    def heading(self) -> str:
        return f"{self.result.figure.label}. {self.result.figure.title}"

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """Name of each column, and whether it holds numbers."""
        return [
            (re.sub(" percent$", " (%)", str(name).replace("_", " ")), kind.kind in "iuf")
            for name, kind in self.result.table.dtypes.items()
        ]

    @property
    def rows(self) -> list[list[tuple[str, bool]]]:
        """Text of each cell, and whether its column holds numbers."""
        table = self.result.table.head(ROWS_SHOWN)
        return [
            [(_cell(value), number) for value, (_, number) in zip(row, self.columns, strict=True)]
            for row in table.itertuples(index=False, name=None)
        ]


def _cell(value: Any) -> str:
    """Return a value as text for people.

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
    """Return a text as HTML: escaped, p_1 with a subscript, no line breaks around signs or inside names like D-C.

    >>> str(_set("p_1 < 3 % at z = 1.0"))
    'p<sub>1</sub>\xa0&lt;\xa03\xa0% at z\xa0=\xa01.0'
    >>> str(_set("D-Choices of --input"))
    '<span class="whole">D-Choices</span> of <span class="whole">--input</span>'
    """
    text = re.sub(r" ([=<>≤≥≈]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    text = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
    html = re.sub(r"\b([A-Za-z])_([a-z0-9])\b", r"\1<sub>\2</sub>", str(Markup.escape(text)))
    return Markup(re.sub(r"(--[a-z]+|\b[DW]-C\w*|\bRound-Robin\b)", r'<span class="whole">\1</span>', html))


def _sentence(text: str) -> Markup:
    """Return a text as HTML with exactly one full stop at its end."""
    return _set(text.rstrip(". ") + ".")


def _file_name(name: str) -> str:
    """Return the name of a figure's files and anchor: '3' → 'figure-03', 'memory' → 'memory'."""
    return f"figure-{int(name):02d}" if name.isdecimal() else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _inline(svg: str, prefix: str, label: str) -> str:
    """Return an SVG file as a part of a page: unique ids, no header, no style rules for the whole page."""
    svg = svg[svg.index("<svg") :]
    for unneeded in (r"<metadata>.*?</metadata>", r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", r"<!--.*?-->"):
        svg = re.sub(unneeded, "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid=")', rf"\1{prefix}-", svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", svg)
    head, body = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    return f'<svg {view.group() if view else ""} role="img" aria-label="{Markup.escape(label)}">{body}'


def _template() -> jinja2.Template:
    source = files("keyspread.paper").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"set": _set, "sentence": _sentence}
    return environment.from_string(source)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
