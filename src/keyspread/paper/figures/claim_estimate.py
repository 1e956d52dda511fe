"""A claim of Sec. 4.2: the load that a source sent itself is a good estimate of a worker's total load."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import EVEN_ENOUGH, ends, number, over_seeds
from keyspread.paper.runs.run import Run, grid
from keyspread.streams import ZipfStream

SOURCES = (1, 2, 5, 10, 20, 50, 100)
WORKERS, KEYS, SKEW = 50, 10_000, 1.4
SCHEMES = ("partial-key", "d-choices", "w-choices")


class ClaimEstimate(Figure):
    """Local load estimates of the sources against the global load."""

    name = "estimate"
    title = "Accuracy of the local load estimates, by number of sources"
    label = "Claim, Sec. 4.2"
    paper = "The local load of a source is typically a very accurate approximation of the global load."
    method = (
        "Zipf streams with z = 1.4 over 10⁴ keys, n = 50. Left: the largest relative error, over all sources and "
        "workers, of a worker's share of the messages of one source against its share of all messages. Right: the "
        "resulting imbalance, as a multiple of an even share."
    )

    def runs(self, scale: Scale) -> list[Run]:
        """Return every scheme with every number of sources."""
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
        """Take the error, and the imbalance as a multiple of an even share."""
        found = ends(results)
        found = found.assign(error=found.sender_error, uneven=found.final_imbalance * WORKERS)
        return over_seeds(found, ["scheme", "sources"], ["error", "uneven"])

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw both against the number of sources."""
        picture, axes = style.grid(1, 2, 3.4, 2.7, "")
        for panel, value, name in zip(
            axes[0], ("error", "uneven"), ("largest relative error", "imbalance I · n"), strict=True
        ):
            for scheme in SCHEMES:
                line = table[table.scheme == scheme]
                style.over_seeds(panel, line, "sources", value, scheme)
            style.log_x(panel, SOURCES)
            panel.set(xlabel="sources s", title=name)
            style.log_imbalance(panel, floor=1e-6, top=20)
        style.legend_below(picture, axes[0, 0], columns=3)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge at the paper's s = 5 and report larger numbers of sources."""
        wc = table[table.scheme == "w-choices"].set_index("sources")
        usual = table[table.sources == 5]
        most = wc.index.max()
        return [
            judge(
                "The local load of a source is a very accurate estimate of the global load",
                "Sec. 4.2",
                f"error at most {100 * usual.error.max():.2g} % of a worker's load at s = 5, "
                f"{100 * table[table.sources == most].error.max():.2g} % at s = {most} (W-C: "
                f"{100 * wc.error[most]:.2g} %)",
                bool(usual.error.max() <= EVEN_ENOUGH and wc.error.max() <= EVEN_ENOUGH),
                in_part=bool(usual.error.max() <= 5 * EVEN_ENOUGH),
                words="typically a very accurate approximation of the actual global load of workers",
                why="Each source sees its own part of the stream. Under PKG and D-C the load of a worker depends on "
                "how often its keys happen to occur in that part. The error is chance, and shrinks with the length of "
                "the stream.",
            ),
            judge(
                "Balancing the local load balances the global load, for any number of sources",
                "Sec. 4.2",
                f"W-C: I·n = {number(wc.uneven[1])} at s = 1, {number(wc.uneven[5])} at s = 5, "
                f"{number(wc.uneven[most])} at s = {most}",
                bool(wc.uneven.max() <= EVEN_ENOUGH),
                in_part=bool(wc.uneven[5] <= EVEN_ENOUGH),
                words="The load is determined based only on local information available at the sender",
                why="Each source may be off by one message per worker, and these errors add up.",
            ),
        ]
