"""What `keyspread run` shows: three ways, a scheme beside others, or a stream batch by batch."""

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
    from keyspread.run.gain import Gain
    from keyspread.run.pipeline import JobResult
    from keyspread.spark.stream_watch import BatchSeen

_NO_GAIN = 1.1
"""A gain below this is none."""
_COURSE = 200
"""Batches whose imbalance is drawn, the most recent ones."""
_KEYS = 3
"""Hottest keys that a picture names."""


def show_gain(gain: "Gain") -> None:
    """Print the seconds of three ways, what keyspread gains, a bar per worker, and the hottest keys."""
    out = layout.console()
    out.print()
    layout.draw(gain.picture(), out)
    out.print()
    out.print(Text(gain_verdict(gain), "bold"))
    out.print(Text(_small_print(gain), layout.QUIET_STYLE))
    out.print()


def gain_verdict(gain: "Gain") -> str:
    """Return one or two sentences about what keyspread gained here, even if that is nothing."""
    if gain.workers == 1:
        return "There is one worker: nothing to spread."
    over_plain, over_salted = gain.gain(), gain.gain("salting by hand")
    if over_plain < 1:
        return f"keyspread took {1 / over_plain:.1f} × as long as plain groupBy: {_why_not(gain)}"
    if over_plain < _NO_GAIN:
        return f"keyspread is not faster than plain groupBy here: {_why_not(gain)}"
    if over_salted >= _NO_GAIN:
        salting = f", {over_salted:.1f} × as fast as salting by hand"
    elif over_salted >= 1 / _NO_GAIN:
        salting = ", as fast as salting by hand"
    else:
        salting = f"; salting by hand is {1 / over_salted:.1f} × as fast as keyspread"
    return f"keyspread is {over_plain:.1f} × as fast as plain groupBy{salting}."


def _why_not(gain: "Gain") -> str:
    busiest = gain.loads["plain groupBy"].busiest
    if gain.work.kind == "none":
        return "without work per row there is nothing to gain."
    if busiest < 1.5:
        return f"no key is hot (the busiest worker has {busiest:.2f} × its even share)."
    if gain.work.kind == "cpu" and gain.slots is not None:
        return "the cores of this machine are busy either way; on a cluster each worker has its own."
    return "there is too little work for what moving and merging cost."


def _small_print(gain: "Gain") -> str:
    rounds = len(gain.rounds["keyspread"])
    slots = "" if gain.slots in (None, gain.workers) else f" {layout.many(gain.slots or 0, 'slot')} here."
    return f"Median of {layout.many(rounds, 'round')}, taking turns, on this machine.{slots} All answers were the same."


def show_scheme(result: "JobResult") -> None:
    """Print the scheme beside others, a bar per worker, and the hottest keys."""
    out = layout.console()
    out.print()
    layout.draw(result.picture(), out)
    out.print()
    out.print(Text(scheme_verdict(result), "bold"))
    durations = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items())
    out.print(Text(durations, layout.QUIET_STYLE))
    out.print()


def scheme_verdict(result: "JobResult") -> str:
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


# A stream: a live picture on a terminal, or a line of text per batch elsewhere.


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
