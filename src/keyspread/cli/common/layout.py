"""What all screens are made of: notes, tables, pictures and progress, and the JSON that machines get instead."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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

from keyspread.drawing import text
from keyspread.drawing.picture import Picture

FORMAT = 1
"""Version of all JSON that the commands print. It grows when a name is removed or changes its meaning."""


def print_json(content: Mapping[str, Any], *, type: str | None = None) -> None:
    """Print one object on one line: `format` first, then `type` if given, then the content."""
    names = {"format": FORMAT} if type is None else {"format": FORMAT, "type": type}
    print(json.dumps({**names, **content, **names}, default=str, ensure_ascii=False), flush=True)


# Parts of screens fit 80 columns, with or without colour or Unicode.


HEAD_STYLE, TAIL_STYLE, QUIET_STYLE = "dark_orange3", "steel_blue1", "bright_black"
MOST_COLUMNS = 120
"""A picture is never wider than this."""
_STYLES = {
    "title": "bold",
    "quiet": QUIET_STYLE,
    "hot": HEAD_STYLE,
    "tail": TAIL_STYLE,
    "strong": "bold green4",
    "other": "red3",
}
"""The styles of a picture, as rich names them."""

_PATIENCE = 2.0
"""Seconds before a progress bar appears."""


def console() -> Console:
    """Return the console for results: a terminal or a pipe, without automatic colours for numbers."""
    return Console(highlight=False)


def note(message: str) -> None:
    """Print a note on stderr, apart from the result."""
    print("keyspread: note:", " ".join(message.split()), file=sys.stderr)


def written(*paths: str | None) -> None:
    """Print which files and tables were written."""
    for path in filter(None, paths):
        console().print(Text(f"Written: {path}"), soft_wrap=True)


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


def draw(picture: Picture, screen: Console) -> None:
    """Print a picture, as wide as the screen but at most `MOST_COLUMNS`."""
    for line in styled(picture, screen, min(screen.width, MOST_COLUMNS)):
        # Not wrapped: the lines are short enough, and a terminal that lies about its width keeps them whole.
        screen.print(line, soft_wrap=True)


def styled(picture: Picture, screen: Console, width: int) -> Iterator[Text]:
    """Yield the lines of a picture with colours, in characters that the screen can show."""
    ascii_only = not can_print(screen, "█▒│▁×…")
    for line in text.lines(picture, width, ascii_only=ascii_only):
        yield Text.assemble(*((piece, _STYLES.get(style, style)) for piece, style in line))


def sparkline(values: Sequence[float], screen: Console, width: int = 50) -> str:
    """Return values over time as one line of marks that the screen can show."""
    marks = text.sparkline(values, width)
    return marks if can_print(screen, marks) else marks.translate(text.ASCII)


@contextmanager
def late_progress(activity: str, total: int, screen: Console | None = None) -> Iterator[Callable[..., None] | None]:
    """Yield the update function of a progress bar on the screen, else on stderr; None if nobody is watching.

    The bar appears after two seconds and disappears at the end.
    """
    if screen is None and not sys.stderr.isatty():
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen or Console(stderr=True),
        transient=True,
        speed_estimate_period=600,
    )
    task = bar.add_task(activity, total=total)
    started = time.monotonic()

    def update(done: int, total: int | None = None) -> None:
        bar.update(task, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


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
