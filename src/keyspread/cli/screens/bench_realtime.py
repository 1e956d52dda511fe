"""What `keyspread bench deployment --realtime` shows: where each scheme saturates, and its latency at every rate."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.deployment.live.measurements import Limit, LiveDeployment, LiveRun

_COLUMNS = {"p50": "p50", "p95": "p95", "p99": "p99", "max avg": "highest_average"}
_LATE = 0.1
"""Seconds by which a producer may be behind without a remark."""
_FULL = 0.9
"""In use from which the work alone may saturate a worker, because every message costs a little more than its work."""


def show(measured: "LiveDeployment") -> None:
    """Print the measurement for people."""
    out = layout.console()
    setup = measured.setup
    grows = "↑" if layout.can_print(out, "↑") else "^"
    out.print()
    title = f"{setup.sources:,} senders, {setup.workers:,} workers, {setup.milliseconds:g} ms per message (waiting)"
    out.print(Text.assemble((title, "bold"), f" on {measured.where}"))
    if setup.why_not_more:
        out.print(Text(setup.why_not_more, layout.QUIET_STYLE))
    for skew in setup.skews:
        out.print()
        out.print(Text(f"Zipf {skew:g} over {setup.keys:,} keys: messages per second until saturation", "bold"))
        out.print(_limits([limit for limit in measured.limits if limit.skew == skew], setup.best_rate))
        for rate in setup.rates:
            runs = [run for run in measured.runs if (run.skew, run.rate) == (skew, rate)]
            if runs:
                out.print()
                share = f"{100 * rate / setup.best_rate:.0f} % of the best possible"
                out.print(Text(f"Zipf {skew:g}: latency at {rate:g} messages per second ({share}), ms", "bold"))
                out.print(_latency(runs, grows))
    out.print()
    _legend(out, measured, grows)


def _legend(out: Console, measured: "LiveDeployment", grows: str) -> None:
    lines = [
        "Latency: from the time when a message is due at the producer until the broker has its result.",
        "Every message arrived. max avg: largest average latency of a worker.",
        "model: only the queues of the workers take time, with the same senders, keys and seconds.",
        "in use: work that the busiest worker gets per second, in seconds.",
        f"{grows}: the busiest worker cannot keep up; the scheme gets no higher rate.",
    ]
    behind = max((run.late for run in measured.runs), default=0.0)
    if behind > _LATE:
        lines.append(f"The producer was up to {1000 * behind:,.0f} ms late: this machine is too slow for the rate.")
    if any(run.saturated and run.in_use < _FULL for run in measured.runs):
        lines.append("Saturated below 90 % in use: the cores of this machine were the limit, not the waiting.")
    doubled = sum(run.doubled for run in measured.runs)
    if doubled:
        lines.append(f"{doubled:,} results came twice; the first one counts.")
    for line in lines:
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for position, title in enumerate(titles):
        style = layout.QUIET_STYLE if title == "model" else ""
        table.add_column(title, justify="right" if position else "left", no_wrap=True, style=style)
    return table


def _limits(limits: "list[Limit]", best: float) -> Table:
    table = _table("scheme", " keeps up at", " saturated at", "  model", " of the best possible")
    for limit in limits:
        table.add_row(
            limit.scheme,
            *("–" if rate is None else f"{rate:,.0f}" for rate in (limit.holds, limit.saturated)),
            f"{limit.predicted:,.0f}",
            f"{100 * limit.predicted / best:.0f} %",
        )
    return table


def _latency(runs: "list[LiveRun]", grows: str) -> Table:
    table = _table("scheme", "in use", *(title for name in _COLUMNS for title in (name, "model")))
    for run in runs:
        times = [getattr(part, name) for name in _COLUMNS.values() for part in (run.waiting, run.predicted)]
        sign = f" {grows}" if run.saturated else "  "
        table.add_row(run.scheme, f"{100 * run.in_use:.0f} %{sign}", *map(_milliseconds, times))
    return table


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"
