"""Cost and balance of routing messages of different weights to workers of different capacities.

Cost: the loop that looks at every candidate, with weights of 1, compared with the fast loops (both choose the same
workers). Balance: Zipf 1.4 with rows of 1 to 2,000 bytes, a fifth of the workers four times as large.
"""

import numpy as np

import keyspread as ks
from keyspread.streams.generated.zipf import zipf

from common import show, side_by_side

SCHEMES = ("key", "partial-key", "w-choices", "d-choices", "per-key")


def cost(messages: int = 1_000_000) -> None:
    stream, ones = zipf(1.4, 10_000, messages, seed=1), np.ones(messages, np.int64)
    rows = []
    for workers in (20, 100, 1000):
        cells = []
        for scheme in SCHEMES:
            seconds = side_by_side(
                {
                    "plain": lambda scheme=scheme: ks.Sender(scheme, workers).route(stream),
                    "weighted": lambda scheme=scheme: ks.Sender(scheme, workers).route(stream, ones),
                },
                repeat=3,
            )
            cells.append(f"{seconds['weighted'] / seconds['plain']:.1f} x")
        rows.append((workers, *cells))
    show("Time with weights / without, Zipf 1.4", ("n", *SCHEMES), rows)


def balance(workers: int = 50) -> None:
    stream = zipf(1.4, 10_000, 1_000_000, seed=1)
    weights = np.random.default_rng(1).integers(1, 2000, stream.size)
    capacities = np.where(np.arange(workers) < workers // 5, 4.0, 1.0)
    rows = []
    for scheme in (*SCHEMES, "shuffle", "look-ahead", "planned"):
        aware = ks.simulate(stream, scheme, workers, weights=weights, capacities=capacities, windows=1)
        blind = ks.simulate(stream, scheme, workers, windows=1, assignment=True).assignment
        assert blind is not None
        burden = np.bincount(blind, weights=weights, minlength=workers) / (capacities / capacities.mean())
        over = burden.max() / weights.sum() * workers
        rows.append((scheme, f"{1 + aware.imbalance * workers:.3f}", f"{over:.2f}", aware.replicas))
    show(
        f"Busiest worker, as a multiple of its fair share by capacity, n = {workers}",
        ("scheme", "with weights and capacities", "without", "replicas"),
        rows,
    )


if __name__ == "__main__":
    cost()
    balance()
