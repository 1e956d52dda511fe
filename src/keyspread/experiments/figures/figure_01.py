"""Figure 1: two choices are enough for a few workers, not for many, on page visits of Wikipedia."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.evaluation.run import Run, grid
from keyspread.experiments.figure import Figure
from keyspread.experiments.figures.points import ends, number, over_seeds
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (5, 10, 20, 50, 100)
SCHEMES = ("partial-key", "d-choices", "w-choices")
BALANCED = 1e-3  # the paper's 'smaller than 0.1 %'


class Figure01(Figure):
    """Imbalance on WP against the number of workers."""

    name = "1"
    label = "Figure 1"
    title = "Imbalance on WP against the number of workers"
    paper = (
        "PKG keeps a small deployment of 5 or 10 workers balanced and fails at 20, 50 and 100, where its imbalance "
        "gets close to 10 %; D-C and W-C stay below 0.1 % throughout."
    )
    made = (
        "WP cannot be redistributed: this is a look-alike with its number of messages and keys and its p_1, or your "
        "own wikibench trace with --data. I at the end of the stream, median over seeds, all seeds in the band."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Every scheme at every number of workers."""
        return [
            run
            for seed in scale.seeds
            for run in grid([scale.wikipedia_stream(seed)], scheme=SCHEMES, workers=WORKERS, seed=seed)
        ]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take I at the end; and the share of the hottest key, which bounds what two choices can do."""
        found = ends(results).rename(columns={"final_imbalance": "I"})
        found = found.assign(p1=found.top_messages / found.messages)
        return over_seeds(found, ["stream", "scheme", "workers"], ["I", "p1"])

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw as in the paper: log scale, a line a scheme."""
        from keyspread.report import style

        made, axes = style.picture(width=4.6, height=3.0)
        for scheme in SCHEMES:
            own = table[table.scheme == scheme]
            style.line(axes[0, 0], range(len(WORKERS)), own.I, scheme, low=own.I_low, high=own.I_high)
        axes[0, 0].axhline(BALANCED, color="#888888", linewidth=0.8, linestyle=":")
        axes[0, 0].set_xticks(range(len(WORKERS)), [str(workers) for workers in WORKERS])
        axes[0, 0].set(xlabel="workers", ylabel="imbalance I(m)", title=table.stream.iloc[0])
        style.log_imbalance(axes[0, 0])
        axes[0, 0].legend(loc="upper left")
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the caption and the introduction."""
        pkg = table[table.scheme == "partial-key"].set_index("workers").I
        ours = table[table.scheme != "partial-key"]
        p1 = float(table.p1.iloc[0])
        most = float(pkg.max())
        bound = max(p1 / 2 - 1 / n for n in WORKERS)
        return [
            judge(
                "PKG balances 5 and 10 workers (I < 0.1 %)",
                "Fig. 1",
                f"I = {number(pkg[5])} and {number(pkg[10])}",
                pkg[5] < BALANCED and pkg[10] < BALANCED,
                why="p_1 is over 2/n already.",
            ),
            judge(
                "PKG fails from 20 workers on",
                "Fig. 1",
                f"I = {number(pkg[20])} at 20, {number(pkg[50])} at 50, {number(pkg[100])} at 100",
                pkg[20] >= BALANCED and min(pkg[50], pkg[100]) >= 2e-2,
                in_part=bool(min(pkg[50], pkg[100]) >= 2e-2),
                why=f"At 20 workers two of them can just hold the hottest key: p_1 = {100 * p1:.2f} % is below "
                "2/n = 10 %. The paper's own trace is not at hand to see what else was hot on these two.",
            ),
            judge(
                "PKG's imbalance gets close to 10 %",
                "Sec. 1",
                f"at most {100 * most:.1f} %",
                most >= 0.08,
                in_part=False,
                why=f"Two workers share the hottest key, so about p_1/2 - 1/n = {100 * bound:.1f} % is what it can "
                "cause; close to 10 % would need all of it on one worker, which is key grouping.",
            ),
            judge(
                "D-C and W-C stay below 0.1 %",
                "Fig. 1",
                f"at most {number(ours.I.max())} (any seed: {number(ours.I_high.max())})",
                bool(ours.I.max() < BALANCED),
                why="Both choices of a hot key met on one worker, which d does not foresee.",
            ),
        ]
