"""Imbalance of each micro-batch, n = 50, s = 5: looking ahead, senders that learn, and whole batches planned.

A stage ends when its slowest worker does, so the load that counts is that of the batch. `afresh` starts anew in every
batch, `carried` goes on with the heavy hitters and begins its loads at zero, the others remember all. Bars: 0.1 x
partial-key; for batches of 10^3 rows the larger of that and s / rows.
"""

from collections.abc import Callable

import numpy as np

from keyspread import Sender, simulate
from keyspread.evaluation.metrics import imbalance
from keyspread.online.carried import carry
from keyspread.planned.look_ahead import common_plan, deal
from keyspread.streams import DriftingZipfStream, read_stream

from common import real_stream, show, verdict

WORKERS, SOURCES = 50, 5
BATCHES = {1000: 200_000, 10_000: 1_000_000, 100_000: 1_000_000}  # rows a batch -> messages looked at


def afresh(stream: np.ndarray, rows: int, part_of: Callable[[int, np.ndarray], np.ndarray]) -> tuple[float, int]:
    """Mean imbalance and replicas when nothing is kept from batch to batch."""
    routed = np.empty(stream.size, np.int32)
    found = []
    for begin in range(0, stream.size, rows):
        batch, own = stream[begin : begin + rows], routed[begin : begin + rows]
        for source in range(SOURCES):
            own[source::SOURCES] = part_of(source, batch[source::SOURCES])
        found.append(imbalance(np.bincount(own, minlength=WORKERS)))
    pairs = np.unique(np.stack([stream, routed.astype(np.int64)]), axis=1)
    return float(np.mean(found)), pairs.shape[1]


def carried(stream: np.ndarray, rows: int, scheme: str) -> tuple[float, int]:
    """Mean imbalance and replicas when senders keep their heavy hitters from batch to batch, as they do on Spark."""
    senders: list[Sender] = []
    last: list[Sender] = []

    def part_of(source: int, part: np.ndarray) -> np.ndarray:
        nonlocal senders, last
        if source == 0:
            senders, last = [], senders
        senders.append(carry(last, scheme, WORKERS, source=source))
        return senders[-1].route(part)

    return afresh(stream, rows, part_of)


def main() -> None:
    streams = {
        "drifting Zipf": DriftingZipfStream(1.2, 100_000, 1_000_000).hashes(),
        "cashtags": read_stream(real_stream("cashtags.tsv.gz")).hashes,
    }
    empty = common_plan([], WORKERS)
    for name, whole in streams.items():
        for rows, most in BATCHES.items():
            stream = whole[: min(most, whole.size) // rows * rows]
            figures: dict[str, tuple[float, int]] = {}
            for scheme in ("partial-key", "d-choices", "w-choices", "look-ahead", "planned"):
                done = simulate(stream, scheme, WORKERS, sources=SOURCES, windows=stream.size // rows)
                figures[scheme] = done.windowed_imbalance, done.replicas
            figures["look-ahead afresh"] = afresh(
                stream, rows, lambda source, part: deal(part, empty, source=source)[0]
            )
            for scheme in ("d-choices", "w-choices"):
                figures[f"{scheme} carried"] = carried(stream, rows, scheme)
                figures[f"{scheme} afresh"] = afresh(
                    stream, rows, lambda source, part: Sender(scheme, WORKERS, source=source).route(part)
                )
            base = figures["partial-key"][0]
            bar = max(0.1 * base, SOURCES / rows if rows == 1000 else 0.0)
            keys = np.unique(stream).size
            show(
                f"{name}, batches of {rows:,} rows ({stream.size // rows} of them, {keys:,} keys); bar {bar:.1e}",
                ["", "imbalance a batch", "/ partial-key", "replicas a key", "verdict"],
                [
                    [
                        scheme,
                        f"{value:.1e}",
                        f"{value / base:.3f} x",
                        f"{replicas / keys:.2f}",
                        verdict(value <= bar) if scheme == "look-ahead" else "",
                    ]
                    for scheme, (value, replicas) in sorted(figures.items(), key=lambda one: -one[1][0])
                ],
            )


if __name__ == "__main__":
    main()
