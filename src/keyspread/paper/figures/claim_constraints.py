"""A claim of Sec. 4.1: among the constraints of Prop. 4.1, those of the hottest key and of the whole head decide d."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from keyspread.checks import default_threshold
from keyspread.choices import expected_workers, find_choices
from keyspread.paper.figures import style
from keyspread.paper.figures.figure import PAPER_SKEWS, Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import KEYS
from keyspread.streams import zipf_probabilities

WORKERS = (10, 20, 50, 100)
TOLERANCE = 1e-4


class ClaimConstraints(Figure):
    """Which prefix of the head determines d."""

    name = "constraints"
    title = "Which constraint of Prop. 4.1 determines d"
    label = "Claim, Sec. 4.1"
    paper = "In practice the tight constraints are those for h = 1, the hottest key, and for h = |H|, the whole head."
    method = (
        "Exact Zipf laws over 10⁴ keys. d is the smallest value that satisfies all constraints, so d - 1 violates at "
        "least one of them. The plot shows the prefix h of the most violated one, relative to the head: 0 is h = 1, "
        "1 is h = |H|."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Evaluate the constraints at d - 1 wherever d is above its lower limit of 2."""
        rows = []
        for n in WORKERS:
            for skew in PAPER_SKEWS:
                shares = zipf_probabilities(skew, KEYS)
                head = shares[shares >= default_threshold(n) * (1 - 1e-12)]
                d = find_choices(head, n, TOLERANCE)
                if not head.size or d <= 2:
                    continue
                excess = _excess(head, n, d - 1)
                violated = np.flatnonzero(excess > 0) + 1
                rows.append(
                    {
                        "workers": n,
                        "skew": skew,
                        "head": head.size,
                        "d": d,
                        "violated": violated.size,
                        "first": bool(1 in violated),
                        "whole": bool(head.size in violated),
                        "most_violated": int(np.argmax(excess)) + 1,
                    }
                )
        columns = ["workers", "skew", "head", "d", "violated", "first", "whole", "most_violated"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw the position of the most violated constraint in the head."""
        # One panel per number of workers: on one panel the lines would cover each other at h = 1.
        picture, axes = style.grid(1, len(WORKERS), 2.5, 2.2, "most violated prefix h", skew=True, sharey=True)
        for panel, n in zip(axes[0], WORKERS, strict=True):
            line = table[table.workers == n]
            position = (line.most_violated - 1) / (line["head"] - 1).clip(lower=1)
            style.line(panel, line["skew"], position, 0, label="")
            panel.set_title(f"n = {n}")
        axes[0, 0].set_ylim(-0.05, 1.05)
        axes[0, 0].set_yticks([0, 0.5, 1], ["h = 1", "", "h = |H|"])
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether these two constraints alone give the same d."""
        ends = table["first"] | table["whole"]
        between = table[~ends]
        where = ", ".join(f"n = {row.workers}, z = {row.skew}: h = {row.most_violated}" for row in between.itertuples())
        return [
            judge(
                "The constraints for h = 1 and h = |H| determine d",
                "Sec. 4.1",
                f"d - 1 violates one of them in {int(ends.sum())} of {len(table)} settings with d > 2 "
                f"(h = 1 in {int(table['first'].sum())}, h = |H| in {int(table['whole'].sum())})",
                bool(ends.all()),
                in_part=bool(ends.mean() >= 0.5),
                words="In practice, the tight constraints are the ones for h=1, the most frequent key, and for h=|H|",
                why=f"In the other settings d - 1 only violates a constraint between the two: {where}.",
            )
        ]


def _excess(head: npt.NDArray[np.float64], workers: int, d: int) -> npt.NDArray[np.float64]:
    """Return how far d violates the constraint of every prefix: left side / right side - 1."""
    prefix = np.cumsum(head)
    tail = 1 - prefix[-1]
    b = np.array([expected_workers(workers, h * d) for h in range(1, head.size + 1)])
    left = prefix + (b / workers) ** d * (prefix[-1] - prefix) + (b / workers) ** 2 * tail
    right = b * (1 / workers + TOLERANCE)
    return np.asarray(left / right - 1)
