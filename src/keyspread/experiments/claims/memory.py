"""A claim of Sec. 4.2: a sender needs n loads and the counters of its heavy hitters, whatever the number of keys."""

from typing import TYPE_CHECKING

import pandas as pd

from keyspread import Sender
from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import ZipfStream

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WORKERS = (10, 50, 100, 500, 1000)
KEYS = (10**4, 10**5, 10**6)
SKEW, MESSAGES = 1.0, 300_000


class ClaimMemory(Figure):
    """What a sender keeps."""

    name = "memory"
    label = "Claim, Sec. 4.2"
    title = "Memory of a sender against the number of workers"
    paper = "A source keeps a load for each worker and the counters of SpaceSaving; both are the same for all schemes."
    made = (
        "A W-C sender after 3·10⁵ messages of Zipf 1.0 streams with 10⁴ to 10⁶ keys: the bytes of all arrays it holds. "
        "Beside loads and counters (with their hash table) these are working copies, made for speed: the loads sorted "
        "into levels, and the candidates of the hot keys."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Route, then weigh."""
        streams = {keys: ZipfStream(SKEW, keys, MESSAGES).hashes() for keys in KEYS}
        rows = []
        for n in WORKERS:
            for keys, stream in streams.items():
                sender = Sender("w-choices", n)
                sender.route(stream)
                weight = sender.memory()
                rows.append({"workers": n, "keys": keys, "counters": sender.settings.counters, **weight})
        return pd.DataFrame(rows)

    def plot(self, table: pd.DataFrame) -> "Picture":
        """Draw bytes against workers."""
        from keyspread.report import style

        made, axes = style.picture(width=4.4, height=2.8)
        own = table[table["keys"] == KEYS[-1]]
        for look, part in enumerate(("loads", "heavy_hitters", "working_copies")):
            style.line(axes[0, 0], own.workers, own[part], look, label=part.replace("_", " "))
        axes[0, 0].set(xscale="log", yscale="log", xlabel="workers", ylabel="bytes of a sender")
        axes[0, 0].legend(fontsize=8)
        return made

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge by what changes when only the number of keys does, and by what is there for each worker."""
        whole = table.assign(bytes=table.loads + table.heavy_hitters + table.working_copies)
        by_keys = whole.groupby("workers").bytes.nunique()
        per_worker, per_counter = table.loads / table.workers, table.heavy_hitters / table.counters
        largest = whole[whole.workers == WORKERS[-1]].bytes.max()
        return [
            judge(
                "A sender needs n loads plus its counters, whatever the number of keys",
                "Sec. 4.2",
                f"the same bytes for 10⁴ to 10⁶ keys at {int((by_keys == 1).sum())} of {len(by_keys)} sizes; "
                f"{per_worker.max():.0f} a worker, at most {per_counter.max():.0f} a counter; with working copies "
                f"{largest / 1e6:.1f} MB at n = {WORKERS[-1]}",
                bool((by_keys == 1).all() and per_worker.max() <= 8 and per_counter.max() <= 100),
                in_part=bool((by_keys == 1).all()),
                why="A counter takes more than its hash, count and error.",
            )
        ]
