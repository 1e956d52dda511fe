"""Figure 8: the load of head and tail on each worker."""

import pandas as pd

from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.points import EVEN_ENOUGH, ends
from keyspread.paper.figures.style import ABBREVIATIONS
from keyspread.paper.runs.run import Run
from keyspread.streams import ZipfStream

WORKERS, SKEW, KEYS = 5, 2.0, 10_000
SCHEMES = ("partial-key", "w-choices", "round-robin")
NEAR = 0.05  # our reading of 'slightly short of perfect balance', as a share of the even load


class Figure08(Figure):
    """Load of head and tail per worker."""

    name = "8"
    label = "Figure 8"
    title = "Load of head and tail per worker, n = 5, z = 2.0, θ = 1/(8n)"
    paper = (
        "With PKG the hottest key overloads its two workers. W-C mixes head and tail so that every worker has the load "
        "1/n. RR splits the head evenly and falls slightly short of perfect balance."
    )
    method = "One Zipf stream over 10⁴ keys with the first seed. Another seed assigns the hottest key to other workers."

    def runs(self, scale: Scale) -> list[Run]:
        """Return one run per scheme."""
        seed = scale.seeds[0]
        stream = ZipfStream(SKEW, KEYS, scale.messages, seed)
        return [Run.of(stream, scheme, WORKERS, seed=seed, threshold=1 / (8 * WORKERS)) for scheme in SCHEMES]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Turn the loads into shares of all messages."""
        return pd.DataFrame(
            [
                {"scheme": row.scheme, "worker": w, "head": head / row.messages, "tail": (load - head) / row.messages}
                for row in ends(results).itertuples()
                for w, (load, head) in enumerate(zip(row.loads, row.head_load, strict=True))
            ],
            columns=["scheme", "worker", "head", "tail"],
        ).sort_values(["scheme", "worker"], ignore_index=True)

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw stacked bars, and a dotted line at the even share."""
        picture, axes = style.grid(1, len(SCHEMES), 2.6, 2.6, "share of the messages", sharey=True)
        for panel, scheme in zip(axes[0], SCHEMES, strict=True):
            loads = table[table.scheme == scheme]
            workers, head, tail = loads.worker + 1, loads["head"], loads["tail"]
            panel.bar(workers, head, color="#0072B2", label="head")
            panel.bar(workers, tail, bottom=head, color="#E69F00", hatch="///", edgecolor="white", label="tail")
            panel.set(title=ABBREVIATIONS[scheme], xlabel="worker", xticks=list(workers))
            panel.grid(visible=False)  # bars need no grid, and none can then cross them
            panel.set_ylim(0, 1.12 * float((table["head"] + table["tail"]).max()))
            style.reference_line(panel, 1 / WORKERS, "even share", right=True)
        style.legend_below(picture, axes[0, 0], columns=2)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the claims of the paper's question Q1."""
        loads = {scheme: rows["head"] + rows["tail"] for scheme, rows in table.groupby("scheme")}
        over = {scheme: (load * WORKERS - 1) for scheme, load in loads.items()}
        heads = table[table.scheme == "round-robin"]["head"] * table["head"].size / len(SCHEMES)
        uneven_head = float(heads.max() / heads.mean() - 1)
        overloaded = int((over["partial-key"] > 0.1).sum())
        return [
            judge(
                "PKG: the hottest key overloads two workers",
                "Fig. 8",
                f"{overloaded} workers have over 110 % of the even share, the busiest one "
                f"{100 * (1 + over['partial-key'].max()):.0f} %",
                overloaded == 2,
                words="the most frequent key in PKG overloads the two workers responsible for handling it",
                why="Both choices of the hottest key are the same worker."
                if overloaded == 1
                else "With these hash functions other hot keys overload further workers.",
            ),
            judge(
                "W-C: all workers have the load 1/n",
                "Fig. 8",
                f"within {100 * over['w-choices'].abs().max():.3f} % of 1/n",
                bool(over["w-choices"].abs().max() <= EVEN_ENOUGH),
                words="W-C mixes the head and tail across all the workers, and achieves ideal load balance",
                why="The stream is too short for the senders to learn its head.",
            ),
            judge(
                "RR: the head is split evenly, the total load falls slightly short of perfect balance",
                "Fig. 8",
                f"head within {100 * uneven_head:.2g} % of even, busiest worker {100 * over['round-robin'].max():.2g} "
                "% above the even share",
                uneven_head <= EVEN_ENOUGH and 1e-6 < over["round-robin"].max() <= NEAR,
                in_part=uneven_head <= EVEN_ENOUGH and over["round-robin"].max() <= NEAR,
                words="RR splits the head evenly across the workers, but falls short of perfect balance",
                why="With 5 workers the two choices of the tail keys balance the total load completely.",
            ),
        ]
