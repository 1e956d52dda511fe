"""Figure 4: how many of the workers D-Choices gives a hot key, by the exact Zipf law."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.choices import find_choices
from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import zipf_probabilities
from keyspread.threshold import default_threshold

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SKEWS = tuple(tenths / 10 for tenths in range(1, 21))
KEYS = 10**4
WORKERS = (5, 10, 50, 100)
LARGE = (50, 100)
TOLERANCE = 1e-4
NEARLY_ALL = 0.9
"""What we call a large d: this share of the workers."""


class Figure04(Figure):
    """d/n of D-Choices against skew."""

    name = "4"
    label = "Figure 4"
    title = "Share of the workers that a hot key may use"
    paper = (
        "D-Choices finds the d it needs from the law. That is fewer workers than W-Choices and Round-Robin use for a "
        "hot key; at 50 and 100 workers d is below n at any skew. A very skewed stream needs a large d."
    )
    made = (
        "Computed by find_choices from the exact law: Zipf over 10⁴ keys, θ = 1/(5n), ε = 10⁻⁴. The same at every "
        "scale. d is never below 2, so the lines start at 2/n; d = n means that D-Choices has become W-Choices."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Compute d for each skew and number of workers."""
        rows = []
        for skew in SKEWS:
            law = zipf_probabilities(skew, KEYS)
            for workers in WORKERS:
                head = law[law >= default_threshold(workers)]
                choices = find_choices(head, workers, TOLERANCE)
                rows.append((skew, workers, head.size, choices, choices / workers))
        return pd.DataFrame(rows, columns=["skew", "workers", "head", "choices", "share_of_workers"])

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw a line for each number of workers."""
        from keyspread.report import style

        made, axes = style.picture(width=5.4, height=3.4)
        for look, workers in enumerate(WORKERS):
            line = table[table["workers"] == workers]
            style.line(axes[0, 0], line["skew"], line["share_of_workers"], look, f"n = {workers}")
        axes[0, 0].set(xlim=(0, 2.1), xticks=(0.5, 1.0, 1.5, 2.0), xlabel="skew z")
        axes[0, 0].set(ylim=(0, 1.05), ylabel="d / n")
        style.legend_below(made, axes[0, 0])
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether d saves workers, where, and how it grows."""
        lines = {n: table[table["workers"] == n] for n in WORKERS}
        below = {n: int((line["choices"] < n).sum()) for n, line in lines.items()}
        full_from = {
            n: line.loc[line["choices"] >= n, "skew"].min() for n, line in lines.items() if below[n] < len(line)
        }
        most = {n: lines[n].sort_values("choices", kind="stable").iloc[-1] for n in LARGE}
        ends = {n: float(line["share_of_workers"].iloc[-1]) for n, line in lines.items()}
        saves = all(below[n] == len(lines[n]) for n in LARGE)
        return [
            judge(
                "At 50 and 100 workers d is below n at every skew",
                "Sec. 4.2",
                "; ".join(
                    f"n = {n}: d/n at most {top['share_of_workers']:.2f} "
                    f"(d = {top['choices']:.0f}, z = {top['skew']:.1f})"
                    for n, top in most.items()
                ),
                saves,
                why="The head needs all workers at some skew.",
            ),
            judge(
                "D-Choices uses fewer workers for a hot key than W-Choices and Round-Robin",
                "Sec. 4.2",
                "d < n at " + ", ".join(f"{below[n]} of {len(line)} skews (n = {n})" for n, line in lines.items()),
                all(below[n] == len(line) for n, line in lines.items()),
                in_part=saves and bool((table["choices"] <= table["workers"]).all()),
                why="No smaller d is enough "
                + " and ".join(f"at n = {n} from z = {skew:.1f} on" for n, skew in full_from.items())
                + ": there D-Choices becomes W-Choices, as the paper's own rule says.",
            ),
            judge(
                "More skew needs a larger d, close to n at very high skew",
                "Sec. 4.1",
                "d/n at z = 2.0: " + ", ".join(f"{end:.2f} (n = {n})" for n, end in ends.items()),
                all(line["choices"].is_monotonic_increasing for line in lines.values())
                and all(end >= NEARLY_ALL for end in ends.values()),
                why="d falls somewhere as skew grows, or stays well below n.",
            ),
        ]
