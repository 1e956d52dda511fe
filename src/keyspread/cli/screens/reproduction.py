"""What `keyspread reproduce` shows: a row for each claim of the paper, with its verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from keyspread.cli.common import layout
from keyspread.paper.figures.figure import summary

if TYPE_CHECKING:
    from keyspread.paper.figures.figure import FigureResult

_MARKS = {"holds": ("✓", "ok", "green"), "holds in part": ("◐", "~~", "yellow"), "does not hold": ("✗", "NO", "red")}


def show(reproduced: "Sequence[FigureResult]", page: str, simulations: int) -> None:
    """Print the verdicts for people."""
    out = layout.console()
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for title in ("", "where", "claim", "found"):
        table.add_column(title, no_wrap=title in ("", "where"))
    verdicts = [verdict for figure in reproduced for verdict in figure.verdicts]
    plain = 0 if layout.can_print(out, "✓◐✗·") else 1
    for verdict in verdicts:
        *signs, colour = _MARKS[verdict.outcome]
        claim = Text(verdict.claim)
        if not verdict.is_claim:  # a check of our own set-up, which does not count
            signs, colour = ["·", "--"], layout.QUIET_STYLE
            claim = Text(f"{verdict.claim} (not counted: {verdict.check})", layout.QUIET_STYLE)
        table.add_row(Text(signs[plain], colour), verdict.where.split(",")[0], claim, Text(verdict.measured))
    out.print()
    out.print(table)
    out.print()
    out.print(Text(summary(verdicts), "bold"))
    out.print(f"{layout.many(simulations, 'simulation')} run; report and plots in {page}", soft_wrap=True)
    out.print()
