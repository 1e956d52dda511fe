"""Balance of per-key with half_life="auto" on drifting streams, and its cost on stationary ones.

Bars (s = 5, 50 windows): on drifting streams the windowed imbalance is at most the larger of 0.1 x that of w-choices
and s / (messages per window), with at most 1.2 x the replicas of w-choices. On a stationary stream there are at most
1.1 x the replicas without fading. There is only one stream of cashtags: its seeds are those of the hash functions.

    ./dev bench drift [SEEDS]
"""

import statistics
from collections.abc import Callable

import keyspread as ks
from keyspread.streams.encoded import Encoded
from keyspread.streams.files import read_stream
from keyspread.streams.generated import DriftingZipfStream, zipf

from common import numbers, real_stream, show, verdict

SOURCES, WINDOWS = 5, 50


def drifting(redrawn: float) -> Callable[[int], Encoded]:
    def make(seed: int) -> Encoded:
        return Encoded.of(DriftingZipfStream(1.2, 100_000, 2_500_000, redrawn=redrawn, seed=seed).hashes())

    return make


def main(seeds: int) -> None:
    cashtags = Encoded.of(read_stream(real_stream("cashtags.tsv.gz")).hashes)
    streams = {"drift": drifting(1.0), "slow drift": drifting(0.1), "cashtags": lambda seed: cashtags}
    rows = []
    for workers in (50, 100):
        for name, make in streams.items():
            values, bars, costs = [], [], []
            for seed in range(seeds):
                stream = make(seed)
                theirs = ks.simulate(stream, "w-choices", workers, seed=seed)
                ours = ks.simulate(stream, "per-key", workers, seed=seed, half_life="auto")
                values.append(ours.windowed_imbalance)
                bars.append(max(0.1 * theirs.windowed_imbalance, SOURCES * WINDOWS / stream.messages))
                costs.append(ours.replicas / theirs.replicas)
            parts = [value / bar for value, bar in zip(values, bars, strict=True)]
            reached = statistics.median(parts) <= 1 and statistics.median(costs) <= 1.2
            numbers = (statistics.median(values), statistics.median(bars), statistics.median(parts), max(parts))
            cells = (f"{numbers[0]:.1e}", f"{numbers[1]:.1e}", f"{numbers[2]:.2f}", f"{numbers[3]:.2f}")
            rows.append((workers, name, *cells, statistics.median(costs), max(costs), verdict(reached)))
    columns = ("n", "stream", "windowed", "bar", "/ bar", "worst", "replicas / w-choices", "worst", "verdict")
    show(f"Drifting, medians over {seeds} seeds", columns, rows)

    rows = []
    for workers in (50, 100):
        for skew in (1.0, 1.4, 2.0):
            ratios = []
            for seed in range(seeds):
                stream = Encoded.of(zipf(skew, 10_000, 1_000_000, seed=seed))
                fading, lasting = (
                    ks.simulate(stream, "per-key", workers, seed=seed, half_life=half_life).replicas
                    for half_life in ("auto", None)
                )
                ratios.append(fading / lasting)
            median = statistics.median(ratios)
            rows.append((workers, skew, f"{median:.3f}", f"{max(ratios):.3f}", verdict(median <= 1.1)))
    show(
        "Stationary: replicas / replicas without fading",
        ("n", "skew", "median", "worst", "verdict"),
        rows,
    )


if __name__ == "__main__":
    main(*numbers(seeds=10))
