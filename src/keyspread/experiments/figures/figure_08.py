"""Figure 8: who carries the head and who the tail, worker by worker."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread.evaluation.run import Run
from keyspread.experiments.figure import Figure
from keyspread.experiments.figures.points import EVEN_ENOUGH, ends
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import ZipfStream

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS, SKEW, KEYS = 5, 2.0, 10_000
SCHEMES = ("partial-key", "w-choices", "round-robin")
NEAR = 0.05  # 'falls short of perfect balance', but not by more than this part of an even share


class Figure08(Figure):
    """Load of head and tail per worker."""

    name = "8"
    label = "Figure 8"
    title = "Load of head and tail per worker, n = 5, z = 2.0, θ = 1/(8n)"
    paper = (
        "Under PKG the hottest key overloads its two workers. W-C mixes head and tail so that all workers are at 1/n. "
        "RR splits the head evenly and falls a little short of that."
    )
    made = "One Zipf stream over 10⁴ keys, the first seed: with another seed other workers have the hottest key."

    def runs(self, scale: Scale) -> list[Run]:
        """Three schemes."""
        seed = scale.seeds[0]
        stream = ZipfStream(SKEW, KEYS, scale.messages, seed)
        return [Run.of(stream, scheme, WORKERS, seed=seed, threshold=1 / (8 * WORKERS)) for scheme in SCHEMES]

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Make shares of the loads."""
        return pd.DataFrame(
            [
                {"scheme": row.scheme, "worker": w, "head": head / row.messages, "tail": (load - head) / row.messages}
                for row in ends(results).itertuples()
                for w, (load, head) in enumerate(zip(row.loads, row.head_load, strict=True))
            ],
            columns=["scheme", "worker", "head", "tail"],
        ).sort_values(["scheme", "worker"], ignore_index=True)

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw stacked bars, and a dotted line at an even share."""
        from keyspread.report import style

        made, axes = style.picture(1, len(SCHEMES), width=2.6, height=2.6, sharey=True)
        for at, scheme in zip(axes[0], SCHEMES, strict=True):
            own = table[table.scheme == scheme]
            workers = own.worker + 1
            at.bar(workers, own["head"], color="#0072B2", label="head")
            at.bar(
                workers, own["tail"], bottom=own["head"], color="#E69F00", hatch="///", edgecolor="white", label="tail"
            )
            at.axhline(1 / WORKERS, color="black", linestyle=":", linewidth=1)
            at.set(title=style.LABELS[scheme], xlabel="worker", xticks=list(workers))
            at.grid(axis="x", visible=False)
        axes[0, 0].set_ylabel("share of the messages")
        style.legend_below(made, axes[0, 0], columns=2)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the text of Q1."""
        loads = {scheme: own["head"] + own["tail"] for scheme, own in table.groupby("scheme")}
        over = {scheme: (load * WORKERS - 1) for scheme, load in loads.items()}
        heads = table[table.scheme == "round-robin"]["head"] * table["head"].size / len(SCHEMES)
        uneven_head = float(heads.max() / heads.mean() - 1)
        overloaded = int((over["partial-key"] > 0.1).sum())
        return [
            judge(
                "PKG: the hottest key overloads two workers",
                "Fig. 8",
                f"{overloaded} workers have over 110 % of an even share, the busiest "
                f"{100 * (1 + over['partial-key'].max()):.0f} %",
                overloaded == 2,
                why="Both hashes of the hottest key gave the same worker."
                if overloaded == 1
                else "With these hashes the tail, or the second key, weighs as much as the hottest.",
            ),
            judge(
                "W-C: all workers at 1/n",
                "Fig. 8",
                f"within {100 * over['w-choices'].abs().max():.3f} % of it",
                bool(over["w-choices"].abs().max() <= EVEN_ENOUGH),
                why="The stream is too short: the senders had not learned its head in time.",
            ),
            judge(
                "RR: the head is split evenly, the whole falls a little short of even",
                "Fig. 8",
                f"head within {100 * uneven_head:.2g} %, busiest worker {100 * over['round-robin'].max():.2g} % over",
                uneven_head <= EVEN_ENOUGH and 1e-6 < over["round-robin"].max() <= NEAR,
                in_part=uneven_head <= EVEN_ENOUGH and over["round-robin"].max() <= NEAR,
                why="With 5 workers the tail is balanced by its two choices: nothing is left of the shortfall.",
            ),
        ]
