"""What `keyspread bench deployment` shows: throughput, its reasons, and latency, each beside the model's value."""

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment


_LEGEND = (
    "Every merged result equals the exact counts.",
    "per second: messages, from the first send to the last merged result",
    "× SG: ratio to shuffle grouping in the same round, median and range",
    "model: predicted from the largest load alone, at saturation",
    "busiest, median: seconds that this worker worked; queue: longest queue of a worker",
)
_LATENCY_LEGEND = "max avg: largest average latency of a worker"


def show(measured: "Deployment") -> None:
    """Print the measurement for people."""
    from keyspread.deployment.measurements import MICRO_BATCHES, QUEUES, summary

    out = layout.console()
    setup = measured.setup
    rows = summary(measured)
    out.print()
    title = (
        f"{setup.sources:,} senders, {setup.workers:,} workers, {setup.milliseconds:g} ms per message ({setup.work})"
    )
    out.print(Text.assemble((title, "bold"), f" on {measured.where}"))
    for skew in setup.skews:
        of_skew = [row for row in rows if row["skew"] == skew]
        out.print()
        out.print(Text(f"Zipf {skew:g} over {setup.keys:,} keys: throughput at saturation", "bold"))
        out.print(_throughput(of_skew))
        out.print(_reasons(of_skew))
    for kind, what in ((QUEUES, "one queue per worker"), (MICRO_BATCHES, "micro-batches of a streaming query")):
        for skew in setup.skews:
            if any((run.kind, run.skew) == (kind, skew) for run in measured.latency):
                out.print()
                rate = f"{setup.arrival_rate:,.0f} messages per second for {setup.arrivals:g} s"
                out.print(Text(f"Zipf {skew:g}: latency, {what}, {rate}", "bold"))
                out.print(_latency(measured, kind, skew))
    out.print()
    for line in (*_LEGEND, *([_LATENCY_LEGEND] if measured.latency else [])):
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=layout.QUIET_STYLE, pad_edge=False)
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
        table.add_row(
            row["scheme"],
            f"{row['rate']:,.0f}",
            ratio,
            spread,
            predicted,
            f"{row['working_rate']:,.0f}",
            f"{row['predicted_rate']:,.0f}",
        )
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
    from keyspread.deployment.measurements import QUEUES

    table = _table("scheme", "max avg", "p50", "p95", "p99", "queue", "p99 model")
    predicted = {(model.skew, model.scheme): model.waiting for model in measured.predicted}
    for run in measured.latency:
        if (run.kind, run.skew) == (kind, skew):
            model = predicted.get((skew, run.scheme)) if kind == QUEUES else None
            table.add_row(
                run.scheme,
                *(_time(getattr(run.waiting, name)) for name in ("highest_average", "p50", "p95", "p99")),
                f"{run.waiting.longest_queue:,}",
                "–" if model is None else _time(model.p99),
            )
    return table


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
