"""What `keyspread run --scheme` shows: the scheme beside others, a bar per worker, the hottest keys, a verdict."""

from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.job.batch_job import JobResult


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
