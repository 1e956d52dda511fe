"""Code that the benchmarks share: timing, tables with verdicts, arguments and the real streams."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NoReturn

from rich.console import Console
from rich.table import Table

REAL_STREAMS = ("words", "cashtags", "flights3m_origin")
console = Console(width=100)


def side_by_side(
    runs: Mapping[str, Callable[[], object]], repeat: int = 5, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the shortest time of each run in seconds: what other processes add is noise.

    The runs take turns, so that a slow moment of the machine affects all of them.
    """
    for run in runs.values():
        run()  # compile, load, fill caches
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            begin = clock()
            run()
            seconds[name].append(clock() - begin)
    return {name: min(values) for name, values in seconds.items()}


def in_rounds(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each run in every round. The runs take turns, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for counts in [False] + [True] * rounds:
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if counts:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], name: str, base: str) -> float:
    """Return the median over the rounds of one run's time divided by another's: a slow moment affects both."""
    return median(own / other for own, other in zip(seconds[name], seconds[base], strict=True))


def verdict(holds: bool) -> str:
    """Return a label that says whether a bar is reached."""
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


def numbers(**defaults: int) -> list[int]:
    """Return the command line's numbers (`1e6` is one), in the order of the parameters, or exit if one is wrong."""
    given = sys.argv[1:]
    names = " ".join(f"[{name.upper()}]" for name in defaults)
    if len(given) > len(defaults):
        fail(f"{Path(sys.argv[0]).stem} takes at most these arguments: {names or 'none'}; got {' '.join(given)}")
    values = list(defaults.values())
    for index, (name, text) in enumerate(zip(defaults, given, strict=False)):
        try:
            values[index] = int(float(text))
        except (ValueError, OverflowError):
            values[index] = 0
        if values[index] < 1:
            fail(f"{name} must be a whole number of at least 1, got {text!r}")
    return values


def real_stream(name: str) -> Path:
    """Return the file of a real stream, or exit if it is missing."""
    path = data_file(name)
    if path is None:
        fail("this benchmark reads real streams: set KEYSPREAD_DATA to the folder that has them")
    if not path.exists():
        fail(f"this benchmark reads {path}, which does not exist: set KEYSPREAD_DATA to the folder that has it")
    return path


def real_streams() -> dict[str, Path]:
    """Return the files of the real streams that exist, and print which ones are left out."""
    files = {name: data_file(f"{name}.tsv.gz") for name in REAL_STREAMS}
    found = {name: path for name, path in files.items() if path is not None and path.exists()}
    missing = [name for name in REAL_STREAMS if name not in found]
    if missing:
        console.print(f"left out: {', '.join(missing)}; set KEYSPREAD_DATA to the folder that has the real streams")
    return found


def data_file(name: str) -> Path | None:
    """Return the path of a file in the folder KEYSPREAD_DATA, or None if the variable is not set."""
    folder = os.environ.get("KEYSPREAD_DATA")
    return Path(folder) / name if folder else None


def fail(line: str) -> NoReturn:
    """Print one line and exit with code 2."""
    print(line, file=sys.stderr)
    raise SystemExit(2)
