"""Figure 12: imbalance over time on the real streams."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.evaluation.run import Run
from keyspread.experiments.figure import Figure
from keyspread.experiments.figures.figure_11 import SCHEMES, labelled_runs
from keyspread.experiments.figures.points import number, over_seeds, with_run_columns
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (20, 50, 100)
SETTLED = 10  # of 50 slots: after the first fifth of the stream
STABLE = 3.0  # largest over smallest I(t) from then on
TOLERANCE = 1e-4


class Figure12(Figure):
    """Imbalance over time on WP, TW and CT."""

    name = "12"
    label = "Figure 12"
    title = "Imbalance over time on the real streams"
    paper = (
        "The imbalance stays about the same throughout. Large deployments are hard for PKG and easy for D-C and W-C; "
        "the drift of CT makes it harder for all."
    )
    made = (
        "The runs of figure 11, at the ends of 50 slots of equal message count: I(t) counts from the beginning, as in "
        "the paper; the last row shows the imbalance within each slot alone, where drift is seen at once. Medians over "
        "seeds."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Give those of figure 11 that are drawn here."""
        return [run for run, _ in self._labelled(scale)]

    @staticmethod
    def _labelled(scale: Scale) -> list[tuple[Run, str]]:
        return [(run, symbol) for run, symbol in labelled_runs(scale) if run.workers in WORKERS]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take every slot."""
        runs, symbols = zip(*self._labelled(scale), strict=True)
        found = with_run_columns(results.drop(columns="stream"), runs, stream=symbols)
        found = found.assign(time=found.slot_end / found.messages)
        found = found.rename(columns={"imbalance": "I", "window_imbalance": "slot_I"})
        return over_seeds(found, ["stream", "scheme", "workers", "slot"], ["time", "I", "slot_I"]).drop(
            columns=["time_low", "time_high"]
        )

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw a column a stream, a row a number of workers, and the slots' own imbalance below."""
        from keyspread.report import style

        streams = list(table.stream.unique())
        streams = [symbol for symbol in ("WP", "TW", "CT") if symbol in streams] or streams
        rows = [*((n, "I") for n in WORKERS), (WORKERS[-1], "slot_I")]
        made, axes = style.picture(len(rows), len(streams), width=2.9, height=1.9, sharex=True, sharey=True)
        for row, (n, value) in enumerate(rows):
            for column, stream in enumerate(streams):
                at = axes[row, column]
                for scheme in SCHEMES:
                    own = table[(table.stream == stream) & (table.workers == n) & (table.scheme == scheme)]
                    style.line(at, own.time, own[value], scheme)
                style.log_imbalance(at)
                at.set_title(f"{stream}, n = {n}" + (", within each slot" if value == "slot_I" else ""))
        for at in axes[-1]:
            at.set_xlabel("part of the stream")
        for at in axes[:, 0]:
            at.set_ylabel("imbalance")
        style.legend_below(made, axes[0, 0], columns=3)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the text of Q3."""
        settled = table[(table.slot > SETTLED) & (table.workers >= 50)]
        groups = settled.groupby(["stream", "scheme", "workers"])
        # What lies below the tolerance ε is balanced, however it moves.
        change = groups.I.max().clip(lower=TOLERANCE) / groups.I.min().clip(lower=TOLERANCE)
        steady = float((change <= STABLE).mean())
        verdicts = [
            judge(
                "The imbalance is stable over time",
                "Fig. 12, Q3",
                f"after the first fifth I(t) varies by a factor of {STABLE:.0f} or less in {100 * steady:.0f} % of the "
                f"lines (n = 50 and 100); most by {number(change.max())} ({', '.join(map(str, change.idxmax()))})",
                steady == 1,
                in_part=steady >= 0.5,
                why="Where the stream drifts, I(t) jumps when the hot keys change and is then made up for, by W-C in "
                "full; PKG gets better with time, because the surplus of each phase falls on other workers.",
            )
        ]
        if {"WP", "TW", "CT"} <= set(table.stream.unique()):
            slots = settled.groupby(["stream", "scheme"]).slot_I.mean().unstack()
            ours = slots[["d-choices", "w-choices"]]
            times = (ours.loc["CT"] / ours.drop(index="CT").max()).min()
            verdicts.append(
                judge(
                    "Drift is visible on CT",
                    "Fig. 12, Q3",
                    f"imbalance within a slot on CT at least {number(float(times))} × that on WP and TW (D-C and W-C)",
                    bool(times >= STABLE),
                    in_part=bool(times >= 1),
                    why="The stream is too short to learn its hot keys between two changes, or anywhere else.",
                )
            )
        return verdicts
