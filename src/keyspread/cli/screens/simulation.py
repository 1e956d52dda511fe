"""What `keyspread simulate` shows: imbalance and replicas, a bar for each worker, the imbalance over time."""

from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.common import layout
from keyspread.drawing.picture import Picture

if TYPE_CHECKING:
    from keyspread.evaluation.simulate import Simulation


def show(title: str, result: "Simulation") -> None:
    """Print the result for people."""
    out = layout.console()
    out.print()
    where = f", {layout.many(result.workers, 'worker')}, {layout.many(result.sources, 'sender')}: {title}"
    out.print(Text.assemble((result.scheme, "bold"), where))
    out.print()
    out.print(layout.facts(_facts(result)))
    layout.draw(Picture("", "", result.picture().parts), out)
    out.print()


def _facts(result: "Simulation") -> list[tuple[str, str, str, str]]:
    choices = sorted(set(result.choices))
    used = str(choices[0]) if len(choices) == 1 else f"{choices[0]} to {choices[-1]}" if choices else "none"
    busiest = result.workers * max(result.loads.tolist()) / max(1, result.messages)
    return [
        ("messages", f"{result.messages:,}", "imbalance at the end", f"{result.imbalance:.2e}"),
        ("keys", f"{result.keys:,}", "mean over time", f"{result.mean_imbalance:.2e}"),
        ("share of a hot key, from", f"{result.threshold:.3g}", "mean per window", f"{result.windowed_imbalance:.2e}"),
        ("choices of a hot key", used, "busiest worker", f"{busiest:.2f} × even share"),
        ("replicas", f"{result.replicas:,}", "replicas per key", f"{result.replicas / max(1, result.keys):.2f}"),
        ("  of hot keys", f"{result.head_replicas:,}", "", ""),
    ]
