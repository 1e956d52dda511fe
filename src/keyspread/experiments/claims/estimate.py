"""A claim of Sec. 4.2: what a sender sent itself is a good estimate of what a worker got from all senders."""

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

SOURCES = (1, 2, 5, 10, 20, 50, 100)
WORKERS, KEYS, SKEW = 50, 10_000, 1.4
SCHEMES = ("partial-key", "d-choices", "w-choices")


class ClaimEstimate(Figure):
    """A sender's own load against the global one."""

    name = "estimate"
    title = "A sender's own view of the loads, by number of senders"
    label = "Claim, Sec. 4.2"
    paper = "The load that a source sent itself is typically a very accurate approximation of the global load."
    made = (
        "Zipf 1.4 over 10⁴ keys, n = 50. Left the largest difference, over all senders and workers, between a worker's "
        "share of one sender's messages and of all messages, as a part of the latter. Right what that does to the "
        "balance."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Every number of sources."""
        return [
            run
            for seed in scale.seeds
            for run in grid(
                [ZipfStream(SKEW, KEYS, scale.messages, seed)],
                scheme=SCHEMES,
                workers=WORKERS,
                sources=SOURCES,
                seed=seed,
            )
        ]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Take the error, and the imbalance as a part of an even share."""
        found = ends(results)
        found = found.assign(error=found.sender_error, uneven=found.final_imbalance * WORKERS)
        return over_seeds(found, ["scheme", "sources"], ["error", "uneven"])

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw both against the number of senders."""
        from keyspread.report import style

        made, axes = style.picture(1, 2, width=3.4, height=2.7)
        for at, value, name in zip(
            axes[0], ("error", "uneven"), ("largest error of a view", "imbalance · n"), strict=True
        ):
            for scheme in SCHEMES:
                own = table[table.scheme == scheme]
                style.line(at, own.sources, own[value], scheme, low=own[f"{value}_low"], high=own[f"{value}_high"])
            at.set(xscale="log", xlabel="sources s", title=name)
            style.log_imbalance(at, floor=1e-6, top=20)
        style.legend_below(made, axes[0, 0], columns=3)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge at the paper's s = 5, and say how it goes on."""
        wc = table[table.scheme == "w-choices"].set_index("sources")
        usual = table[table.sources == 5]
        most = wc.index.max()
        return [
            judge(
                "A sender's own load is a very accurate estimate of the global one",
                "Sec. 4.2",
                f"off by at most {100 * usual.error.max():.2g} % of a worker's load at s = 5, "
                f"{100 * table[table.sources == most].error.max():.2g} % at s = {most} (under W-C "
                f"{100 * wc.error[most]:.2g} %)",
                bool(usual.error.max() <= EVEN_ENOUGH and wc.error.max() <= EVEN_ENOUGH),
                in_part=bool(usual.error.max() <= 5 * EVEN_ENOUGH),
                why="Every sender has its own part of the stream, and under PKG and D-C a worker's load is what its "
                "keys happen to have there: the views differ by chance, less so the longer the stream.",
            ),
            judge(
                "So balancing the own load balances the global one, however many senders there are",
                "Sec. 4.2",
                f"W-C: I·n = {number(wc.uneven[1])} at s = 1, {number(wc.uneven[5])} at s = 5, "
                f"{number(wc.uneven[most])} at s = {most}",
                bool(wc.uneven.max() <= EVEN_ENOUGH),
                in_part=bool(wc.uneven[5] <= EVEN_ENOUGH),
                why="Every sender is off by up to a message for each worker, and these add up.",
            ),
        ]
