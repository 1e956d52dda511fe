"""A claim of Sec. 4.2: a sender stores n loads and its SpaceSaving counters, independent of the number of keys."""

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
    """Memory of a sender."""

    name = "memory"
    label = "Claim, Sec. 4.2"
    title = "Memory of a sender against the number of workers"
    paper = "A source stores one load per worker and the counters of SpaceSaving, the same for all schemes."
    method = (
        "A W-C sender after 3·10⁵ messages of Zipf streams with z = 1.0 and 10⁴ to 10⁶ keys: the bytes of all its "
        "arrays. Besides the loads and the counters (with their hash table), a sender stores working copies for "
        "speed: the loads sorted into levels, and the candidate workers of the hot keys."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Route a stream, then take the size of the sender."""
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
        """Draw bytes against the number of workers."""
        from keyspread.report import style

        picture, axes = style.picture(width=4.4, height=2.8)
        line = table[table["keys"] == KEYS[-1]]
        for look, part in enumerate(("loads", "heavy_hitters", "working_copies")):
            style.line(axes[0, 0], line.workers, line[part], look, label=part.replace("_", " "))
        style.log_x(axes[0, 0], WORKERS)
        axes[0, 0].set(yscale="log", xlabel="workers", ylabel="bytes per sender")
        style.legend_below(picture, axes[0, 0], columns=3)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether the size depends on the number of keys, and the bytes per worker and per counter."""
        whole = table.assign(bytes=table.loads + table.heavy_hitters + table.working_copies)
        by_keys = whole.groupby("workers").bytes.nunique()
        per_worker, per_counter = table.loads / table.workers, table.heavy_hitters / table.counters
        largest = whole[whole.workers == WORKERS[-1]].bytes.max()
        return [
            judge(
                "A sender stores n loads and its counters, independent of the number of keys",
                "Sec. 4.2",
                f"the same number of bytes for 10⁴ to 10⁶ keys at {int((by_keys == 1).sum())} of {len(by_keys)} "
                f"numbers of workers; {per_worker.max():.0f} bytes per worker, at most {per_counter.max():.0f} per "
                f"counter; {largest / 1e6:.1f} MB with working copies at n = {WORKERS[-1]:,}",
                bool((by_keys == 1).all() and per_worker.max() <= 8 and per_counter.max() <= 100),
                in_part=bool((by_keys == 1).all()),
                why="The size depends on the number of keys, or a worker or counter takes more bytes than expected.",
            )
        ]
