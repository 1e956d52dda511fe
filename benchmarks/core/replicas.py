"""Replicas counted by the simulator, as a ratio to the model, for every scheme and skew.

The model is an upper bound. Bar: the count is never more than 5 % above it (n = 50 and 100, skew 0.1 ... 2.0), and for
partial-key it is within 5 % of it at skew <= 0.8. Planned routing is measured on one batch, because its model bounds
one batch.
"""

import numpy as np

import keyspread as ks
from keyspread.evaluation.metrics import replica_model
from keyspread.streams.generated import zipf

from common import console, show, verdict

SCHEMES = {name: {"choices": 10} if name == "greedy" else {} for name in ks.SCHEMES} | {"planned": {}}


def main() -> None:
    skews = [step / 10 for step in range(1, 21)]
    for workers in (50, 100):
        rows, worst = [], 0.0
        for skew in skews:
            stream = zipf(skew, 10_000, 10_000_000, seed=1)
            counts = np.unique(stream, return_counts=True)[1]
            ratios = []
            for scheme, options in SCHEMES.items():
                found = ks.simulate(stream, scheme, workers, windows=1, **options).replicas
                ratios.append(found / replica_model(counts, workers, scheme, **options))
            worst = max(worst, *ratios)
            rows.append((skew, *(f"{ratio:.3f}" for ratio in ratios)))
        show(f"Replicas / model, n = {workers}", ("skew", *SCHEMES), rows)
        console.print(f"largest ratio at n = {workers}: {worst:.3f} {verdict(worst <= 1.05)}\n")


if __name__ == "__main__":
    main()
