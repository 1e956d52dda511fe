"""What `keyspread compare` shows: a row for each scheme, the most even first, and which one to take."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.common import layout

if TYPE_CHECKING:
    from keyspread.evaluation.compare import Advice, Compared


def show(title: str, compared: "Sequence[Compared]", advice: "Advice") -> None:
    """Print the comparison for people."""
    from keyspread.evaluation.compare import RATE_INCLUDES, SHORTEST_TIMED, frontier

    out = layout.console()
    table = layout.plain_table("scheme", ("busiest", "in windows", "at the end", "replicas", "per key", "rate"), 5)
    base = next((result.rate for result in compared if result.scheme == "partial-key"), compared[0].rate)
    unbeaten = {result.scheme for result in frontier(compared)}
    mark = "•" if layout.can_print(out, "•") else "*"
    for result in sorted(compared, key=lambda result: (result.windowed_imbalance, result.replicas)):
        table.add_row(
            f"{mark if result.scheme in unbeaten else ' '} {result.scheme}",
            f"{result.busiest:.2f} ×",
            f"{result.windowed_imbalance:.1e}",
            f"{result.imbalance:.1e}",
            f"{result.replicas:,}",
            f"{result.replicas_per_key:.2f}",
            "–" if result.rate is None or base is None else f"{result.rate / base:.2f} ×",
            style="bold" if result.scheme == advice.scheme else "",
        )
    out.print()
    out.print(Text(title, "bold"))
    out.print()
    out.print(table)
    for line in (
        "busiest: load of the busiest worker, × an even share, mean over windows",
        "in windows, at the end: imbalance; per key: replicas per key",
        f"rate: messages per second, × partial-key; includes {RATE_INCLUDES}"
        if base is not None
        else f"rate: not shown for fewer than {SHORTEST_TIMED:,} messages",
        f"{mark} no other scheme is better in both imbalance and replicas",
    ):
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()
    out.print(Text(advice.text, "bold"))
    out.print()
