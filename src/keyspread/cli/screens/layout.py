"""Parts of screens: tables, bars and progress that fit 80 columns, with or without colour or Unicode."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

HEAD_STYLE, TAIL_STYLE, QUIET_STYLE = "dark_orange3", "steel_blue1", "bright_black"
MOST_ROWS = 20
"""Of more workers than this, only a few ranks are shown, from the busiest to the idlest."""

_PATIENCE = 2.0
"""Seconds before a progress bar appears."""


def console() -> Console:
    """Return the console for results: a terminal or a pipe, without automatic colours for numbers."""
    return Console(highlight=False)


def note(message: str) -> None:
    """Print a note on stderr, apart from the result."""
    print("keyspread: note:", " ".join(message.split()), file=sys.stderr)


def many(number_of: int, thing: str) -> str:
    """Return a number with its noun: '1 row', '2,000 rows', '3 batches'."""
    return f"{number_of:,} {thing}{'' if number_of == 1 else 'es' if thing.endswith('ch') else 's'}"


def facts(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """Return a table with two columns of names and values, side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=QUIET_STYLE)
    table.add_column(justify="right", min_width=12)
    table.add_column(style=QUIET_STYLE)
    table.add_column(justify="right", min_width=9)
    for row in rows:
        table.add_row(*row)
    return table


def plain_table(title: str, numbers: Sequence[str], first: int) -> Table:
    """Return a table without lines: a column of names, at least `first` wide, and columns of numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=QUIET_STYLE, pad_edge=False)
    table.add_column(title, min_width=first, max_width=40, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals, or with an exponent where those would be zero."""
    return f"{100 * share:.2f} %" if share >= 1e-4 or not share else f"{100 * share:.1e} %"


def verdicts(rows: Sequence[tuple[bool, bool, str, str, str]], screen: Console) -> Table:
    """Return a table with one row per check (ok, needed, name, detail, remedy); a failed one has its remedy below."""
    good, bad, optional, do = ("✓", "✗", "–", "→") if can_print(screen, "✓✗–→") else ("ok", "NO", "-", "=>")
    table = Table.grid(padding=(0, 2))
    for ok, needed, name, detail, remedy in rows:
        sign = Text(good, "green") if ok else Text(bad, "bold red") if needed else Text(optional, QUIET_STYLE)
        table.add_row(sign, Text(name), Text(detail))
        if remedy and not ok:
            table.add_row("", "", Text(f"{do} {remedy}", "yellow"))
    return table


def load_bars(head: Sequence[int], tail: Sequence[int], screen: Console, width: int = 48) -> Table:
    """Return one bar per worker: messages of hot keys, then of other keys, and a mark at an even share.

    With more than MOST_ROWS workers, only some ranks have a bar.
    """
    signs = _bar_signs(screen)
    loads = [above + below for above, below in zip(head, tail, strict=True)]
    total, most = max(1, sum(loads)), max(1, *loads)
    even = round(width * sum(loads) / len(loads) / most)
    table = Table.grid(padding=(0, 1))
    table.add_column(style=QUIET_STYLE, no_wrap=True)
    table.add_column(justify="right", style=QUIET_STYLE, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for rank, worker in _rows(loads):
        bar = _bar(head[worker], loads[worker], most, width, even, signs)
        table.add_row(rank, f"worker {worker}", bar, f"{100 * loads[worker] / total:.2f} %")
    return table


def bars_side_by_side(
    loads: Mapping[str, tuple[Sequence[int], Sequence[int]]], screen: Console, width: int = 23
) -> Table:
    """Return the loads (hot keys, other keys) of several schemes: a bar per worker and scheme, all on one scale.

    With more than MOST_ROWS workers, only some ranks have a bar; a row then shows different workers for each scheme.
    """
    signs = _bar_signs(screen)
    totals = {name: [a + b for a, b in zip(head, tail, strict=True)] for name, (head, tail) in loads.items()}
    most = max(1, *(max(total) for total in totals.values()))
    first = next(iter(totals.values()))
    even = round(width * sum(first) / len(first) / most)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=QUIET_STYLE, pad_edge=False)
    table.add_column("", style=QUIET_STYLE, no_wrap=True)
    for name in loads:
        table.add_column(name, no_wrap=True)
        table.add_column("", justify="right", no_wrap=True, min_width=9)
    ranked = {name: _rows(total) for name, total in totals.items()}
    for row, (rank, worker) in enumerate(next(iter(ranked.values()))):
        cells: list[Text | str] = [rank or f"worker {worker}"]
        for name, (head, _) in loads.items():
            ranked_worker = ranked[name][row][1]
            load = int(totals[name][ranked_worker])
            bar = _bar(int(head[ranked_worker]), load, most, width, even, signs)
            cells += [bar, f"{100 * load / max(1, sum(totals[name])):.2f} % "]
        table.add_row(*cells)
    return table


def _bar_signs(screen: Console) -> tuple[str, str, str]:
    return ("█", "▒", "│") if can_print(screen, "█▒│") else ("#", "=", "|")


def _bar(head: int, load: int, most: int, width: int, even: int, signs: tuple[str, str, str]) -> Text:
    full, light, mark = signs
    head_end, end = round(width * head / most), round(width * load / most)
    cells = [(full, HEAD_STYLE)] * head_end + [(light, TAIL_STYLE)] * (end - head_end)
    cells += [(" ", "")] * (width + 1 - len(cells))
    if end <= even:
        cells[even] = (mark, QUIET_STYLE)
    return Text.assemble(*cells)


def bar_legend(screen: Console, hot_keys: bool = True) -> Text:
    """Return what the shades and the mark mean; without `hot_keys` there is one shade, for all keys."""
    full, light, mark = _bar_signs(screen)
    even = ((mark, QUIET_STYLE), " even share")
    if not hot_keys:
        return Text.assemble((light, TAIL_STYLE), " rows  ", *even)
    return Text.assemble((full, HEAD_STYLE), " hot keys  ", (light, TAIL_STYLE), " other keys  ", *even)


def _rows(loads: Sequence[int]) -> list[tuple[str, int]]:
    """Return the workers that get a bar, each with its rank where not all are shown."""
    if len(loads) <= MOST_ROWS:
        return [("", worker) for worker in range(len(loads))]
    order = sorted(range(len(loads)), key=lambda worker: loads[worker])
    last = len(order) - 1
    shares = {"p90": 0.9, "p75": 0.75, "median": 0.5, "p25": 0.25, "p10": 0.1}
    rows = [("busiest", order[-1]), ("2nd", order[-2]), ("3rd", order[-3])]
    rows += [(name, order[round(last * share)]) for name, share in shares.items()]
    return [*rows, ("idlest", order[0])]


def sparkline(values: Sequence[float], screen: Console, width: int = 50) -> str:
    """Return values over time as one line of marks, on a log scale; the lowest mark also stands for zero."""
    marks = "▁▂▃▄▅▆▇█" if can_print(screen, "▁▂▃▄▅▆▇█") else "_.-~=+*#"
    if len(values) > width:
        # Keep the largest value of each section, so that no peak is lost.
        borders = [len(values) * column // width for column in range(width + 1)]
        values = [max(values[start:stop]) for start, stop in pairwise(borders)]
    positive = [value for value in values if value > 0]
    if not positive:
        return marks[0] * len(values)
    low, high = math.log(min(positive)), math.log(max(positive))
    span = max(high - low, math.log(2))  # so that a tiny change looks tiny
    return "".join(
        marks[round((len(marks) - 1) * (math.log(value) - low) / span)] if value > 0 else marks[0] for value in values
    )


@contextmanager
def late_progress(activity: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Yield the update function of a progress bar on stderr, or None if stderr is not a terminal.

    The bar appears after two seconds and disappears at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(activity, total=total)
    started = time.monotonic()

    def update(done: int) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def time_left(screen: Console | None, activity: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield the update function of a progress bar with the time left, or None without a screen.

    It is meant for work of several minutes, and disappears at the end.
    """
    if screen is None:
        yield None
        return
    bar = Progress(
        SpinnerColumn("dots" if can_print(screen, "⠋") else "line"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        speed_estimate_period=600,
    )
    task = bar.add_task(activity, total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def steps(screen: Console | None, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the current step beside a spinner; without a screen it does nothing.

    The line disappears at the end.
    """
    if screen is None:
        yield lambda step: None
        return
    bar = Progress(
        SpinnerColumn("dots" if can_print(screen, "⠋") else "line"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
    )
    done = -1

    def begin(step: str) -> None:
        nonlocal done
        done += 1
        bar.update(task, description=f"{step:<20}", completed=done)

    task = bar.add_task("", total=total)
    with bar:
        yield begin


def can_print(screen: Console, text: str) -> bool:
    """Return whether the screen's encoding has these characters."""
    try:
        text.encode(screen.encoding)
    except UnicodeEncodeError:
        return False
    return True
