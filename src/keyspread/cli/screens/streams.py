"""What `keyspread simulate`, `compare` and `datasets` show of a stream."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keyspread.cli.common import layout
from keyspread.cli.common.input_stream import InputStream, clean
from keyspread.cli.common.layout import percent, plain_table
from keyspread.drawing.picture import Picture
from keyspread.streams import Malformed, Profile

if TYPE_CHECKING:
    from keyspread.evaluation.compare import Advice, Compared
    from keyspread.evaluation.simulate import Simulation

_MOST_RUNS = 12


def show_simulation(title: str, result: "Simulation") -> None:
    """Print imbalance and replicas, a bar per worker, and the imbalance over time."""
    out = layout.console()
    out.print()
    where = f", {layout.many(result.workers, 'worker')}, {layout.many(result.sources, 'sender')}: {title}"
    out.print(Text.assemble((result.scheme, "bold"), where))
    out.print()
    out.print(layout.facts(_simulation_facts(result)))
    layout.draw(Picture("", "", result.picture().parts), out)
    out.print()


def _simulation_facts(result: "Simulation") -> list[tuple[str, str, str, str]]:
    choices = sorted(set(result.choices))
    used = str(choices[0]) if len(choices) == 1 else f"{choices[0]} to {choices[-1]}" if choices else "none"
    busiest = result.workers * max(result.loads.tolist()) / max(1, result.messages)
    return [
        ("messages", f"{result.messages:,}", "imbalance at the end", f"{result.imbalance:.2e}"),
        ("keys", f"{result.keys:,}", "mean over time", f"{result.mean_imbalance:.2e}"),
        ("share of a hot key, from", f"{result.threshold:.3g}", "mean per window", f"{result.windowed_imbalance:.2e}"),
        ("choices of a hot key", used, "busiest worker", f"{busiest:.2f} × even share"),
        ("replicas", f"{result.replicas:,}", "replicas per key", f"{result.replicas / max(1, result.keys):.2f}"),
        ("  of hot keys", f"{result.head_replicas:,}", "", ""),
    ]


def show_comparison(title: str, compared: "Sequence[Compared]", advice: "Advice") -> None:
    """Print a row per scheme, the most even first, and which one to take."""
    from keyspread.evaluation.compare import RATE_INCLUDES, SHORTEST_TIMED, frontier

    out = layout.console()
    table = layout.plain_table("scheme", ("busiest", "in windows", "at the end", "replicas", "per key", "rate"), 5)
    base = next((result.rate for result in compared if result.scheme == "partial-key"), compared[0].rate)
    unbeaten = {result.scheme for result in frontier(compared)}
    mark = "•" if layout.can_print(out, "•") else "*"
    for result in sorted(compared, key=lambda result: (result.windowed_imbalance, result.replicas)):
        table.add_row(
            f"{mark if result.scheme in unbeaten else ' '} {result.scheme}",
            f"{result.busiest:.2f} ×",
            f"{result.windowed_imbalance:.1e}",
            f"{result.imbalance:.1e}",
            f"{result.replicas:,}",
            f"{result.replicas_per_key:.2f}",
            "–" if result.rate is None or base is None else f"{result.rate / base:.2f} ×",
            style="bold" if result.scheme == advice.scheme else "",
        )
    out.print()
    out.print(Text(title, "bold"))
    out.print()
    out.print(table)
    for line in (
        "busiest: load of the busiest worker, × an even share, mean over windows",
        "in windows, at the end: imbalance; per key: replicas per key",
        f"rate: messages per second, × partial-key; includes {RATE_INCLUDES}"
        if base is not None
        else f"rate: not shown for fewer than {SHORTEST_TIMED:,} messages",
        f"{mark} no other scheme is better in both imbalance and replicas",
    ):
        out.print(Text(line, layout.QUIET_STYLE))
    out.print()
    out.print(Text(advice.text, "bold"))
    out.print()


def show_list() -> None:
    """Print the generated streams with their default parameters for people."""
    from keyspread.streams import ORIGINALS, zipf_probabilities
    from keyspread.streams.catalog import DEFAULTS

    out = layout.console()
    out.print()
    table = plain_table("generated", ("messages", "keys", "hottest"), first=5)
    table.add_column("description")
    for name, changes in {"zipf": "", "drift": "; the hot keys change every {every:,} messages"}.items():
        law = DEFAULTS[name]
        p1 = float(zipf_probabilities(law["skew"], law["keys"])[0])
        what = f"Zipf distribution with exponent {law['skew']:g}{changes.format(**law)}"
        table.add_row(name, f"{law['messages']:,}", f"{law['keys']:,}", percent(p1), what)
    for name, original in ORIGINALS.items():
        sizes = f"{original.messages:,}", f"{original.keys:,}", percent(original.p1)
        table.add_row(name, *sizes, f"like {original.what}")
    out.print(table)
    out.print(Text("hottest: share of the hottest key", layout.QUIET_STYLE))
    out.print()
    out.print("To see how skewed a stream is: keyspread datasets describe --input ct")
    out.print()


def profile_as_dict(stream: InputStream, result: Profile, names: dict[int, Any]) -> dict[str, Any]:
    """Return the profile as plain values, ready for JSON."""
    plain = asdict(result)
    return {
        "input": stream.input,
        "title": stream.title,
        "parameters": stream.parameters,
        **{name: plain[name] for name in ("messages", "keys", "p1", "workers")},
        "hot_from": result.hot_from,
        **{name: plain[name] for name in ("hot_keys", "hot_share", "half", "exponent", "drift")},
        "top": [
            {"key": names[key], "hash": key, "messages": count, "share": count / result.messages}
            for key, count in result.top
        ],
        "leaders": [{"key": names[key], "hash": key, "share": share} for key, share in result.leaders],
        "malformed": asdict(Malformed() if stream.files is None else stream.files.malformed),
    }


def show_profile(stream: InputStream, result: Profile, names: dict[int, Any]) -> None:
    """Print facts, hottest keys and drift of a stream."""
    out = layout.console()
    out.print()
    out.print(Text(clean(stream.title), "bold"))
    out.print()
    out.print(_profile_facts(result))
    if result.top:
        out.print()
        table = plain_table("hottest keys", ("messages", "share"), first=14)
        for key, count in result.top:
            table.add_row(Text(stream.label(names[key])), f"{count:,}", percent(count / result.messages))
        out.print(table)
    if result.leaders:
        out.print()
        _show_drift(stream, result, names, out)
        out.print()
        out.print(Text(_drift_verdict(result), "bold"))
    out.print()


def _profile_facts(result: Profile) -> Table:
    exponent = "none" if result.exponent is None else f"{result.exponent:.2f}"
    hot_from = percent(result.hot_from)
    return layout.facts(
        [
            ("messages", f"{result.messages:,}", f"hot keys (at least {hot_from})", f"{result.hot_keys:,}"),
            ("keys", f"{result.keys:,}", "share of all hot keys", percent(result.hot_share)),
            ("share of the hottest key", percent(result.p1), "keys with half the messages", f"{result.half:,}"),
            ("fitted Zipf exponent", exponent, "", ""),
        ]
    )


def _show_drift(stream: InputStream, result: Profile, names: dict[int, Any], out: Console) -> None:
    """Print the hottest key of each run of windows, and how many of the ten hottest keys are new in each window."""
    if len(result.leaders) > 1:
        new = "none" if result.drift == 0 else f"{100 * result.drift:.0f} %"
        out.print(f"drift {result.drift:.2f}: {new} of the ten hottest keys of a window are new, on average")
    runs = [list(run) for _, run in groupby(enumerate(result.leaders, start=1), key=lambda window: window[1][0])]
    table = plain_table("hottest key", ("windows", "share"), first=14)
    for run in runs[:_MOST_RUNS]:
        (first, (key, _)), (last, _) = run[0], run[-1]
        windows = f"{first}" if first == last else f"{first} to {last}"
        table.add_row(Text(stream.label(names[key])), windows, _range([share for _, (_, share) in run]))
    out.print(table)
    if len(runs) > _MOST_RUNS:
        out.print(f"and {len(runs) - _MOST_RUNS:,} more changes", style=layout.QUIET_STYLE)


def _drift_verdict(result: Profile) -> str:
    workers = layout.many(result.workers, "worker")
    overall = result.workers * result.p1
    in_window = result.workers * max(share for _, share in result.leaders)
    said = f"With {workers}, the hottest key alone would keep {overall:.1f} of them busy"
    # A window with few messages always has a key with a large share of them.
    if in_window > max(1, 1.5 * overall) and result.messages >= 5 * result.workers * len(result.leaders):
        return f"{said}, and up to {in_window:.1f} within a window."
    return f"{said}." if overall >= 1 else f"With {workers}, no key alone would keep one of them busy."


def _range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
