"""What the benchmarks share: timing side by side, and tables that end in a verdict."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

REAL_STREAMS = Path(__file__).resolve().parents[2] / "shared" / "data"
console = Console(width=100)


def side_by_side(runs: Mapping[str, Callable[[], object]], repeat: int = 5) -> dict[str, float]:
    """Give the least seconds of each run: what the machine adds on top is noise.

    Runs take turns, so that a slow moment hits all of them.
    """
    for run in runs.values():
        run()  # compile, load, fill caches
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(values) for name, values in seconds.items()}


def verdict(holds: bool) -> str:
    """Say whether a bar is reached."""
    return "[green]reached[/green]" if holds else "[red]missed[/red]"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in (columns[0], "verdict") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{cell:.2g}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)
    console.print()


def real_stream(name: str) -> Path:
    """Give the path of a real stream, or end with the reason why there is none."""
    path = REAL_STREAMS / name
    if not path.exists():
        raise SystemExit(f"{path} is not here: this benchmark needs the real streams of the developers' data folder")
    return path
