"""What `keyspread run --scheme` shows: the scheme beside others, a bar per worker, the hottest keys, a verdict."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from keyspread.cli.common import layout
from keyspread.drawing.picture import Part, Picture, Trend, of_loads
from keyspread.drawing.text import clean

if TYPE_CHECKING:
    from keyspread.run.pipeline import JobResult


def show(result: "JobResult") -> None:
    """Print the result for people."""
    out = layout.console()
    out.print()
    layout.draw(result.picture(), out)
    out.print()
    out.print(Text(verdict(result), "bold"))
    durations = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items())
    out.print(Text(durations, layout.QUIET_STYLE))
    out.print()


def verdict(result: "JobResult") -> str:
    """Return one sentence about what the scheme gained here, even if that is nothing."""
    chosen, key_grouping = result.outcomes[0], result.outcome("key")
    if result.workers == 1:
        return "There is one worker: nothing to spread."
    if key_grouping is None or chosen is key_grouping:
        if chosen.busiest < 1.1:
            return "Key grouping is even here: no other scheme can gain much."
        return f"One worker has {chosen.busiest:.1f} × its even share: --scheme planned would balance the load."
    ratio = key_grouping.loads.max() / max(1, chosen.loads.max())
    if ratio < 1.1:
        return "Key grouping would have been as even here: no key is hot enough to matter."
    return f"Key grouping would have kept one worker busy {ratio:.1f} × as long."


# What `keyspread run --streaming` shows: a live picture on a terminal, or a line of text per batch elsewhere.


if TYPE_CHECKING:
    from keyspread.spark.stream_watch import BatchSeen

_COURSE = 200
"""Batches whose imbalance is drawn, the most recent ones."""
_KEYS = 3
"""Hottest keys that a picture names."""


class BatchLines:
    """One line per batch, with the names of the columns above the first."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._has_header = False

    def add(self, seen: "BatchSeen", choices: int | None = None) -> None:
        """Print the batch; `choices` is the d of D-Choices."""
        if not self._has_header:
            self._has_header = True
            self._print("batch", "rows", "seconds", "busiest", "imbalance", "hot keys", "d", "hottest key")
        key, rows = seen.hottest[0] if seen.hottest else ("", 0)
        hottest = f"{_key(key, 10)} {_percent(rows, seen.rows)}" if rows else ""
        ratio = float(seen.loads.max() * seen.loads.size / max(1, seen.rows))  # busiest worker ÷ even share
        busiest = f"{ratio:.2f} ×" if layout.can_print(self._out, "×") else f"{ratio:.2f} x"
        counted = (f"{seen.batch:,}", f"{seen.rows:,}", f"{seen.seconds:.2f}", busiest, f"{seen.imbalance:.1e}")
        head, d = ("?" if number is None else f"{number:,}" for number in (seen.head, choices))
        self._print(*counted, head, "" if choices is None else d, hottest)

    def _print(self, batch: str, rows: str, *rest: str) -> None:
        seconds, busiest, imbalance, head, choices, hottest = rest
        line = f"{batch:>7} {rows:>11} {seconds:>7} {busiest:>7} {imbalance:>9} {head:>8} {choices:>4} {hottest}"
        self._out.print(Text(line.rstrip()), soft_wrap=True)


class LivePicture:
    """The last batch with its hottest keys, the imbalance over time, and a bar per worker.

    With 16 workers it fits 80 columns and 24 lines.
    """

    def __init__(self, title: str, out: Console) -> None:
        self._title, self._out = title, out
        self._course: deque[float] = deque(maxlen=_COURSE)
        self._rows = 0
        self._picture = Picture(title, "waiting for the first rows", [])

    def add(self, seen: "BatchSeen", choices: int | None = None) -> None:
        """Add a batch to the picture; `choices` is the d of D-Choices."""
        self._course.append(seen.imbalance)
        self._rows += seen.rows
        rate = seen.rows / seen.seconds if seen.seconds else 0
        counts = f"batch {seen.batch:,}: {seen.rows:,} rows in {seen.seconds:.1f} s, {rate:,.0f} per second; "
        counts += f"{self._rows:,} in this run"
        keys = ", ".join(f"{_key(key, 14)} {_percent(rows, seen.rows)}" for key, rows in seen.hottest[:_KEYS])
        course = list(self._course)
        facts = f"imbalance now {seen.imbalance:.1e}, mean {sum(course) / len(course):.1e}, worst {max(course):.1e}"
        facts += "" if seen.head is None else f"; {seen.head:,} hot keys"
        facts += "" if choices is None else f", d = {choices}"
        parts: list[Part] = [Trend(facts, course), of_loads("rows", seen.loads.tolist())]
        self._picture = Picture(self._title, f"{counts}; hottest: {keys}" if keys else counts, parts)

    def __rich__(self) -> RenderableType:
        """Return the picture of the latest batch."""
        width = min(self._out.width, layout.MOST_COLUMNS)
        lines = layout.styled(self._picture, self._out, width)
        return Group(*(Text("").append(line) if line else Text("") for line in lines))


@contextmanager
def draw_live(picture: LivePicture, out: Console) -> Iterator[None]:
    """Keep the picture on the terminal within the block; its last state stays."""
    with Live(picture, console=out, refresh_per_second=4, vertical_overflow="crop"):
        yield


def _key(key: str | None, most: int) -> str:
    text = "null" if key is None else clean(key) or repr(key)
    return text if len(text) <= most else text[: most - 1] + "…"


def _percent(rows: int, all_rows: int) -> str:
    return f"{100 * rows / max(1, all_rows):.1f} %"
