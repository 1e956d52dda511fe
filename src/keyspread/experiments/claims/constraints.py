"""A claim of Sec. 4.1: of the constraints of Prop. 4.1, those of the hottest key and of the whole head decide."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from keyspread import expected_workers, find_choices
from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import zipf_probabilities
from keyspread.threshold import default_threshold

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (10, 20, 50, 100)
KEYS = 10_000
TOLERANCE = 1e-4
SKEWS = tuple(tenths / 10 for tenths in range(1, 21))


class ClaimConstraints(Figure):
    """Which prefix of the head forces d up."""

    name = "constraints"
    title = "Which constraint of Prop. 4.1 decides d"
    label = "Claim, Sec. 4.1"
    paper = "In practice the tight constraints are those of h = 1, the hottest key, and of h = |H|, the whole head."
    made = (
        "Exact Zipf laws over 10⁴ keys. d is the least that satisfies all constraints, so with d - 1 at least one is "
        "violated. Shown is the position in the head, 0 for h = 1 and 1 for h = |H|, of the most violated one."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Look at d - 1 wherever the constraints, and not the least allowed value, decide d."""
        rows = []
        for n in WORKERS:
            for skew in SKEWS:
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

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw where in the head the most violated constraint lies."""
        from keyspread.report import style

        made, axes = style.picture(width=4.6, height=2.8)
        for look, n in enumerate(WORKERS):
            own = table[table.workers == n]
            place = (own.most_violated - 1) / (own["head"] - 1).clip(lower=1)
            style.line(axes[0, 0], own["skew"], place, look, label=f"n = {n}")
        axes[0, 0].set(xlabel="skew z", ylabel="place of h in the head", ylim=(-0.05, 1.05))
        axes[0, 0].set_yticks([0, 0.5, 1], ["h = 1", "", "h = |H|"])
        axes[0, 0].legend(loc="center right", fontsize=8)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Ask whether looking at these two alone would have given the same d."""
        ends = table["first"] | table["whole"]
        between = table[~ends]
        where = ", ".join(f"n = {row.workers}, z = {row.skew}: h = {row.most_violated}" for row in between.itertuples())
        return [
            judge(
                "The constraints of h = 1 and h = |H| decide d",
                "Sec. 4.1",
                f"one of them is violated by d - 1 in {int(ends.sum())} of {len(table)} settings in which any is "
                f"(h = 1 in {int(table['first'].sum())}, h = |H| in {int(table['whole'].sum())})",
                bool(ends.all()),
                in_part=bool(ends.mean() >= 0.5),
                why=f"Elsewhere only a prefix between the two is violated: {where}.",
            )
        ]


def _excess(head: npt.NDArray[np.float64], workers: int, d: int) -> npt.NDArray[np.float64]:
    """Give the left minus the right side of the constraint of every prefix, as a share of the right side."""
    prefix = np.cumsum(head)
    tail = 1 - prefix[-1]
    b = np.array([expected_workers(workers, h * d) for h in range(1, head.size + 1)])
    left = prefix + (b / workers) ** d * (prefix[-1] - prefix) + (b / workers) ** 2 * tail
    right = b * (1 / workers + TOLERANCE)
    return np.asarray(left / right - 1)
