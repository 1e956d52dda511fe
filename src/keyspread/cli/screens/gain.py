"""What `keyspread run` shows: the seconds of three ways, what keyspread gains, a bar per worker, the hottest keys."""

from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.common import layout

if TYPE_CHECKING:
    from keyspread.run.gain import Gain

_NO_GAIN = 1.1
"""A gain below this is none."""


def show(gain: "Gain") -> None:
    """Print the result for people."""
    out = layout.console()
    out.print()
    layout.draw(gain.picture(), out)
    out.print()
    out.print(Text(verdict(gain), "bold"))
    out.print(Text(_small_print(gain), layout.QUIET_STYLE))
    out.print()


def verdict(gain: "Gain") -> str:
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
    return "there is too little work for what counting and merging cost."


def _small_print(gain: "Gain") -> str:
    rounds = len(gain.rounds["keyspread"])
    slots = "" if gain.slots in (None, gain.workers) else f" {layout.many(gain.slots or 0, 'slot')} here."
    return (
        f"Median of {layout.many(rounds, 'round')}, taking turns, on this machine.{slots} "
        "All answers were the same. keyspread's time includes counting and planning."
    )
