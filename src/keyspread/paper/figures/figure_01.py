"""Figure 1: imbalance on the page visits of Wikipedia. Two choices are enough for few workers but not for many."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import ends, number, over_seeds
from keyspread.paper.runs.run import Run, grid

WORKERS = (5, 10, 20, 50, 100)
SCHEMES = ("partial-key", "d-choices", "w-choices")
BALANCED = 1e-3  # the paper's 'smaller than 0.1 %'


class Figure01(Figure):
    """Imbalance on WP against the number of workers."""

    name = "1"
    label = "Figure 1"
    title = "Imbalance on WP against the number of workers"
    paper = (
        "PKG balances 5 and 10 workers but fails at 20, 50 and 100, where its imbalance gets close to 10 %. The "
        "imbalance of D-C and W-C stays below 0.1 % (dotted line) at all scales."
    )
    method = (
        "WP cannot be redistributed. This is a look-alike with the same number of messages, number of keys and p_1, or "
        "your own wikibench trace (--input). The plot shows the imbalance I at the end of the stream: the median over "
        "seeds, and the range over seeds as a band."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Return every scheme at every number of workers."""
        return [
            run
            for seed in scale.seeds
            for run in grid([scale.wikipedia_stream(seed)], scheme=SCHEMES, workers=WORKERS, seed=seed)
        ]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take I at the end, and the share of the hottest key, which limits what two choices can do."""
        found = ends(results).rename(columns={"final_imbalance": "I"})
        found = found.assign(p1=found.top_messages / found.messages)
        return over_seeds(found, ["stream", "scheme", "workers"], ["I", "p1"])

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one line per scheme on a log scale, as in the paper."""
        picture, panel = style.one_panel("imbalance I(m)")
        for scheme in SCHEMES:
            line = table[table.scheme == scheme]
            style.line(panel, range(len(WORKERS)), line.I, scheme, low=line.I_low, high=line.I_high)
        style.reference_line(panel, BALANCED, "0.1 %, the paper's limit for D-C and W-C")
        style.each_value(panel, WORKERS)
        panel.set(xlabel="workers", title=table.stream.iloc[0])
        style.log_imbalance(panel)
        style.legend_below(picture, panel)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the claims of the caption and of the introduction."""
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
                words="at small scales (5 or 10) PKG manages to keep the system balanced",
                why="p_1 is above 2/n: two workers cannot hold the hottest key.",
            ),
            judge(
                "PKG fails with 20 or more workers",
                "Fig. 1",
                f"I = {number(pkg[20])} at 20, {number(pkg[50])} at 50, {number(pkg[100])} at 100",
                pkg[20] >= BALANCED and min(pkg[50], pkg[100]) >= 2e-2,
                in_part=bool(min(pkg[50], pkg[100]) >= 2e-2),
                words="at larger scales (20, 50 or 100 workers) the imbalance grows significantly",
                why=f"With 20 workers, two of them can just hold the hottest key: p_1 = {100 * p1:.2f} % is below "
                "2/n = 10 %. The paper's trace may have other hot keys on the same workers; we do not have it.",
            ),
            judge(
                "PKG's imbalance gets close to 10 %",
                "Sec. 1",
                f"at most {100 * most:.1f} %",
                most >= 0.08,
                in_part=False,
                words="at larger scales … the imbalance grows significantly and gets close to 10%",
                why=f"Two workers share the hottest key, so it causes an imbalance of about p_1/2 - 1/n = "
                f"{100 * bound:.1f} %. Close to 10 % would need the whole key on one worker, which is key grouping.",
            ),
            judge(
                "D-C and W-C stay below 0.1 %",
                "Fig. 1",
                f"at most {number(ours.I.max())} (any seed: {number(ours.I_high.max())})",
                bool(ours.I.max() < BALANCED),
                words="very low imbalance (smaller than 0.1%) even on very large clusters",
                why="Several choices of a hot key are the same worker, which the computation of d does not foresee.",
            ),
        ]
