"""What people see: tables, bars and progress that fit 80 columns, with or without colour or Unicode."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
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
    good, bad, optional = ("✓", "✗", "–") if _can_print(screen, "✓✗–") else ("ok", "NO", "-")
    table = Table.grid(padding=(0, 2))
    for well, needed, name, detail, remedy in rows:
        sign = Text(good, "green") if well else Text(bad, "bold red") if needed else Text(optional, QUIET_STYLE)
        table.add_row(sign, Text(name), Text(detail))
        if remedy and not well:
            table.add_row("", "", Text(remedy, "yellow"))
    return table


def load_bars(head: Sequence[int], tail: Sequence[int], screen: Console, width: int = 48) -> Table:
    """One bar a worker, its head messages before its tail messages; a mark where an even share would end.

    Over MOST_ROWS workers, one bar for each of some ranks instead.
    """
    full, light, mark = ("█", "▒", "│") if _can_print(screen, "█▒│") else ("#", "=", "|")
    loads = [above + below for above, below in zip(head, tail, strict=True)]
    total, most = max(1, sum(loads)), max(1, *loads)
    even = round(width * sum(loads) / len(loads) / most)
    table = Table.grid(padding=(0, 1))
    table.add_column(style=QUIET_STYLE, no_wrap=True)
    table.add_column(justify="right", style=QUIET_STYLE, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for rank, worker in _rows(loads):
        head_end, end = round(width * head[worker] / most), round(width * loads[worker] / most)
        cells = [(full, HEAD_STYLE)] * head_end + [(light, TAIL_STYLE)] * (end - head_end)
        cells += [(" ", "")] * (width + 1 - len(cells))
        if end <= even:
            cells[even] = (mark, QUIET_STYLE)
        table.add_row(rank, f"worker {worker}", Text.assemble(*cells), f"{100 * loads[worker] / total:.2f} %")
    return table


def bar_legend(screen: Console) -> Text:
    """Name what the two shades and the mark mean."""
    full, light, mark = ("█", "▒", "│") if _can_print(screen, "█▒│") else ("#", "=", "|")
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
    marks = "▁▂▃▄▅▆▇█" if _can_print(screen, "▁▂▃▄▅▆▇█") else "_.-~=+*#"
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


def _can_print(screen: Console, text: str) -> bool:
    try:
        text.encode(screen.encoding)
    except UnicodeEncodeError:
        return False
    return True
