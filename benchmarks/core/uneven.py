"""Cost and balance of routing messages of different weights.

Cost: CPU time with weights, as a multiple of the time without, for n = 2 … 5,000. The bar is 3 x at n = 1,000. Weights
are 1 (the same workers are chosen as without weights), rows of 1 to 2,000 bytes, or have a heavy tail (a few messages
outweigh thousands of others). Balance: Zipf 1.4 with rows of 1 to 2,000 bytes.

    ./dev bench uneven [MESSAGES]
"""

import time

import numpy as np

import keyspread as ks
from keyspread.streams.generated import zipf

from common import numbers, show, side_by_side, verdict

SCHEMES = ("key", "partial-key", "w-choices", "d-choices", "per-key")
BAR = 3


def cost(messages: int) -> None:
    stream, random = zipf(1.4, 10_000, messages, seed=1), np.random.default_rng(1)
    cases = {
        "weights of 1": np.ones(messages, np.int64),
        "bytes": random.integers(1, 2000, messages),
        "heavy tail": np.minimum(10 * random.pareto(1.1, messages) + 1, 2**31).astype(np.int64),
    }
    rows = []
    for workers in (2, 20, 100, 1000, 5000):
        ratios: dict[str, list[float]] = {case: [] for case in cases}
        for scheme in SCHEMES:
            runs = {"plain": lambda scheme=scheme: ks.Sender(scheme, workers).route(stream)} | {
                case: lambda scheme=scheme, weights=weights: ks.Sender(scheme, workers).route(stream, weights)
                for case, weights in cases.items()
            }
            seconds = side_by_side(runs, repeat=3, clock=time.thread_time)
            for case in cases:
                ratios[case].append(seconds[case] / seconds["plain"])
        for case, measured in ratios.items():
            reached = verdict(max(measured) <= BAR) if workers == 1000 else ""
            rows.append((workers, case, *(f"{ratio:.1f} x" for ratio in measured), reached))
    show("CPU time with weights / without, Zipf 1.4", ("n", "case", *SCHEMES, "verdict"), rows)


def balance(workers: int = 50) -> None:
    stream = zipf(1.4, 10_000, 1_000_000, seed=1)
    weights = np.random.default_rng(1).integers(1, 2000, stream.size)
    rows = []
    for scheme in (*SCHEMES, "shuffle", "look-ahead", "planned"):
        aware = ks.simulate(stream, scheme, workers, weights=weights, windows=1)
        blind = ks.simulate(stream, scheme, workers, windows=1, assignment=True).assignment
        assert blind is not None
        over = np.bincount(blind, weights=weights, minlength=workers).max() / weights.sum() * workers
        rows.append((scheme, f"{1 + aware.imbalance * workers:.3f}", f"{over:.2f}", aware.replicas))
    show(
        f"Busiest worker, as a multiple of its even share, n = {workers}",
        ("scheme", "with weights", "without", "replicas"),
        rows,
    )


if __name__ == "__main__":
    cost(*numbers(messages=300_000))
    balance()
