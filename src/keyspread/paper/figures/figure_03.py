"""Figure 3: the number of keys in the head, by the exact Zipf law."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import PAPER_SKEWS, Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import KEYS
from keyspread.streams import zipf_probabilities

WORKERS = (50, 100)
THRESHOLDS = {"2/n": 2.0, "1/(5n)": 0.2}
"""The ends of the paper's range, as multiples of 1/n."""
FEW = 0.01
"""Our reading of 'a small number of keys': at most this share of all keys."""


class Figure03(Figure):
    """Number of keys with a share of at least θ, against skew."""

    name = "3"
    label = "Figure 3"
    title = "Size of the head against skew"
    paper = (
        "The head, the keys that are assigned to more than two workers, is small. With θ = 1/(5n) it cannot have more "
        "than 5n keys, and has far fewer if the stream is skewed. With more skew it first grows, then shrinks."
    )
    method = (
        "The number of keys with p_k ≥ θ in the exact Zipf law over 10⁴ keys. No stream is drawn, so the numbers are "
        "the same at every scale and do not depend on the number of messages."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Count the keys above each threshold, and their share of the messages."""
        rows = []
        for skew in PAPER_SKEWS:
            law = zipf_probabilities(skew, KEYS)
            for workers in WORKERS:
                for threshold, numerator in THRESHOLDS.items():
                    head = law[law >= numerator / workers]
                    rows.append((skew, workers, threshold, head.size, float(head.sum())))
        return pd.DataFrame(rows, columns=["skew", "workers", "threshold", "head", "head_share"])

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one line per number of workers and threshold."""
        picture, panel = style.one_panel("keys in the head", skew=True)
        for look, (workers, threshold) in enumerate((n, t) for t in reversed(THRESHOLDS) for n in reversed(WORKERS)):
            line = _line(table, workers, threshold)
            style.line(panel, line["skew"], line["head"], look, f"n = {workers}, θ = {threshold}")
        panel.set_ylim(0, None)
        style.legend_below(picture, panel, columns=2)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the size of the head."""
        most = {n: int(table.loc[table["workers"] == n, "head"].max()) for n in WORKERS}
        hot = _line(table, 100, "1/(5n)")
        top = hot.sort_values("head", kind="stable", ascending=False).iloc[0]
        heads = [_line(table, n, threshold)["head"].tolist() for n in WORKERS for threshold in THRESHOLDS]
        return [
            judge(
                "The head never has more than 5n keys",
                "Sec. 3.1",
                ", ".join(f"at most {found} of {5 * n} at n = {n}" for n, found in most.items()),
                all(found <= 5 * n for n, found in most.items()),
                words="the head will be comprised only by 5n keys",
                why="At some skew more than 5n keys reach the threshold.",
                check="Arithmetic: shares of at least 1/(5n) add up to at most 1, so this cannot fail.",
            ),
            judge(
                f"Only few keys are in the head: at most {100 * FEW:.0f} % of all keys, n = 100, θ = 1/(5n)",
                "Fig. 3",
                f"at most {top['head']:.0f} of {KEYS:,} keys (z = {top['skew']:.1f}); {hot['head'].iloc[-1]} at z = "
                "2.0",
                bool(hot["head"].max() <= FEW * KEYS),
                words="we need to pay the price of added replication only for a small number of keys",
                why=f"The head has over {100 * FEW:.0f} % of the keys.",
            ),
            judge(
                "With more skew the head first grows, then shrinks",
                "Sec. 4.2",
                f"n = 100, θ = 1/(5n): {hot['head'].iloc[0]} keys at z = 0.1, {top['head']:.0f} at z = "
                f"{top['skew']:.1f}, {hot['head'].iloc[-1]} at z = 2.0",
                all(_rises_then_falls(head) for head in heads),
                in_part=_rises_then_falls(hot["head"].tolist()),
                words="initially more keys pass the frequency threshold θ, but later only a few keys become dominant",
                why="With one of the thresholds the size of the head has no peak, or more than one.",
            ),
        ]


def _line(table: pd.DataFrame, workers: int, threshold: str) -> pd.DataFrame:
    return table[(table["workers"] == workers) & (table["threshold"] == threshold)]


def _rises_then_falls(values: list[int]) -> bool:
    peak = values.index(max(values))
    up, down = values[: peak + 1], values[peak:]
    return up == sorted(up) and down == sorted(down, reverse=True) and up[0] < up[-1] > down[-1]
