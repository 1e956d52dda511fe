"""What `keyspread run` shows: the chosen scheme beside the usual ones, a bar a worker, the hottest keys, a verdict."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.job.batch_job import JobResult

_SPOKEN = {"key": "key grouping", "partial-key": "partial key grouping", "shuffle": "shuffling"}
_MOST_VALUES = 2
"""Aggregates that have room beside a key."""


def show(result: "JobResult", written: Mapping[str, str | None]) -> None:
    """Draw it for people."""
    out = layout.console()
    chosen = result.outcomes[0]
    usual = next((one for one in result.outcomes if one.scheme == "key"), chosen)
    out.print()
    for line in _headline(result):
        out.print(line)
    out.print()
    out.print(_schemes(result))
    out.print()
    bars = {
        spoken(one.scheme): (one.head_loads.tolist(), (one.loads - one.head_loads).tolist()) for one in (chosen, usual)
    }
    out.print(layout.bar_legend(out))
    out.print(layout.bars_side_by_side(bars, out))
    if result.hottest:
        out.print()
        out.print(_hottest(result))
    out.print()
    out.print(Text(verdict(result), "bold"))
    for line in _written(result, written):
        out.print(line, soft_wrap=True)
    took = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items())
    out.print(Text(took, layout.QUIET_STYLE))
    out.print()


def spoken(scheme: str) -> str:
    """Give a scheme's name in words."""
    return _SPOKEN.get(scheme, scheme)


def verdict(result: "JobResult") -> str:
    """Say in a line what the scheme was worth here, also if that is nothing."""
    chosen = result.outcomes[0]
    usual = next(one for one in result.outcomes if one.scheme == "key")
    if result.workers == 1:
        return "One worker has it all: nothing to spread."
    if chosen is usual:
        if chosen.busiest < 1.1:
            return "Key grouping is even here: no scheme has much to gain."
        return f"One worker has {chosen.busiest:.1f} × its even share: --scheme planned would share it out."
    ratio = usual.loads.max() / max(1, chosen.loads.max())
    if ratio < 1.1:
        return "Key grouping would have been as even here: no key is hot enough to matter."
    return f"Key grouping would have kept one worker busy {ratio:.1f} × as long."


def _headline(result: "JobResult") -> list[Text]:
    hot = f"{result.hot_keys:,} hot (a share of {result.threshold:.3g} or more)"
    counted = f"{layout.many(result.rows, 'row')}, {layout.many(result.keys, 'key')}, {hot}"
    return [
        Text.assemble((result.scheme, "bold"), f", {layout.many(result.workers, 'worker')}: {result.source.title}"),
        Text(counted, layout.QUIET_STYLE),
    ]


def _schemes(result: "JobResult") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column("scheme", min_width=22)
    for title in ("busiest worker", "imbalance", "replicas", "per key"):
        table.add_column(title, justify="right")
    for one in result.outcomes:
        style = "bold" if one is result.outcomes[0] else ""
        table.add_row(
            spoken(one.scheme),
            f"{one.busiest:.2f} × even share",
            f"{one.imbalance:.1e}",
            f"{one.replicas:,}",
            f"{one.replicas / result.keys:.2f}",
            style=style,
        )
    return table


def _hottest(result: "JobResult") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    names = [name for name, call in result.aggregates.items() if call != "count(*)"][:_MOST_VALUES]  # that is in `rows`
    widest = len(f"{max((hot.rows for hot in result.hottest), default=0):,}")
    # What is left of 80 columns beside rows, share, workers and values, each with two blanks.
    room = 80 - (max(4, widest) + 2) - (8 + 2) - (7 + 2) - len(names) * (12 + 2) - 2
    table.add_column(
        "hottest keys", min_width=min(14, room), max_width=min(30, room), no_wrap=True, overflow="ellipsis"
    )
    for title in ("rows", "share", "workers"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for name in names:
        table.add_column(Text(name), justify="right", no_wrap=True, overflow="ellipsis", max_width=12)
    for hot in result.hottest:
        table.add_row(
            Text(", ".join(_plain(part) for part in hot.key.values())),
            f"{hot.rows:,}",
            f"{100 * hot.rows / result.rows:.2f} %",
            f"{hot.workers:,}",
            *(Text(_plain(hot.values[name])) for name in names),
        )
    return table


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split()) if str(value).strip() else repr(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _written(result: "JobResult", written: Mapping[str, str | None]) -> list[Text]:
    lines = []
    if written["out"]:
        lines.append(Text(f"{layout.many(result.keys, 'merged row')} in {written['out']}"))
    if result.plan is not None and result.plan.moved:
        lines.append(Text(f"{100 * result.plan.moved:.2g} % of the rows moved from where the previous plan had them"))
    if written["plan_out"]:
        lines.append(Text(f"the plan in {written['plan_out']}"))
    return lines
