"""Figure 6: replicas of D-Choices and W-Choices relative to shuffle grouping, by the exact Zipf law."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.figure_05 import SCHEMES, WORKERS, replicas

AT_LEAST = 80.0
"""The saving in % that the paper claims for the worst case."""


class Figure06(Figure):
    """Replicas saved relative to SG, against skew."""

    name = "6"
    label = "Figure 6"
    title = "Replicas of D-Choices and W-Choices relative to shuffle grouping"
    paper = (
        "Both need a fraction of the replicas of shuffle grouping: even in the worst case they save 80 %. "
        "The saving is larger with more workers."
    )
    method = (
        "The memory model and the Zipf law of figure 5, compared with the replicas of shuffle grouping, Σ min(f_k, n), "
        "for expected counts (not rounded). The numbers are the same at every scale. The saving is smaller at high "
        "skew because most keys are then too rare to reach all workers."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Compute the replicas of each scheme and of SG."""
        return replicas(WORKERS, "shuffle")

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one panel per number of workers."""
        picture, axes = style.grid(1, len(WORKERS), 2.75, 2.8, "replicas relative to SG (%)", skew=True, sharey=True)
        for panel, workers in zip(axes[0], WORKERS, strict=True):
            for scheme in SCHEMES:
                line = table[(table["workers"] == workers) & (table["scheme"] == scheme)]
                style.line(panel, line["skew"], line["difference_percent"], scheme)
            style.reference_line(panel, -AT_LEAST, f"{AT_LEAST:.0f} % fewer")
            panel.set(ylim=(-100, -75), title=f"n = {workers}")
        style.legend_below(picture, axes[0, 0])
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the smallest saving, and the saving with more workers."""
        worst = table.sort_values("difference_percent", kind="stable").iloc[-1]
        saving = -float(worst["difference_percent"])
        short = table[-table["difference_percent"] < AT_LEAST]
        by_workers = table.pivot(index=["scheme", "skew"], columns="workers", values="difference_percent")
        few, many = WORKERS
        gains = by_workers[few] - by_workers[many]
        return [
            judge(
                f"At least {AT_LEAST:.0f} % fewer replicas than shuffle grouping",
                "Fig. 6",
                f"at least {saving:.1f} % fewer ({SCHEMES[worst['scheme']]}, n = {worst['workers']}, "
                f"z = {worst['skew']:.1f})",
                saving >= AT_LEAST,
                in_part=round(saving) >= AT_LEAST,
                words="In the worst case, D-C and W-C still use 80% less memory than SG",
                why=f"{len(short)} of {len(table)} settings fall short of {AT_LEAST:.0f} %, by at most "
                f"{AT_LEAST - saving:.2g} points: {_settings(short)}.",
            ),
            judge(
                "The saving is larger with more workers",
                "Sec. 4.2",
                f"n = {many} saves {gains.min():.1f} to {gains.max():.1f} percentage points more than n = {few}",
                bool((gains > 0).all()),
                in_part=bool((gains > 0).any()),
                words="the overhead compared to SG is negligible, especially at larger scales",
                why="At some skews the saving is smaller with more workers.",
            ),
        ]


def _settings(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{SCHEMES[str(scheme)]} at n = {workers} for z = {', '.join(f'{skew:.1f}' for skew in found['skew'])}"
        for (workers, scheme), found in rows.groupby(["workers", "scheme"])
    )
