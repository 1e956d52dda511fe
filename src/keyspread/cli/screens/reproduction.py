"""What `keyspread reproduce` shows: a row for each claim of the paper, with its verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.experiments.figure_result import FigureResult

_MARKS = {"holds": ("✓", "ok", "green"), "holds in part": ("◐", "~~", "yellow"), "does not hold": ("✗", "NO", "red")}


def show(reproduced: "Sequence[FigureResult]", page: str, simulations: int) -> None:
    """Print the verdicts for people."""
    out = layout.console()
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for title in ("", "where", "claim", "found"):
        table.add_column(title, no_wrap=title in ("", "where"))
    verdicts = [verdict for figure in reproduced for verdict in figure.verdicts]
    plain = 0 if layout.can_print(out, "✓◐✗") else 1
    for verdict in verdicts:
        *signs, colour = _MARKS[verdict.outcome]
        table.add_row(
            Text(signs[plain], colour), verdict.where.split(",")[0], Text(verdict.claim), Text(verdict.measured)
        )
    out.print()
    out.print(table)
    out.print()
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in _MARKS}
    summary = ", ".join(f"{number} {_plural(outcome, number)}" for outcome, number in counts.items() if number)
    out.print(Text(f"{layout.many(len(verdicts), 'claim')}: {summary or 'none'}", "bold"))
    out.print(f"{layout.many(simulations, 'simulation')} run; report and plots in {page}", soft_wrap=True)
    out.print()


def _plural(outcome: str, number: int) -> str:
    """'holds in part', 3 → 'hold in part'."""
    return outcome if number == 1 else outcome.replace("holds", "hold").replace("does not", "do not")
