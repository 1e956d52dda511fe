"""Figure 11: imbalance on the real streams against the number of workers."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.evaluation.run import Run, grid
from keyspread.experiments.figure import Figure
from keyspread.experiments.figures.points import ends, number, over_seeds, with_run_columns
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (5, 10, 20, 50, 100)
SCHEMES = ("partial-key", "d-choices", "w-choices")
SOURCES, TOLERANCE = 5, 1e-4
BALANCED = 1e-3


def labelled_runs(scale: Scale) -> list[tuple[Run, str]]:
    """List the runs of figures 11 and 12, each with the symbol of its stream."""
    return [
        (run, symbol)
        for seed in scale.seeds
        for symbol, stream in scale.real_streams(seed).items()
        for run in grid([stream], scheme=SCHEMES, workers=WORKERS, seed=seed, sources=SOURCES)
    ]


class Figure11(Figure):
    """Imbalance on WP, TW and CT."""

    name = "11"
    label = "Figure 11"
    title = "Imbalance on the real streams against the number of workers"
    paper = (
        "All schemes do equally well with few workers. At 20, 50 and 100 PKG is worse than D-C and W-C, W-C better "
        "than D-C, which may be off by s·ε (dotted). CT, which drifts, is the hardest for all of them."
    )
    made = (
        "The streams cannot be redistributed: these are look-alikes with their numbers of messages and keys and their "
        "p_1 (TW at a part of its size), or your own files with --data. Above I at the end of the stream, as in the "
        "paper; below the windowed imbalance, the mean over 50 windows of the imbalance within each: what a running "
        "system feels when its stream drifts."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Every scheme on every stream."""
        return [run for run, _ in labelled_runs(scale)]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take I at the end and within windows."""
        runs, symbols = zip(*labelled_runs(scale), strict=True)
        found = with_run_columns(ends(results).drop(columns="stream"), runs, stream=symbols)
        found = found.rename(columns={"final_imbalance": "I", "windowed_imbalance": "windowed_I"})
        return over_seeds(found, ["stream", "scheme", "workers"], ["I", "windowed_I", "replicas"])

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw a column a stream; I at the end above, within windows below."""
        from keyspread.report import style

        streams = list(table.stream.unique())
        streams = [symbol for symbol in ("WP", "TW", "CT") if symbol in streams] or streams
        made, axes = style.picture(2, len(streams), width=2.9, height=2.3, sharex=True, sharey=True)
        for column, stream in enumerate(streams):
            for at, value, name in zip(axes[:, column], ("I", "windowed_I"), ("at the end", "in windows"), strict=True):
                for scheme in SCHEMES:
                    own = table[(table.stream == stream) & (table.scheme == scheme)]
                    low, high = own[f"{value}_low"], own[f"{value}_high"]
                    style.line(at, range(len(WORKERS)), own[value], scheme, low=low, high=high)
                at.axhline(SOURCES * TOLERANCE, color="#888888", linestyle=":", linewidth=1)
                at.set_title(f"{stream}, {name}")
                style.log_imbalance(at)
            axes[1, column].set_xticks(range(len(WORKERS)), [str(n) for n in WORKERS])
            axes[1, column].set_xlabel("workers")
        for at in axes[:, 0]:
            at.set_ylabel("imbalance")
        style.legend_below(made, axes[0, 0], columns=3)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge Q3 on the real streams."""
        imbalance = table.pivot(index=["stream", "workers"], columns="scheme", values="I")
        small = imbalance[imbalance.index.get_level_values("workers") == WORKERS[0]]
        apart = small.max(axis=1) - small.min(axis=1)
        streams = list(imbalance.index.get_level_values("stream").unique())
        fails_from = {stream: _first_worse(imbalance.loc[stream]) for stream in streams}
        large = imbalance[imbalance.index.get_level_values("workers") >= 50]
        still = large.drop(index="CT", level="stream", errors="ignore")
        verdicts = [
            judge(
                "All schemes do equally well with 5 workers (I within 0.1 % of each other)",
                "Fig. 11, Q3",
                f"I at most {number(small.max().max())}, differences at most {number(apart.max())}",
                bool(apart.max() < BALANCED),
                in_part=bool((apart < BALANCED).any()),
                why=_apart(small, apart),
            ),
            judge(
                "PKG is worse than D-C and W-C from 20 or 50 workers on",
                "Fig. 11, Q3",
                "worse by a factor of 2 or more " + ", ".join(f"from {n} on {s}" for s, n in fails_from.items()),
                all(n is not None and n <= 50 for n in fails_from.values()),
                in_part=any(n is not None for n in fails_from.values()),
                why="Where p_1 is below 2/n, PKG needs no help.",
            ),
            judge(
                "W-C balances better than D-C at 50 and 100 workers",
                "Fig. 11, Q3",
                f"I(W-C) / I(D-C) at most {number(float((large['w-choices'] / large['d-choices']).max()))}",
                bool((large["w-choices"] <= large["d-choices"] + 1e-6).all()),
                in_part=bool((large["w-choices"] <= large["d-choices"] + 1e-6).mean() >= 0.5),
                why="A drifting head finds W-C and D-C equally unprepared.",
            ),
            judge(
                "D-C is off by about s·ε = 5e-4 at worst",
                "Fig. 11, Q3",
                "I(D-C) at most "
                + ", ".join(f"{number(float(large.loc[s]['d-choices'].max()))} on {s}" for s in streams),
                bool(large["d-choices"].max() <= 2 * SOURCES * TOLERANCE),
                in_part=bool(len(still) and still["d-choices"].max() <= 2 * SOURCES * TOLERANCE),
                why="The bound is for a stream whose law stays: on the one that drifts, the head is not known in time.",
            ),
        ]
        return verdicts + ([_hardest(large)] if {"WP", "TW", "CT"} <= set(streams) else [])


def _first_worse(one: pd.DataFrame) -> int | None:
    worse = one["partial-key"] > 2 * one[["d-choices", "w-choices"]].max(axis=1) + 1e-6
    return int(worse.idxmax()) if worse.any() else None


def _apart(small: pd.DataFrame, apart: "pd.Series[float]") -> str:
    bad = small[apart >= BALANCED]
    which = (f"{stream} ({number(row.min())} to {number(row.max())})" for (stream, _), row in bad.iterrows())
    return f"Not on {', '.join(which)}: its hot keys change, and W-C alone makes up for what a change left behind."


def _hardest(large: pd.DataFrame) -> Verdict:
    means = large.groupby(level="stream").mean()
    hardest = means.idxmax()
    ours = [scheme for scheme in ("d-choices", "w-choices") if hardest[scheme] == "CT"]
    return judge(
        "CT is the hardest for all schemes",
        "Fig. 11, Q3",
        "mean I at 50 and 100 workers: "
        + "; ".join(
            f"{scheme} " + ", ".join(f"{number(float(means.loc[s, scheme]))} on {s}" for s in ("WP", "TW", "CT"))
            for scheme in SCHEMES
        ),
        bool((hardest == "CT").all()),
        in_part=len(ours) == 2,
        why="For D-C and W-C it is. PKG is limited by the share of the hottest key, and that is largest on WP.",
    )
