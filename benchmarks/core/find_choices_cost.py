"""Time of one search for d, as a share of the time to route 10,000,000 messages with d-choices.

Bar: <= 1 % for 5,000 head keys, n = 10,000 and tolerance 0.01/n.
"""

import numpy as np

import keyspread as ks
from keyspread.streams.generated import zipf, zipf_probabilities

from common import show, side_by_side, verdict


def main() -> None:
    workers, head_keys = 10_000, 5_000
    tolerance = 0.01 / workers
    rows = []
    for skew in (0.8, 1.4, 2.0):
        head = zipf_probabilities(skew, 10_000)[:head_keys]
        stream = zipf(skew, 10_000, 10_000_000, seed=1)
        seconds = side_by_side(
            {
                "find": lambda head=head: ks.find_choices(head, workers, tolerance),
                "route": lambda stream=stream: ks.Sender("d-choices", workers, tolerance=tolerance).route(stream),
            },
            repeat=3,
        )
        share = seconds["find"] / seconds["route"]
        found = ks.find_choices(head, workers, tolerance)
        rows.append((skew, found, f"{np.ceil(head[0] * workers):.0f}", f"{share:.3%}", verdict(share <= 0.01)))
    title = "find_choices, 5,000 head keys, n = 10,000"
    show(title, ("skew", "d", "first d tried", "share of routing", "verdict"), rows)


if __name__ == "__main__":
    main()
