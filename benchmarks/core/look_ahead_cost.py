"""CPU time of one sender for its part of a micro-batch: look-ahead, compared with a new d-choices sender, n = 80.

Bar: look-ahead <= 1 x d-choices for parts of 500 messages and more. Both start without memory, as they do on Spark.
"""

import time

import keyspread as ks
from keyspread.planned import look_ahead
from keyspread.streams.generated import zipf

from common import console, show, side_by_side, verdict

WORKERS = 80


def main() -> None:
    rows = []
    for size in (100, 500, 2_000, 7_000, 100_000):
        for skew in (1.4, 2.0):
            part = zipf(skew, 10_000, size, seed=1)
            runs = {
                "look-ahead": lambda part=part: look_ahead.route(part, WORKERS, source=3),
                "d-choices": lambda part=part: ks.Sender("d-choices", WORKERS, source=3).route(part),
            }
            seconds = side_by_side(runs, repeat=50, clock=time.thread_time)
            ratio = seconds["look-ahead"] / seconds["d-choices"]
            times = (f"{1000 * seconds[name]:.2f} ms" for name in runs)
            rows.append((size, skew, *times, f"{ratio:.2f}", verdict(ratio <= 1) if size >= 500 else ""))
    show("One sender's part of a batch", ("messages", "skew", "look-ahead", "d-choices", "ratio", "verdict"), rows)
    console.print(f"Zipf, 10,000 keys, n = {WORKERS}.")


if __name__ == "__main__":
    main()
