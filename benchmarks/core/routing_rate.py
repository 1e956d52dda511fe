"""Routing rate of one sender on one core, as a ratio to partial-key in the same run.

Bars: d-choices and w-choices >= 0.5 x partial-key for every skew and n; planned >= 1 x; at n = 10,000 w-choices keeps
>= 0.5 x and d-choices >= 0.3 x of its rate at n = 100; after seven times as many messages, d-choices keeps >= 0.9 x of
its rate. The last table has the memory of a d-choices sender.
"""

import time

import keyspread as ks
from keyspread.streams.generated import zipf

from common import console, show, side_by_side, verdict

MESSAGES, KEYS = 10_000_000, 10_000
SKEWS = (0.8, 1.4, 2.0)


def main() -> None:
    streams = {skew: zipf(skew, KEYS, MESSAGES, seed=1) for skew in SKEWS}
    rows = []
    for workers in (50, 100):
        for skew, stream in streams.items():
            made = ks.plan(stream, workers)
            runs = {
                name: lambda name=name: ks.Sender(name, workers).route(stream)
                for name in ("partial-key", "d-choices", "w-choices", "round-robin")
            } | {"planned": lambda made=made: made.route(stream)}
            seconds = side_by_side(runs, repeat=3)
            ratio = {name: seconds["partial-key"] / value for name, value in seconds.items()}
            reached = min(ratio["d-choices"], ratio["w-choices"]) >= 0.5 and ratio["planned"] >= 1
            rate = f"{MESSAGES / seconds['partial-key'] / 1e6:.0f} M/s"
            names = ("d-choices", "w-choices", "round-robin", "planned")
            rows.append((workers, skew, rate, *(f"{ratio[name]:.2f}" for name in names), verdict(reached)))
    columns = ("n", "skew", "partial-key", "d-choices", "w-choices", "round-robin", "planned", "verdict")
    show("Rate as a ratio to partial-key (partial-key itself in messages)", columns, rows)

    rows = []
    for skew, stream in streams.items():
        cells = []
        for name, bar in (("w-choices", 0.5), ("d-choices", 0.3)):
            tolerances = {workers: 0.01 / workers if name == "d-choices" else 1e-4 for workers in (100, 10_000)}
            runs = {
                str(workers): lambda name=name, workers=workers, tolerance=tolerance: ks.Sender(
                    name, workers, tolerance=tolerance
                ).route(stream)
                for workers, tolerance in tolerances.items()
            }
            seconds = side_by_side(runs, repeat=3)
            kept = seconds["100"] / seconds["10000"]
            cells += [f"{kept:.2f}", verdict(kept >= bar)]
        rows.append((skew, *cells))
    show(
        "Rate at n = 10,000 as a ratio to n = 100 (tolerance 0.01/n)",
        ("skew", "w-choices", ">= 0.5", "d-choices", ">= 0.3"),
        rows,
    )

    rows = []
    for workers in (50, 100):
        for skew in SKEWS[1:]:
            sender, spent = ks.Sender("d-choices", workers), []
            for _ in range(8):
                begin = time.process_time()
                sender.route(streams[skew])
                spent.append(time.process_time() - begin)
            kept = spent[0] / spent[-1]
            rows.append((workers, skew, f"{kept:.2f}", verdict(kept >= 0.9)))
    show("d-choices: rate of the eighth 10,000,000 messages / rate of the first", ("n", "skew", "kept", ">= 0.9"), rows)

    rows = []
    for workers in (10, 100, 1000, 10_000):
        memory = ks.Sender("d-choices", workers).memory()
        rows.append(
            (workers, *(f"{memory[part] / 1000:,.1f}" for part in ("loads", "heavy_hitters", "working_copies")))
        )
    show("Memory of a d-choices sender in kB", ("n", "loads", "counters", "working copies"), rows)
    console.print("One sender, one core; Zipf, 10,000 keys, 10,000,000 messages.")


if __name__ == "__main__":
    main()
