"""Replicas and balance of w-choices with and without the warm-up rule."""

from collections.abc import Callable

import keyspread as ks
from keyspread.sender import sender
from keyspread.streams.generated import zipf

from common import show


def main() -> None:
    rule: Callable[[float], float] = sender.margin
    rows = []
    for workers in (50, 100):
        for skew in (0.1, 0.5, 0.8, 1.0, 1.4, 2.0):
            stream = zipf(skew, 10_000, 10_000_000, seed=1)
            with_rule = ks.simulate(stream, "w-choices", workers)
            sender.margin = lambda expected: 0.0  # a key is hot as soon as its share is the threshold
            without = ks.simulate(stream, "w-choices", workers)
            sender.margin = rule
            extra = without.replicas / with_rule.replicas - 1
            rows.append(
                (
                    workers,
                    skew,
                    with_rule.replicas,
                    without.replicas,
                    f"{extra:+.1%}",
                    with_rule.imbalance,
                    without.imbalance,
                )
            )
    columns = ("n", "skew", "replicas", "without rule", "extra", "imbalance", "without rule")
    show("The warm-up rule, w-choices", columns, rows)


if __name__ == "__main__":
    main()
