"""What `keyspread run` shows: the seconds of three ways, what keyspread gains, a bar per worker, the hottest keys."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.job.gain import Gain

_NO_GAIN = 1.1
"""A gain below this is none."""
_BAR_STYLES = {"plain groupBy": "red3", "salting by hand": "dark_orange3", "keyspread": "green4"}


def show(found: "Gain") -> None:
    """Print the result for people."""
    out = layout.console()
    out.print()
    for line in _headline(found):
        out.print(line)
    out.print()
    out.print(_seconds(found, out))
    out.print()
    out.print(layout.bar_legend(out))
    out.print(_bars(found, out))
    if found.hottest:
        out.print()
        out.print(_hottest(found))
    out.print()
    out.print(Text(verdict(found), "bold"))
    out.print(Text(_small_print(found), layout.QUIET_STYLE))
    out.print()


def verdict(found: "Gain") -> str:
    """Return one or two sentences about what keyspread gained here, even if that is nothing."""
    if found.workers == 1:
        return "There is one worker: nothing to spread."
    over_plain, over_salted = found.gain(), found.gain("salting by hand")
    if over_plain < 1:
        return f"keyspread took {1 / over_plain:.1f} × as long as plain groupBy: {_why_not(found)}"
    if over_plain < _NO_GAIN:
        return f"keyspread is not faster than plain groupBy here: {_why_not(found)}"
    if over_salted >= _NO_GAIN:
        salting = f", {over_salted:.1f} × as fast as salting by hand"
    elif over_salted >= 1 / _NO_GAIN:
        salting = ", as fast as salting by hand"
    else:
        salting = f"; salting by hand is {1 / over_salted:.1f} × as fast as keyspread"
    return f"keyspread is {over_plain:.1f} × as fast as plain groupBy{salting}."


def _why_not(found: "Gain") -> str:
    busiest = found.loads["plain groupBy"].busiest
    if found.work.kind == "none":
        return "without work per row there is nothing to gain."
    if busiest < 1.5:
        return f"no key is hot (the busiest worker has {busiest:.2f} × its even share)."
    if found.work.kind == "cpu" and found.slots is not None:
        return "the cores of this machine are busy either way; on a cluster each worker has its own."
    return "there is too little work for what counting and merging cost."


def _headline(found: "Gain") -> list[Text]:
    timed = f"{layout.many(found.timed_rows, 'row')}"
    if found.timed_rows != found.rows:
        timed += f" (a random sample of {found.rows:,})"
    hot = f"{found.hot_keys:,} of them hot"
    return [
        Text.assemble((str(found.work), "bold"), f", {layout.many(found.workers, 'worker')}: {found.source.title}"),
        Text(f"{timed}, {layout.many(found.keys, 'key')}, {hot}", layout.QUIET_STYLE),
    ]


def _seconds(found: "Gain", out: Console) -> Table:
    full = "█" if layout.can_print(out, "█") else "#"
    seconds = found.seconds
    longest, width = max(seconds.values()), min(44, max(12, out.width - 44))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column("way", no_wrap=True, min_width=15)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("gain", justify="right", no_wrap=True, min_width=8)
    plain = "plain groupBy"
    for way, value in seconds.items():
        gain = "" if way == plain else f"{found.gain(of=way):.1f} ×"
        bar = Text(full * max(1, round(width * value / longest)), _BAR_STYLES[way])
        table.add_row(way, f"{value:.1f}", bar, gain, style="bold" if way == "keyspread" else "")
    return table


def _bars(found: "Gain", out: Console) -> Table:
    loads = {way: (one.hot_rows.tolist(), (one.rows - one.hot_rows).tolist()) for way, one in found.loads.items()}
    room = (min(out.width, 120) - 10 - 2 * 11) // 2
    return layout.bars_side_by_side(loads, out, width=max(12, room - 2))


def _hottest(found: "Gain") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column("hottest keys", min_width=14, max_width=40, no_wrap=True, overflow="ellipsis")
    for title in ("rows", "share", "workers (keyspread)"):
        table.add_column(title, justify="right", no_wrap=True)
    for hot in found.hottest:
        text = "null" if hot.key is None else " ".join(hot.key.split()) or repr(hot.key)
        share = f"{100 * hot.rows / found.timed_rows:.2f} %"
        table.add_row(Text(text), f"{hot.rows:,}", share, f"{hot.workers:,}")
    return table


def _small_print(found: "Gain") -> str:
    rounds = len(found.rounds["keyspread"])
    slots = "" if found.slots in (None, found.workers) else f" {layout.many(found.slots or 0, 'slot')} here."
    return (
        f"Median of {layout.many(rounds, 'round')}, taking turns, on this machine.{slots} "
        "All answers were the same. keyspread's time includes counting and planning."
    )
