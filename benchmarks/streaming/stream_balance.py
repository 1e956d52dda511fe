"""Imbalance of each micro-batch, n = 50, s = 5: look-ahead, online schemes, and plans of whole batches.

A stage ends when its slowest worker does, so the load that counts is that of the batch. On Spark, senders keep nothing
between batches, as in the rows `look-ahead`, `planned` and "per batch". The other rows show senders that remember all
batches. Bar for look-ahead: 0.1 x partial-key; for batches of 10^3 rows the larger of that and s / rows.
"""

import numpy as np

from keyspread import Sender, simulate
from keyspread.evaluation.metrics import imbalance
from keyspread.streams import DriftingZipfStream, read_stream

from common import real_stream, show, verdict

WORKERS, SOURCES = 50, 5
BATCHES = {1000: 200_000, 10_000: 1_000_000, 100_000: 1_000_000}  # rows per batch -> messages routed


def per_batch(stream: np.ndarray, rows: int, scheme: str) -> tuple[float, int]:
    """Return the mean imbalance and the replicas when every batch has new senders."""
    routed = np.empty(stream.size, np.int32)
    found = []
    for begin in range(0, stream.size, rows):
        batch, chosen = stream[begin : begin + rows], routed[begin : begin + rows]
        for source in range(SOURCES):
            chosen[source::SOURCES] = Sender(scheme, WORKERS, source=source).route(batch[source::SOURCES])
        found.append(imbalance(np.bincount(chosen, minlength=WORKERS)))
    pairs = np.unique(np.stack([stream, routed.astype(np.int64)]), axis=1)
    return float(np.mean(found)), pairs.shape[1]


def main() -> None:
    streams = {
        "drifting Zipf": DriftingZipfStream(1.2, 100_000, 1_000_000).hashes(),
        "cashtags": read_stream(real_stream("cashtags.tsv.gz")).hashes,
    }
    for name, whole in streams.items():
        for rows, most in BATCHES.items():
            stream = whole[: min(most, whole.size) // rows * rows]
            figures: dict[str, tuple[float, int]] = {}
            for scheme in ("partial-key", "d-choices", "w-choices", "look-ahead", "planned"):
                result = simulate(stream, scheme, WORKERS, sources=SOURCES, windows=stream.size // rows)
                figures[scheme] = result.windowed_imbalance, result.replicas
            for scheme in ("d-choices", "w-choices"):
                figures[f"{scheme} per batch"] = per_batch(stream, rows, scheme)
            base = figures["partial-key"][0]
            bar = max(0.1 * base, SOURCES / rows if rows == 1000 else 0.0)
            keys = np.unique(stream).size
            show(
                f"{name}, batches of {rows:,} rows ({stream.size // rows} of them, {keys:,} keys); bar {bar:.1e}",
                ["", "imbalance per batch", "/ partial-key", "replicas per key", "verdict"],
                [
                    [
                        scheme,
                        f"{value:.1e}",
                        f"{value / base:.3f} x",
                        f"{replicas / keys:.2f}",
                        verdict(value <= bar) if scheme == "look-ahead" else "",
                    ]
                    for scheme, (value, replicas) in sorted(figures.items(), key=lambda item: -item[1][0])
                ],
            )


if __name__ == "__main__":
    main()
