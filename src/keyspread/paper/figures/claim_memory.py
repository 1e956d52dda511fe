"""A claim of Sec. 4.2: a sender stores n loads and its SpaceSaving counters, independent of the number of keys."""

import pandas as pd

from keyspread import Sender
from keyspread.paper.figures import style
from keyspread.paper.figures.figure import Figure, Scale, Verdict, judge
from keyspread.paper.figures.style import ABBREVIATIONS
from keyspread.streams import ZipfStream

WORKERS = (10, 50, 100, 500, 1000)
KEYS = (10**4, 10**5, 10**6)
SCHEMES = ("w-choices", "d-choices", "round-robin")
SKEW, MESSAGES = 1.0, 300_000
EXTRA = 0.5
"""Our reading of 'stores': at most this much beyond the loads and counters, as a share of them."""
EQUAL = 0.1
"""Our reading of 'the same cost': the largest exceeds the smallest by at most this share."""


class ClaimMemory(Figure):
    """Memory of a sender."""

    name = "memory"
    label = "Claim, Sec. 4.2"
    title = "Memory of a sender against the number of workers"
    paper = "A source stores one load per worker and the counters of SpaceSaving, the same for all schemes."
    method = (
        "A sender after 3·10⁵ messages of Zipf streams with z = 1.0: W-C with 10⁴ to 10⁶ keys (in the plot), D-C and "
        "RR with 10⁴. The bytes of all its "
        "arrays. Besides the loads and the counters (with their hash table), a sender stores working copies for "
        "speed: the loads sorted into levels, and the candidate workers of the hot keys."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Route a stream, then take the size of the sender."""
        streams = {keys: ZipfStream(SKEW, keys, MESSAGES).hashes() for keys in KEYS}
        rows = []
        for n in WORKERS:
            for keys, stream in streams.items():
                for scheme in SCHEMES if keys == KEYS[0] else SCHEMES[:1]:
                    sender = Sender(scheme, n)
                    sender.route(stream)
                    sizes = {"scheme": scheme, "workers": n, "keys": keys, "counters": sender.settings.counters}
                    rows.append(sizes | sender.memory())
        return pd.DataFrame(rows)

    def plot(self, table: pd.DataFrame) -> style.Picture:
        """Draw bytes against the number of workers."""
        picture, panel = style.one_panel("bytes per sender")
        line = table[(table["keys"] == KEYS[-1]) & (table.scheme == "w-choices")]
        for look, part in enumerate(("loads", "heavy_hitters", "working_copies")):
            style.line(panel, line.workers, line[part], look, label=part.replace("_", " "))
        style.log_x(panel, WORKERS)
        panel.set(yscale="log", xlabel="workers")
        style.legend_below(picture, panel, columns=3)
        return picture

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge all that a sender stores, working copies included, and whether the schemes cost the same."""
        whole = table.assign(
            bytes=table.loads + table.heavy_hitters + table.working_copies, needed=table.loads + table.heavy_hitters
        )
        w_choices = whole[whole.scheme == "w-choices"]
        by_keys = w_choices.groupby("workers").bytes.nunique()
        times = (w_choices.bytes / w_choices.needed).groupby(w_choices.workers).max()
        same = bool((by_keys == 1).all())
        by_scheme = whole.groupby(["workers", "scheme"]).bytes.max().unstack()
        spread = by_scheme.max(axis=1) / by_scheme.min(axis=1)
        most = spread.idxmax()
        return [
            judge(
                "A sender stores n loads and its counters, independent of the number of keys (all that it stores is at "
                f"most {1 + EXTRA:g} × that)",
                "Sec. 4.2",
                f"the same number of bytes for 10⁴ to 10⁶ keys at {int((by_keys == 1).sum())} of {len(by_keys)} "
                "numbers of workers; with working copies "
                + ", ".join(f"{factor:.1f} × (n = {n:,})" for n, factor in times.items())
                + f" the loads and counters; {w_choices.bytes.max() / 1e6:.1f} MB at n = {WORKERS[-1]:,}",
                same and bool(times.max() <= 1 + EXTRA),
                in_part=same,
                words="Storing the load vector requires O(n) memory … SpaceSaving requires O(1) memory",
                why="Our sender keeps working copies for speed: the loads sorted into levels, and the candidate "
                "workers of the hot keys. They do not grow with the number of keys either."
                if same
                else "The size depends on the number of keys.",
            ),
            judge(
                f"D-C, W-C and RR cost a sender the same (within {100 * EQUAL:.0f} %)",
                "Sec. 4.2",
                f"the largest is at most {spread.max():.2f} × the smallest (n = {most:,}: "
                + ", ".join(f"{ABBREVIATIONS[name]} {size / 1e3:,.1f} kB" for name, size in by_scheme.loc[most].items())
                + ")",
                bool(spread.max() <= 1 + EQUAL),
                in_part=bool(spread.min() <= 1 + EQUAL),
                words="All three algorithms have the same cost on the sources",
                why="The loads and the counters are the same. The working copies differ: D-C stores the candidate "
                "workers of its hot keys, of which W-C and RR have none to look up.",
            ),
        ]
