"""What people see: tables, bars and progress that fit 80 columns, with or without colour or Unicode."""

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
"""More workers than this are shown as a few ranks, busiest to idlest."""

_PATIENCE = 2.0
"""Seconds before a progress bar is worth its place."""


def console() -> Console:
    """Terminal or pipe for results; numbers are not coloured by chance."""
    return Console(highlight=False)


def note(message: str) -> None:
    """Say something beside the result, on stderr."""
    print("keyspread: note:", " ".join(message.split()), file=sys.stderr)


def many(number_of: int, thing: str) -> str:
    """'1 row', '2,000 rows', '3 batches'."""
    return f"{number_of:,} {thing}{'' if number_of == 1 else 'es' if thing.endswith('ch') else 's'}"


def facts(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """Two columns of names and values, side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=QUIET_STYLE)
    table.add_column(justify="right", min_width=12)
    table.add_column(style=QUIET_STYLE)
    table.add_column(justify="right", min_width=9)
    for row in rows:
        table.add_row(*row)
    return table


def verdicts(rows: Sequence[tuple[bool, bool, str, str, str]], screen: Console) -> Table:
    """One line a check (ok, needed, name, detail, remedy), its remedy below it where it failed."""
    good, bad, optional, do = ("✓", "✗", "–", "→") if can_print(screen, "✓✗–→") else ("ok", "NO", "-", "=>")
    table = Table.grid(padding=(0, 2))
    for well, needed, name, detail, remedy in rows:
        sign = Text(good, "green") if well else Text(bad, "bold red") if needed else Text(optional, QUIET_STYLE)
        table.add_row(sign, Text(name), Text(detail))
        if remedy and not well:
            table.add_row("", "", Text(f"{do} {remedy}", "yellow"))
    return table


def load_bars(head: Sequence[int], tail: Sequence[int], screen: Console, width: int = 48) -> Table:
    """One bar a worker, its head messages before its tail messages; a mark where an even share would end.

    Over MOST_ROWS workers, one bar for each of some ranks instead.
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
    """Head and tail loads of several schemes, a bar a worker and scheme, all on one scale; a mark at an even share.

    Over MOST_ROWS workers, a bar for each of some ranks instead: then the workers of a row differ between schemes.
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
            one = ranked[name][row][1]
            load = int(totals[name][one])
            bar = _bar(int(head[one]), load, most, width, even, signs)
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


def bar_legend(screen: Console) -> Text:
    """Name what the two shades and the mark mean."""
    full, light, mark = _bar_signs(screen)
    return Text.assemble(
        (full, HEAD_STYLE),
        " hot keys  ",
        (light, TAIL_STYLE),
        " other keys  ",
        (mark, QUIET_STYLE),
        " even share",
    )


def _rows(loads: Sequence[int]) -> list[tuple[str, int]]:
    """Choose the workers that get a bar, each with its rank where not all are shown."""
    if len(loads) <= MOST_ROWS:
        return [("", worker) for worker in range(len(loads))]
    order = sorted(range(len(loads)), key=lambda worker: loads[worker])
    last = len(order) - 1
    shares = {"p90": 0.9, "p75": 0.75, "median": 0.5, "p25": 0.25, "p10": 0.1}
    rows = [("busiest", order[-1]), ("2nd", order[-2]), ("3rd", order[-3])]
    rows += [(name, order[round(last * share)]) for name, share in shares.items()]
    return [*rows, ("idlest", order[0])]


def sparkline(values: Sequence[float], screen: Console, width: int = 50) -> str:
    """Course of positive values over time, on a log scale; the lowest mark also stands for zero."""
    marks = "▁▂▃▄▅▆▇█" if can_print(screen, "▁▂▃▄▅▆▇█") else "_.-~=+*#"
    if len(values) > width:
        # The worst of each stretch, so that no peak is lost.
        borders = [len(values) * column // width for column in range(width + 1)]
        values = [max(values[start:stop]) for start, stop in pairwise(borders)]
    positive = [value for value in values if value > 0]
    if not positive:
        return marks[0] * len(values)
    low, high = math.log(min(positive)), math.log(max(positive))
    span = max(high - low, math.log(2))  # hardly any change shall look like hardly any
    return "".join(
        marks[round((len(marks) - 1) * (math.log(value) - low) / span)] if value > 0 else marks[0] for value in values
    )


@contextmanager
def late_progress(doing: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Progress bar on stderr, shown after two seconds and leaving no trace; None if nobody is watching."""
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
    task = bar.add_task(doing, total=total)
    begun = time.monotonic()

    def update(done: int) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and time.monotonic() - begun > _PATIENCE:
            bar.start()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def time_left(screen: Console | None, doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """Progress bar for what takes minutes, with the time left, leaving no trace; None if nobody is watching."""
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
    task = bar.add_task(doing, total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def steps(screen: Console | None, total: int) -> Iterator[Callable[[str], None]]:
    """Tell which of some steps is under way, with a spinner, leaving no trace; nothing if nobody is watching."""
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
    begun = -1

    def begin(step: str) -> None:
        nonlocal begun
        begun += 1
        bar.update(task, description=f"{step:<20}", completed=begun)

    task = bar.add_task("", total=total)
    with bar:
        yield begin


def can_print(screen: Console, text: str) -> bool:
    """Whether a terminal knows these characters."""
    try:
        text.encode(screen.encoding)
    except UnicodeEncodeError:
        return False
    return True
