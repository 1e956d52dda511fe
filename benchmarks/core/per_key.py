"""Head replicas and routing rate of per-key, compared with d-choices.

Bars (10,000 keys, s = 5), medians over the seeds: head replicas <= 0.5 x d-choices' at I <= s * tolerance = 5e-4 for
n = 50 and 100, and at I * n <= 0.05 for n = 1,000 with tolerance 0.01/n. Rate >= 0.8 x d-choices'.

    ./dev bench per_key [MESSAGES] [SEEDS]

The defaults are 1,000,000 messages (5,000,000 for n = 1,000) and 10 seeds.
"""

import statistics

import keyspread as ks
from keyspread.streams.encoded import Encoded
from keyspread.streams.generated import zipf

from common import console, numbers, show, side_by_side, verdict

SKEWS = (1.0, 1.2, 1.4, 1.7, 2.0)


def head_replicas(messages: int, seeds: int) -> None:
    rows = []
    for workers in (50, 100, 1000):
        options = {"tolerance": 0.01 / workers} if workers >= 1000 else {}
        bar = 0.05 / workers if workers >= 1000 else 5e-4
        for skew in SKEWS:
            theirs, ours = [], []
            for seed in range(seeds):
                # After 1,000 messages per worker, random deviations are 0.03 of a worker's load.
                length = max(messages, 5_000_000) if workers >= 1000 else messages
                stream = Encoded.of(zipf(skew, 10_000, length, seed=seed))
                for found, scheme in ((theirs, "d-choices"), (ours, "per-key")):
                    found.append(ks.simulate(stream, scheme, workers, seed=seed, windows=1, **options))
            ratios = [one.head_replicas / other.head_replicas for one, other in zip(ours, theirs, strict=True)]
            imbalances = [one.imbalance for one in ours]
            reached = statistics.median(ratios) <= 0.5 and statistics.median(imbalances) <= bar
            rows.append(
                (
                    workers,
                    skew,
                    f"{statistics.median(one.head_replicas for one in theirs):.0f}",
                    f"{statistics.median(one.head_replicas for one in ours):.0f}",
                    statistics.median(ratios),
                    max(ratios),
                    f"{statistics.median(imbalances):.1e}",
                    f"{max(imbalances):.1e}",
                    f"{bar:.0e}",
                    verdict(reached),
                )
            )
    columns = ("n", "skew", "d-choices", "per-key", "ratio", "worst", "I", "worst I", "bar", "verdict")
    show(f"Head replicas, medians over {seeds} seeds, {messages:,} messages", columns, rows)


def rates() -> None:
    rows = []
    for workers in (50, 100):
        for skew in (0.8, 1.0, 1.4, 2.0):
            stream = zipf(skew, 10_000, 4_000_000, seed=1)
            runs = {name: lambda name=name: ks.Sender(name, workers).route(stream) for name in ("d-choices", "per-key")}
            runs["auto"] = lambda: ks.Sender("per-key", workers, half_life="auto").route(stream)
            seconds = side_by_side(runs)
            ratio, fading = (seconds["d-choices"] / seconds[name] for name in ("per-key", "auto"))
            rows.append((workers, skew, f"{ratio:.2f}", f"{fading:.2f}", verdict(min(ratio, fading) >= 0.8)))
    show("Rate as a ratio to d-choices", ("n", "skew", "per-key", 'half_life="auto"', "verdict"), rows)


if __name__ == "__main__":
    head_replicas(*numbers(messages=1_000_000, seeds=10))
    rates()
    console.print("Zipf, 10,000 keys, 5 sources.")
