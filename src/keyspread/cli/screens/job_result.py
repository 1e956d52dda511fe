"""What `keyspread run --scheme` shows: the scheme beside others, a bar per worker, the hottest keys, a verdict."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.job.batch_job import JobResult
    from keyspread.job.plain_job import PlainResult
    from keyspread.job.scheme_comparison import Outcome

_IN_WORDS = {"key": "key grouping", "partial-key": "partial key grouping", "shuffle": "shuffling"}
_MOST_VALUES = 2
"""Aggregates that are shown beside a key."""


def show(result: "JobResult", written: Mapping[str, str | None]) -> None:
    """Print the result for people; `written` are the files that were written."""
    out = layout.console()
    out.print()
    for line in _headline(result):
        out.print(line)
    out.print()
    out.print(_schemes(result))
    out.print()
    for part in _bars(result, out):
        out.print(part)
    if result.hottest:
        out.print()
        out.print(hottest_keys(result))
    out.print()
    out.print(Text(verdict(result), "bold"))
    for line in _written(result, written):
        out.print(line, soft_wrap=True)
    durations = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items())
    out.print(Text(durations, layout.QUIET_STYLE))
    out.print()


def in_words(scheme: str) -> str:
    """Return the name of a scheme in words."""
    return _IN_WORDS.get(scheme, scheme)


def verdict(result: "JobResult") -> str:
    """Return one sentence about what the scheme gained here, even if that is nothing."""
    chosen, key_grouping = result.outcomes[0], _key_grouping(result)
    if result.workers == 1:
        return "There is one worker: nothing to spread."
    if key_grouping is None:
        return f"The busiest worker has {chosen.busiest:.2f} × its even share."
    if chosen is key_grouping:
        if chosen.busiest < 1.1:
            return "Key grouping is even here: no other scheme can gain much."
        return f"One worker has {chosen.busiest:.1f} × its even share: --scheme planned would balance the load."
    ratio = key_grouping.loads.max() / max(1, chosen.loads.max())
    if ratio < 1.1:
        return "Key grouping would have been as even here: no key is hot enough to matter."
    return f"Key grouping would have kept one worker busy {ratio:.1f} × as long."


def _key_grouping(result: "JobResult") -> "Outcome | None":
    return next((outcome for outcome in result.outcomes if outcome.scheme == "key"), None)


def _headline(result: "JobResult") -> list[Text]:
    hot = f"{result.hot_keys:,} of them hot (at least {layout.percent(result.threshold)} of the rows)"
    counted = f"{layout.many(result.rows, 'row')}, {layout.many(result.keys, 'key')}, {hot}"
    return [
        Text.assemble((result.scheme, "bold"), f", {layout.many(result.workers, 'worker')}: {result.source.title}"),
        Text(counted, layout.QUIET_STYLE),
    ]


def _schemes(result: "JobResult") -> Table:
    replicas = result.outcomes[0].replicas is not None
    titles = ("busiest worker", "imbalance", *(("replicas", "per key") if replicas else ()))
    table = layout.plain_table("scheme", titles, first=22)
    for outcome in result.outcomes:
        cells = [in_words(outcome.scheme), f"{outcome.busiest:.2f} × even share", f"{outcome.imbalance:.1e}"]
        if outcome.replicas is not None:
            cells += [f"{outcome.replicas:,}", f"{outcome.replicas / result.keys:.2f}"]
        table.add_row(*cells, style="bold" if outcome is result.outcomes[0] else "")
    return table


def _bars(result: "JobResult", out: Any) -> list[Any]:
    """Return the bars of the chosen scheme beside those of key grouping, or alone if nothing was compared."""
    chosen = result.outcomes[0]
    if chosen.head_loads is None:
        bars = layout.load_bars([0] * result.workers, chosen.loads.tolist(), out)
        return [layout.bar_legend(out, hot_keys=False), bars]
    loads = {
        in_words(outcome.scheme): (outcome.head_loads.tolist(), (outcome.loads - outcome.head_loads).tolist())
        for outcome in (chosen, _key_grouping(result))
        if outcome is not None and outcome.head_loads is not None
    }
    return [layout.bar_legend(out), layout.bars_side_by_side(loads, out)]


def hottest_keys(result: "JobResult | PlainResult") -> Table:
    """Return the hottest keys with their rows, shares, workers if known, and values."""
    with_workers = all(hot.workers is not None for hot in result.hottest)
    # A plain count is left out: it is in the column `rows`.
    names = [name for name, call in result.aggregates.items() if call != "count(*)"][:_MOST_VALUES]
    widest = len(f"{max((hot.rows for hot in result.hottest), default=0):,}")
    # The width that remains of 80 columns beside rows, share, workers and values, each with two blanks.
    room = 80 - (max(4, widest) + 2) - (8 + 2) - (7 + 2) - len(names) * (12 + 2) - 2
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    table.add_column(
        "hottest keys", min_width=min(14, room), max_width=min(30, room), no_wrap=True, overflow="ellipsis"
    )
    for title in ("rows", "share", *(("workers",) if with_workers else ())):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for name in names:
        table.add_column(Text(name), justify="right", no_wrap=True, overflow="ellipsis", max_width=12)
    for hot in result.hottest:
        table.add_row(
            Text(", ".join(_plain(part) for part in hot.key.values())),
            f"{hot.rows:,}",
            f"{100 * hot.rows / result.rows:.2f} %",
            *((f"{hot.workers:,}",) if with_workers else ()),
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
        lines.append(Text(f"{layout.many(result.keys, 'merged row')} written to {written['out']}"))
    if result.plan is not None and result.plan.moved:
        lines.append(Text(f"{100 * result.plan.moved:.2g} % of the rows moved to another worker than in --previous"))
    if written["plan_out"]:
        lines.append(Text(f"Plan written to {written['plan_out']}"))
    return lines
