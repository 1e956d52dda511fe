"""Figure 7: imbalance of W-C and RR against skew, for several thresholds of the head."""

from itertools import pairwise

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import EVEN_ENOUGH, KEYS, ends, number, over_seeds, with_run_columns
from keyspread.paper.figures.style import ABBREVIATIONS
from keyspread.paper.runs.run import Run
from keyspread.streams import ZipfStream

WORKERS = (5, 10, 50, 100)
SCHEMES = ("w-choices", "round-robin")
THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/(2n)": 0.5, "1/(4n)": 0.25, "1/(8n)": 0.125}  # times 1/n


class Figure07(Figure):
    """Imbalance against skew, by threshold."""

    name = "7"
    label = "Figure 7"
    title = "Imbalance against skew for thresholds from 2/n to 1/(8n), W-C and RR"
    paper = (
        "A lower threshold reduces the imbalance. W-C is ideal with any threshold of at most 1/n, at every skew and "
        "scale. RR, which ignores the loads, is worse, and even more so with more workers."
    )
    method = (
        "Zipf streams over 10⁴ keys; I at the end of the stream, median over seeds. We read 'ideal' as I·n ≤ 1 %: the "
        "busiest worker has at most 1 % more than its even share. The paper does not list its numbers of workers here."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Return every scheme with every threshold, number of workers and skew."""
        return [run for run, _ in self._labelled(scale)]

    def _labelled(self, scale: Scale) -> list[tuple[Run, str]]:
        return [
            (Run.of(ZipfStream(skew, KEYS, scale.messages, seed), scheme, n, seed=seed, threshold=times / n), label)
            for seed in scale.seeds
            for skew in scale.skews
            for scheme in SCHEMES
            for n in WORKERS
            for label, times in THRESHOLDS.items()
        ]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take I at the end."""
        runs, labels = zip(*self._labelled(scale), strict=True)
        found = with_run_columns(ends(results), runs, theta=labels).rename(columns={"final_imbalance": "I"})
        return over_seeds(found, ["scheme", "workers", "theta", "skew"], ["I"])

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one column per number of workers, W-C above RR."""
        picture, axes = style.grid(2, len(WORKERS), 2.5, 2.2, "imbalance I(m)", skew=True, sharex=True, sharey=True)
        for row, scheme in enumerate(SCHEMES):
            for column, n in enumerate(WORKERS):
                panel = axes[row, column]
                for look, theta in enumerate(THRESHOLDS):
                    line = table[(table.scheme == scheme) & (table.workers == n) & (table.theta == theta)]
                    style.over_seeds(panel, line, "skew", "I", look, f"θ = {theta}")
                style.log_imbalance(panel)
                panel.set_title(f"{ABBREVIATIONS[scheme]}, n = {n}")
        style.legend_below(picture, axes[0, 0], columns=5)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the answers to the paper's question Q1."""
        relative = table.assign(rel=table.I * table.workers)
        wc, rr = relative[relative.scheme == "w-choices"], relative[relative.scheme == "round-robin"]
        low = wc[wc.theta != "2/n"]
        at_1 = wc[wc.theta == "1/n"]
        worst = low.loc[low.rel.idxmax()]
        uneven = low[low.rel > EVEN_ENOUGH]
        by_theta = {scheme: _mean_by_theta(relative[relative.scheme == scheme]) for scheme in SCHEMES}
        falls = {scheme: all(a >= b * 0.95 for a, b in pairwise(m)) for scheme, m in by_theta.items()}
        same = rr.merge(wc, on=["workers", "theta", "skew"], suffixes=("_rr", "_wc"))
        same = same[(same.theta != "2/n") & (same[["rel_rr", "rel_wc"]].max(axis=1) > EVEN_ENOUGH / 10)]
        worse = float((same.I_rr > same.I_wc).mean()) if len(same) else 0.0
        most = {n: float(rr[(rr.workers == n) & (rr.theta == "1/(8n)")].rel.max()) for n in WORKERS}
        return [
            judge(
                "W-C is ideal with any threshold of at most 1/n",
                "Fig. 7, Q1",
                f"I·n at most {100 * worst.rel:.2g} % (n = {worst.workers}, z = {worst['skew']}, θ = {worst.theta})",
                uneven.empty,
                in_part=len(uneven) <= 0.1 * len(low),
                words="W-C achieves ideal load balance for any threshold θ ≤ 1/n",
                why=f"I·n is above 1 % at {len(uneven)} of {len(low)} points.",
            ),
            judge(
                "A threshold of 1/n is enough for W-C in any setting",
                "Sec. 5, Q1",
                f"I·n at most {100 * at_1.rel.max():.2g} % at θ = 1/n",
                bool(at_1.rel.max() <= EVEN_ENOUGH),
                in_part=bool((at_1.rel <= EVEN_ENOUGH).mean() >= 0.9),
                words="a threshold of 1/n is enough for W-C to achieve low imbalance in any setting of skew and scale",
                why="At the start of a stream, and for a key just below the threshold, two choices have to be enough.",
            ),
            judge(
                "RR is worse than W-C",
                "Fig. 7, Q1",
                f"at {100 * worse:.0f} % of the {len(same)} points where I·n of either is above 0.1 %",
                worse >= 0.9,
                in_part=worse >= 0.6,
                words="even for low thresholds, W-C behaves better than RR",
                why="Where both have almost no imbalance, it is chance which one is lower.",
            ),
            judge(
                "RR gets worse with more workers",
                "Fig. 7, Q1",
                "largest I·n at θ = 1/(8n): " + ", ".join(f"{number(value)} (n = {n})" for n, value in most.items()),
                most[WORKERS[-1]] == max(most.values()) and most[WORKERS[-1]] > 3 * most[WORKERS[0]],
                in_part=most[WORKERS[-1]] > most[WORKERS[0]],
                words=(
                    "more evident at larger scales, where RR starts generating imbalance even under modest levels of "
                    "skew"
                ),
                why="Its imbalance does not grow with the number of workers.",
            ),
            judge(
                "A lower threshold reduces the imbalance",
                "Fig. 7, Q1",
                "; ".join(
                    f"{ABBREVIATIONS[scheme]}: mean I·n " + " → ".join(number(value) for value in means)
                    for scheme, means in by_theta.items()
                )
                + " from θ = 2/n to 1/(8n)",
                all(falls.values()),
                in_part=any(falls.values()) or all(means[0] > means[-1] for means in by_theta.values()),
                words="reducing the threshold reduces the imbalance",
                why="Once W-C is ideal there is nothing left to gain, and only noise remains.",
            ),
        ]


def _mean_by_theta(table: pd.DataFrame) -> list[float]:
    return [float(table[table.theta == theta].rel.mean()) for theta in THRESHOLDS]
