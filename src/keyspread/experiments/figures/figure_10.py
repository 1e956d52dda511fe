"""Figure 10: imbalance against skew, for every number of workers and of keys."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.evaluation.run import Run, grid
from keyspread.experiments.figure import Figure
from keyspread.experiments.figures.points import EVEN_ENOUGH, ends, number, over_seeds
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import ZipfStream

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (5, 10, 50, 100)
KEYS = (10**4, 10**5, 10**6)
SCHEMES = ("partial-key", "d-choices", "w-choices", "round-robin")
HIGH_SKEW, MANY_WORKERS = 1.4, 50  # from which on the paper's text calls skew and scale large
MUCH_LOWER = 0.1
SAME_REPLICAS = 0.05


class Figure10(Figure):
    """The whole grid."""

    name = "10"
    label = "Figure 10"
    title = "Imbalance against skew, by number of workers and of keys"
    paper = (
        "W-C keeps the imbalance low whatever the setting and is the best. D-C and RR perform alike and stay much "
        "below PKG at high skew and scale. The number of keys makes no difference."
    )
    made = (
        "Zipf streams. The average imbalance, as in the text: the mean of I(t) at 50 equal slots of the stream; median "
        "over seeds, all seeds in the band."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Every scheme on every stream."""
        return [
            run
            for seed in scale.seeds
            for keys in KEYS
            for skew in scale.skews
            for run in grid([ZipfStream(skew, keys, scale.messages, seed)], scheme=SCHEMES, workers=WORKERS, seed=seed)
        ]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take the mean of I(t), I at the end, the windows' own imbalance, and the replicas."""
        found = ends(results).rename(
            columns={"mean_imbalance": "mean_I", "final_imbalance": "I", "windowed_imbalance": "windowed_I"}
        )
        by = ["scheme", "workers", "law_keys", "skew"]
        table = over_seeds(found, by, ["mean_I", "I", "windowed_I", "replicas"])
        return table.rename(columns={"law_keys": "keys"})

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw a row a number of keys, a column a number of workers."""
        from keyspread.report import style

        made, axes = style.picture(len(KEYS), len(WORKERS), width=2.5, height=2.0, sharex=True, sharey=True)
        for row, keys in enumerate(KEYS):
            for column, n in enumerate(WORKERS):
                at = axes[row, column]
                for scheme in SCHEMES:
                    own = table[(table.scheme == scheme) & (table.workers == n) & (table["keys"] == keys)]
                    style.line(at, own["skew"], own.mean_I, scheme, low=own.mean_I_low, high=own.mean_I_high)
                style.log_imbalance(at)
                at.set_title(f"n = {n}, |K| = {keys:.0e}".replace("e+0", "e"))
        for at in axes[-1]:
            at.set_xlabel("skew z")
        for at in axes[:, 0]:
            at.set_ylabel("mean imbalance")
        style.legend_below(made, axes[0, 0], columns=4)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge Q3 on the synthetic streams."""
        by_scheme = table.pivot(index=["workers", "keys", "skew"], columns="scheme", values="mean_I")
        relative = by_scheme.mul(by_scheme.index.get_level_values("workers"), axis=0)
        wc = relative["w-choices"]
        lowest = by_scheme["w-choices"] <= 1.5 * by_scheme.min(axis=1) + 1e-6
        level = by_scheme.index
        hard = by_scheme[
            (level.get_level_values("skew") >= HIGH_SKEW) & (level.get_level_values("workers") >= MANY_WORKERS)
        ]
        below = {scheme: float((hard[scheme] / hard["partial-key"]).max()) for scheme in ("d-choices", "round-robin")}
        alike = hard["d-choices"] / hard["round-robin"]
        alike_share = float(alike.between(0.1, 10).mean())
        return [
            judge(
                "W-C keeps the imbalance low whatever the setting",
                "Fig. 10, Q3",
                f"mean I·n at most {100 * wc.max():.2g} %",
                bool(wc.max() <= EVEN_ENOUGH),
                in_part=bool((wc <= EVEN_ENOUGH).mean() >= 0.9),
                why="The first slots of a stream count in the mean, and in them the heavy hitters are not known yet.",
            ),
            judge(
                "W-C is the best",
                "Fig. 10, Q3",
                f"lowest, or as low as noise, at {100 * lowest.mean():.0f} % of {len(lowest)} settings",
                bool(lowest.mean() >= 0.95),
                in_part=bool(lowest.mean() >= 0.8),
                why="Elsewhere all schemes are near zero and which is lower is chance.",
            ),
            judge(
                f"D-C and RR stay far below PKG at high skew and scale (z ≥ {HIGH_SKEW}, n ≥ {MANY_WORKERS})",
                "Fig. 10, Q3",
                f"at most {number(below['d-choices'])} × PKG (D-C) and {number(below['round-robin'])} × (RR)",
                max(below.values()) <= MUCH_LOWER,
                in_part=max(below.values()) <= 0.5,
                why="In single settings the hashes of a hot key collide, or the stream is too short to learn its head.",
            ),
            judge(
                "D-C and RR perform alike there",
                "Fig. 10, Q3",
                f"D-C / RR from {number(alike.min())} to {number(alike.max())}, median {number(alike.median())}; "
                f"within a factor of 10 at {100 * alike_share:.0f} %",
                alike_share >= 0.9,
                in_part=alike_share >= 0.5,
                why="D-C stops at its tolerance ε, RR has none: which is lower depends on the setting, both are small.",
            ),
            _number_of_keys(table),
            _replicas_of_rr(table),
        ]


def _number_of_keys(table: pd.DataFrame) -> Verdict:
    """Compare the settings that differ in the number of keys alone."""
    by_keys = table.pivot(index=["scheme", "workers", "skew"], columns="keys", values="mean_I")
    spread = by_keys.max(axis=1) - by_keys.min(axis=1)
    few = float((spread <= 0.005).mean())
    scheme, n, skew = spread.idxmax()
    own = by_keys.loc[(scheme, n, skew)]
    largest = " / ".join(number(value) for value in own)
    return judge(
        "The number of keys makes no difference",
        "Fig. 10, Q3",
        f"mean I differs by under 0.005 at {100 * few:.0f} % of the settings; most for {scheme}, n = {n}, z = {skew}: "
        f"{largest} for |K| = 10⁴ / 10⁵ / 10⁶",
        few >= 0.99,
        in_part=few >= 0.8,
        why="Around z = 1 the share p_1 itself falls with the number of keys, and with it the imbalance of PKG.",
    )


def _replicas_of_rr(table: pd.DataFrame) -> Verdict:
    by_scheme = table.pivot(index=["workers", "keys", "skew"], columns="scheme", values="replicas")
    ratio = by_scheme["round-robin"] / by_scheme["w-choices"]
    same = float((abs(ratio - 1) <= SAME_REPLICAS).mean())
    return judge(
        "RR costs the same replicas as W-C",
        "Sec. 4.2",
        f"{number(ratio.min())} to {number(ratio.max())} times as many; "
        f"within 5 % at {100 * same:.0f} % of the settings",
        same == 1,
        in_part=same >= 0.5,
        why="A hot key costs the same, n replicas. The tail costs RR less at high skew: its loads stay uneven, so a "
        "key keeps to the emptier of its two workers, while W-C levels the loads and a key uses both.",
    )
