"""What `keyspread reproduce` and `keyspread bench deployment` show: verdicts; measured values beside the model's."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.common import layout

if TYPE_CHECKING:
    from keyspread.paper.deployment.measurements import Deployment
    from keyspread.paper.deployment.setup import Setup
    from keyspread.paper.figures.figure import FigureResult
    from keyspread.paper.live.setup import LiveDeployment, LiveRun, LiveSetup

_WAITING = {"max avg": "highest_average", "p50": "p50", "p95": "p95", "p99": "p99"}
_LATE = 0.1
"""Seconds by which a producer may be behind without a remark."""
_FULL = 0.9
"""In use from which the work alone may saturate a worker, because every message costs a little more than its work."""
_MARKS = {"holds": ("✓", "ok", "green"), "holds in part": ("◐", "~~", "yellow"), "does not hold": ("✗", "NO", "red")}


def show_verdicts(reproduced: "Sequence[FigureResult]", page: str, simulations: int) -> None:
    """Print a row per claim of the paper, with its verdict."""
    from keyspread.paper.figures.figure import summary

    out = layout.console()
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for title in ("", "where", "claim", "found"):
        table.add_column(title, no_wrap=title in ("", "where"))
    verdicts = [verdict for figure in reproduced for verdict in figure.verdicts]
    plain = 0 if layout.can_print(out, "✓◐✗·") else 1
    for verdict in verdicts:
        *signs, colour = _MARKS[verdict.outcome]
        claim = Text(verdict.claim)
        if not verdict.is_claim:  # a check of our own set-up, which does not count
            signs, colour = ["·", "--"], layout.QUIET_STYLE
            claim = Text(f"{verdict.claim} (not counted: {verdict.check})", layout.QUIET_STYLE)
        table.add_row(Text(signs[plain], colour), verdict.where.split(",")[0], claim, Text(verdict.measured))
    out.print()
    out.print(table)
    out.print()
    out.print(Text(summary(verdicts), "bold"))
    out.print(f"{layout.many(simulations, 'simulation')} run; report and plots in {page}", soft_wrap=True)
    out.print()


def show_deployment(measured: "Deployment") -> None:
    """Print throughput, its reasons, and latency, each beside the model's value."""
    from keyspread.paper.deployment.measurements import MICRO_BATCHES, QUEUES, summary

    out = layout.console()
    setup = measured.setup
    rows = summary(measured)
    _title(out, setup, measured.where)
    for skew in setup.skews:
        of_skew = [row for row in rows if row["skew"] == skew]
        _section(out, f"Zipf {skew:g} over {setup.keys:,} keys: throughput at saturation", _throughput(of_skew))
        out.print(_reasons(of_skew))
    for kind, what in ((QUEUES, "one queue per worker"), (MICRO_BATCHES, "micro-batches of a streaming query")):
        for skew in setup.skews:
            if any((run.kind, run.skew) == (kind, skew) for run in measured.latency):
                rate = f"{setup.arrival_rate:,.0f} messages per second for {setup.arrivals:g} s"
                _section(out, f"Zipf {skew:g}: latency, {what}, {rate}", _latency(measured, kind, skew))
    _legend(
        out,
        "Every merged result equals the exact counts.",
        "per second: messages, from the first send to the last merged result",
        "× SG: ratio to shuffle grouping in the same round, median and range",
        "model: predicted from the largest load alone, at saturation",
        "busiest, median: seconds that this worker worked; queue: longest queue of a worker",
        *(["max avg: largest average latency of a worker"] if measured.latency else []),
    )


def show_live(measured: "LiveDeployment") -> None:
    """Print the measurement in real-time mode for people: where each scheme saturates, and its latency until then."""
    out = layout.console()
    setup = measured.setup
    _title(out, setup, measured.where)
    if setup.why_not_more:
        out.print(Text(setup.why_not_more, layout.QUIET_STYLE))
    for skew in setup.skews:
        title = f"Zipf {skew:g} over {setup.keys:,} keys: messages per second until saturation"
        _section(out, title, _limits(measured, skew))
        for rate in setup.rates:
            runs = [run for run in measured.runs if (run.skew, run.measured.rate) == (skew, rate)]
            if runs:
                share = f"{100 * rate / setup.best_rate:.0f} % of the best possible"
                title = f"Zipf {skew:g}: latency at {rate:g} messages per second ({share}), ms"
                _section(out, title, _live_latency(runs, _grows(out)))
    _legend(
        out,
        "Latency: from the time when a message is due at the producer until the broker has its result.",
        "Every message arrived. max avg: largest average latency of a worker.",
        "model: only the queues of the workers take time, with the same senders, keys and seconds.",
        "in use: work that the busiest worker gets per second, in seconds.",
        f"{_grows(out)}: the busiest worker cannot keep up; the scheme gets no higher rate.",
        *_remarks(measured),
    )


def _title(out: Console, setup: "Setup | LiveSetup", where: str) -> None:
    out.print()
    title = f"{setup.sources:,} senders, {setup.workers:,} workers, {setup.milliseconds:g} ms per message (waiting)"
    out.print(Text.assemble((title, "bold"), f" on {where}"))


def _section(out: Console, title: str, table: Table) -> None:
    out.print()
    out.print(Text(title, "bold"))
    out.print(table)


def _legend(out: Console, *lines: str) -> None:
    out.print()
    for line in lines:
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()


def _table(*titles: str, apart: int = 2) -> Table:
    table = Table(box=None, padding=(0, apart, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
    for position, title in enumerate(titles):
        table.add_column(title, justify="right" if position else "left", no_wrap=True)
    return table


def _throughput(rows: list[dict[str, Any]]) -> Table:
    table = _table("scheme", "per second", "× SG", "(range)", "model", "while working", "model")
    for row in rows:
        ratio, spread, predicted = "–", "", "–"
        if row["ratio"] is not None:
            ratio, spread = f"{row['ratio']:.3f}", f"({row['ratio_low']:.3f}–{row['ratio_high']:.3f})"
            predicted = f"{row['predicted_ratio']:.3f}"
        working = (f"{row[name]:,.0f}" for name in ("working_rate", "predicted_rate"))
        table.add_row(row["scheme"], f"{row['rate']:,.0f}", ratio, spread, predicted, *working)
    return table


def _reasons(rows: list[dict[str, Any]]) -> Table:
    table = _table("", "busiest", "median", "queue", "replicas", "state", "send", "work", "merge")
    for row in rows:
        table.add_row(
            row["scheme"],
            *(f"{row[name]:.2f} s" for name in ("busiest", "median_busy")),
            f"{row['longest_queue']:,}",
            f"{row['replicas']:,}",
            f"{row['state_bytes'] / 1000:,.0f} kB",
            *(f"{row[name]:.1f} s" for name in ("sending", "working", "merging")),
        )
    return table


def _latency(measured: "Deployment", kind: str, skew: float) -> Table:
    from keyspread.paper.deployment.measurements import QUEUES

    table = _table("scheme", *_WAITING, "queue", "p99 model")
    predicted = {(model.skew, model.scheme): model.waiting for model in measured.predicted}
    for run in measured.latency:
        if (run.kind, run.skew) == (kind, skew):
            model = predicted.get((skew, run.scheme)) if kind == QUEUES else None
            table.add_row(
                run.scheme,
                *(_time(getattr(run.waiting, name)) for name in _WAITING.values()),
                f"{run.waiting.longest_queue:,}",
                "–" if model is None else _time(model.p99),
            )
    return table


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _limits(measured: "LiveDeployment", skew: float) -> Table:
    table = _table("scheme", "keeps up at", "saturated at", "model", "of the best possible")
    for limit in measured.limits:
        if limit.skew == skew:
            rates = ("–" if rate is None else f"{rate:,.0f}" for rate in (limit.holds, limit.saturated))
            share = f"{100 * limit.predicted / measured.setup.best_rate:.0f} %"
            table.add_row(limit.scheme, *rates, f"{limit.predicted:,.0f}", share)
    return table


def _live_latency(runs: "list[LiveRun]", grows: str) -> Table:
    table = _table("scheme", "in use", *(title for name in _WAITING for title in (name, "model")), apart=1)
    for run in runs:
        both = (run.measured.waiting, run.predicted)
        times = [getattr(waiting, name) for name in _WAITING.values() for waiting in both]
        sign = f" {grows}" if run.measured.is_saturated else "  "
        table.add_row(run.scheme, f"{100 * run.measured.in_use:.0f} %{sign}", *map(_milliseconds, times))
    return table


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"


def _grows(out: Console) -> str:
    return "↑" if layout.can_print(out, "↑") else "^"


def _remarks(measured: "LiveDeployment") -> Iterator[str]:
    rates = [run.measured for run in measured.runs]
    behind = max((at_rate.late for at_rate in rates), default=0.0)
    if behind > _LATE:
        yield f"The producer was up to {1000 * behind:,.0f} ms late: this machine is too slow for the rate."
    if any(at_rate.is_saturated and at_rate.in_use < _FULL for at_rate in rates):
        yield "Saturated below 90 % in use: the cores of this machine were the limit, not the waiting."
    doubled = sum(at_rate.doubled for at_rate in rates)
    if doubled:
        yield f"{doubled:,} results came twice; the first one counts."
