"""Figure 12: imbalance over time on the real streams."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.figure_11 import SCHEMES, labelled_runs
from keyspread.paper.figures.points import number, over_seeds, with_run_columns
from keyspread.paper.figures.style import ABBREVIATIONS
from keyspread.paper.runs.run import Run

WORKERS = (20, 50, 100)
SETTLED = 10  # of 50 windows: the first fifth of the stream is left out
STABLE = 3.0  # our reading of 'stable': the ratio of the largest to the smallest I(t) after that


class Figure12(Figure):
    """Imbalance over time on WP, TW and CT."""

    name = "12"
    label = "Figure 12"
    title = "Imbalance over time on the real streams"
    paper = (
        "The imbalance is stable over time. Large deployments are hard for PKG and easy for D-C and W-C; the drift of "
        "CT makes it harder for all of them."
    )
    method = (
        "The runs of figure 11, at the ends of 50 windows with equal numbers of messages. I(t) counts from the start "
        "of the stream, as in the paper. The last row shows the imbalance within each window alone, where drift "
        "shows at once. Lines are medians over seeds."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Return the runs of figure 11 that this figure shows."""
        return [run for run, _ in self._labelled(scale)]

    @staticmethod
    def _labelled(scale: Scale) -> list[tuple[Run, str]]:
        return [(run, symbol) for run, symbol in labelled_runs(scale) if run.workers in WORKERS]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take every window."""
        runs, symbols = zip(*self._labelled(scale), strict=True)
        found = with_run_columns(results.drop(columns="stream"), runs, stream=symbols)
        found = found.assign(time=found.slot_end / found.messages)
        found = found.rename(columns={"imbalance": "I", "window_imbalance": "window_I"})
        return over_seeds(found, ["stream", "scheme", "workers", "slot"], ["time", "I", "window_I"]).drop(
            columns=["time_low", "time_high"]
        )

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one column per stream, one row per number of workers, and the imbalance within windows below."""
        streams = list(table.stream.unique())
        streams = [symbol for symbol in ("WP", "TW", "CT") if symbol in streams] or streams
        rows = [*((n, "I") for n in WORKERS), (WORKERS[-1], "window_I")]
        picture, axes = style.grid(len(rows), len(streams), 2.9, 1.9, "imbalance", sharex=True, sharey=True)
        for row, (n, value) in enumerate(rows):
            for column, stream in enumerate(streams):
                panel = axes[row, column]
                for scheme in SCHEMES:
                    line = table[(table.stream == stream) & (table.workers == n) & (table.scheme == scheme)]
                    style.line(panel, line.time, line[value], scheme)
                style.log_imbalance(panel)
                panel.set_title(f"{stream}, n = {n}" + (", within windows" if value == "window_I" else ""))
        for panel in axes[-1]:
            panel.set_xlabel("fraction of the stream")
        style.legend_below(picture, axes[0, 0], columns=3)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the answers to the paper's question Q3 over time."""
        settled = table[(table.slot > SETTLED) & (table.workers >= 50)]
        groups = settled.groupby(["stream", "scheme", "workers"])
        change = groups.I.max() / groups.I.min()  # infinite if a line touches 0
        change = change.fillna(1.0)  # 0 throughout
        steady = float((change <= STABLE).mean())
        by_scheme = (change <= STABLE).groupby("scheme").mean()
        stream, scheme, n = change.idxmax()
        verdicts = [
            judge(
                f"The imbalance is stable over time (largest I(t) at most {STABLE:.0f} × the smallest)",
                "Fig. 12, Q3",
                f"after the first fifth of the stream so in {100 * steady:.0f} % of the {len(change)} lines for n = 50 "
                "and 100 ("
                + ", ".join(f"{ABBREVIATIONS[one]} {100 * share:.0f} %" for one, share in by_scheme.items())
                + f"); largest factor {number(change.max())} ({stream}, {ABBREVIATIONS[scheme]}, n = {n})",
                steady == 1,
                in_part=steady >= 0.5,
                words="overall the imbalance remains relatively stable throughout the simulation",
                why="I(t) counts from the start of the stream. On a stream that does not drift, D-C and W-C are off by "
                "about the same number of messages throughout, so their I(t) falls as the stream gets longer. On a "
                "stream that drifts, it jumps when the hot keys change, and W-C makes up for it again.",
            )
        ]
        if {"WP", "TW", "CT"} <= set(table.stream.unique()):
            means = settled.groupby(["stream", "scheme"]).window_I.mean().unstack()
            ours = means[["d-choices", "w-choices"]]
            times = (ours.loc["CT"] / ours.drop(index="CT").max()).min()
            verdicts.append(
                judge(
                    "Drift is visible on CT",
                    "Fig. 12, Q3",
                    f"the imbalance within windows is at least {number(float(times))} × as large on CT as on WP "
                    "and TW (D-C and W-C)",
                    bool(times >= STABLE),
                    in_part=bool(times >= 1),
                    words="the concept drift in the CT dataset makes the task harder",
                    why="The streams are too short to learn their hot keys.",
                    check="We put this drift into the look-alike: that we see it again says nothing about CT.",
                )
            )
        return verdicts
