"""Figure 4: the share of the workers that D-Choices uses for a hot key, by the exact Zipf law."""

import pandas as pd

from keyspread.checks import default_threshold
from keyspread.choices import find_choices
from keyspread.paper.figures import style
from keyspread.paper.figures.figure import PAPER_SKEWS, Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import KEYS
from keyspread.streams import zipf_probabilities

WORKERS = (5, 10, 50, 100)
LARGE = (50, 100)
TOLERANCE = 1e-4
NEARLY_ALL = 0.9
"""Our reading of 'close to n', as a share of the workers."""


class Figure04(Figure):
    """d/n of D-Choices against skew."""

    name = "4"
    label = "Figure 4"
    title = "Share of the workers that D-Choices uses for a hot key"
    paper = (
        "D-Choices computes d from the distribution of the keys. It uses fewer workers per hot key than W-Choices and "
        "Round-Robin: with 50 and 100 workers d is below n at every skew. A very skewed stream needs a large d."
    )
    method = (
        "Computed by find_choices from the exact Zipf law over 10⁴ keys, with θ = 1/(5n) and ε = 10⁻⁴. The numbers are "
        "the same at every scale. d is at least 2, so the lines start at 2/n; with d = n, D-Choices is W-Choices."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Compute d for each skew and number of workers."""
        rows = []
        for skew in PAPER_SKEWS:
            law = zipf_probabilities(skew, KEYS)
            for workers in WORKERS:
                head = law[law >= default_threshold(workers)]
                choices = find_choices(head, workers, TOLERANCE)
                rows.append((skew, workers, head.size, choices, choices / workers))
        return pd.DataFrame(rows, columns=["skew", "workers", "head", "choices", "share_of_workers"])

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw one line per number of workers."""
        picture, panel = style.one_panel("d / n", skew=True)
        for look, workers in enumerate(WORKERS):
            line = table[table["workers"] == workers]
            style.line(panel, line["skew"], line["share_of_workers"], look, f"n = {workers}")
        panel.set_ylim(0, 1.05)
        style.legend_below(picture, panel)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge where d saves workers and how it grows."""
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
                "With 50 and 100 workers d is below n at every skew",
                "Sec. 4.2",
                "; ".join(
                    f"n = {n}: d/n at most {top['share_of_workers']:.2f} (d = {top['choices']:.0f}, z = "
                    f"{top['skew']:.1f})"
                    for n, top in most.items()
                ),
                saves,
                words="Especially at larger scales, n=50 and n=100 workers, d is always smaller than n",
                why="At some skew the head needs all workers.",
            ),
            judge(
                "D-Choices uses fewer workers per hot key than W-Choices and Round-Robin",
                "Sec. 4.2",
                "d < n at " + ", ".join(f"{below[n]} of {len(line)} skews (n = {n})" for n, line in lines.items()),
                all(below[n] == len(line) for n, line in lines.items()),
                in_part=saves and bool((table["choices"] <= table["workers"]).all()),
                words="D-Choices reduces the number of workers compared to W-Choices and Round-Robin",
                why="No d below n is enough "
                + " and ".join(f"with n = {n} from z = {skew:.1f}" for n, skew in full_from.items())
                + ". There D-Choices becomes W-Choices, as the paper's own rule says.",
            ),
            judge(
                "More skew needs a larger d, close to n at very high skew",
                "Sec. 4.1",
                "d/n at z = 2.0: " + ", ".join(f"{end:.2f} (n = {n})" for n, end in ends.items()),
                all(line["choices"].is_monotonic_increasing for line in lines.values())
                and all(end >= NEARLY_ALL for end in ends.values()),
                words="we need a large d",
                why="At some point d decreases with more skew, or it stays well below n.",
            ),
        ]
