"""What `keyspread run --streaming` shows: a live picture on a terminal, or a line of text per batch elsewhere."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from keyspread.cli.input_stream import clean
from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.spark.streaming.stream_watch import BatchSeen

_COURSE = 200
"""Batches whose imbalance is drawn, the most recent ones."""
_NARROW, _WIDE = 60, 120
"""Smallest and largest width of the picture, in columns."""
_KEY_WIDTH = 14


class BatchLines:
    """One line per batch, with the names of the columns above the first."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._has_header = False

    def add(self, seen: "BatchSeen") -> None:
        """Print the batch."""
        if not self._has_header:
            self._has_header = True
            self._print("batch", "rows", "seconds", "busiest", "imbalance", "hot keys", "hottest key")
        key, rows = seen.hottest[0] if seen.hottest else ("", 0)
        hottest = f"{_key(key)[:10]} {_percent(rows, seen.rows)}" if rows else ""
        busiest = f"{_busiest(seen):.2f} ×" if layout.can_print(self._out, "×") else f"{_busiest(seen):.2f} x"
        counted = (f"{seen.batch:,}", f"{seen.rows:,}", f"{seen.seconds:.2f}", busiest, f"{seen.imbalance:.1e}")
        self._print(*counted, "?" if seen.head is None else f"{seen.head:,}", hottest)

    def _print(self, batch: str, rows: str, *rest: str) -> None:
        seconds, busiest, imbalance, head, hottest = rest
        line = f"{batch:>7} {rows:>11} {seconds:>7} {busiest:>7} {imbalance:>9} {head:>8} {hottest}"
        self._out.print(Text(line.rstrip()), soft_wrap=True)


class LivePicture:
    """The last batch, the imbalance over time, a bar per worker and the hottest keys.

    With 16 workers it fits 80 columns and 24 lines.
    """

    def __init__(self, title: str, out: Console) -> None:
        self._title, self._out = title, out
        self._course: deque[float] = deque(maxlen=_COURSE)
        self._rows = 0
        self._last: BatchSeen | None = None

    def add(self, seen: "BatchSeen") -> None:
        """Add a batch to the picture."""
        self._course.append(seen.imbalance)
        self._rows += seen.rows
        self._last = seen

    def __rich__(self) -> RenderableType:
        """Return the picture of the latest batch."""
        title = Text(self._title, "bold", no_wrap=True, overflow="ellipsis")
        seen = self._last
        if seen is None:
            return Group(title, Text("waiting for the first rows", layout.QUIET_STYLE))
        return Group(title, self._counts(seen), Text(), *self._imbalance(seen), Text(), self._workers_and_keys(seen))

    def _counts(self, seen: "BatchSeen") -> Text:
        rate = seen.rows / seen.seconds if seen.seconds else 0
        text = f"batch {seen.batch:,}: {seen.rows:,} rows in {seen.seconds:.1f} s, {rate:,.0f} per second; "
        return Text(f"{text}{self._rows:,} in this run", layout.QUIET_STYLE, no_wrap=True, overflow="ellipsis")

    def _imbalance(self, seen: "BatchSeen") -> list[Text]:
        course = list(self._course)
        facts = f"now {seen.imbalance:.1e}, mean {sum(course) / len(course):.1e}, worst {max(course):.1e}"
        facts += "" if seen.head is None else f"; {seen.head:,} hot keys"
        line = layout.sparkline(course, self._out, self._width() - 1)
        line_of_facts = Text.assemble("imbalance ", (facts, layout.QUIET_STYLE), no_wrap=True, overflow="ellipsis")
        return [line_of_facts, Text(line, layout.TAIL_STYLE)]

    def _width(self) -> int:
        return min(max(self._out.width, _NARROW), _WIDE)

    def _workers_and_keys(self, seen: "BatchSeen") -> Table:
        loads = seen.loads.tolist()
        ranks = len(loads) > layout.MOST_ROWS
        names = (8 if ranks else 0) + len(f"worker {len(loads)}") + 1
        hottest = _hottest(seen)
        # The width that remains beside the names, '100.00 %' and the keys, each with a blank or two.
        bar = self._width() - names - 9 - 3 - (_KEY_WIDTH + 1 + 7 + 1)
        bars = layout.load_bars([0] * len(loads), loads, self._out, bar)
        mark = "│" if layout.can_print(self._out, "│") else "|"
        legend = Text(f"rows of {'some workers' if ranks else 'each worker'}, {mark} even share", layout.QUIET_STYLE)
        beside = Table.grid(padding=(0, 2))
        beside.add_column(min_width=names + bar + 1 + 9)  # so that nothing shifts from batch to batch
        beside.add_row(Group(legend, bars), hottest)
        return beside


@contextmanager
def draw_live(picture: LivePicture, out: Console) -> Iterator[None]:
    """Keep the picture on the terminal within the block; its last state stays."""
    with Live(picture, console=out, refresh_per_second=4, vertical_overflow="crop"):
        yield


def _hottest(seen: "BatchSeen") -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column("hottest keys", min_width=_KEY_WIDTH, max_width=_KEY_WIDTH, no_wrap=True, overflow="ellipsis")
    table.add_column("share", justify="right", no_wrap=True, min_width=7)
    for key, rows in seen.hottest:
        table.add_row(Text(_key(key)), _percent(rows, seen.rows))
    return table


def _key(key: str | None) -> str:
    return "null" if key is None else clean(key) or repr(key)


def _percent(rows: int, all_rows: int) -> str:
    return f"{100 * rows / max(1, all_rows):.1f} %"


def _busiest(seen: "BatchSeen") -> float:
    """Return the rows of the busiest worker as a multiple of an even share."""
    return float(seen.loads.max() * seen.loads.size / max(1, seen.rows))
