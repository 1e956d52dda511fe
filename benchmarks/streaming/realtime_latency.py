"""Record by record in Spark's real-time mode: latency from Kafka to Kafka, loads, and who saturates, n = 4.

A producer sends messages with Zipf keys at a steady rate; `spread(…, realtime=True)` routes them, and a Python function
behind it takes a fixed time per row. The latency is the time from when a message is due at the producer until the
broker has its result. The first seconds do not count.

1. 100 messages per second, 1 ms of work, Zipf 1.4. Bars for ours: p50 at most 15 ms, busiest worker at most 1.1 x even.
2. The same rate with 20 ms of work, Zipf 2.0: the median of each third of the run, beside the queueing model. By key,
   one worker gets more than it can do, and its latency grows as long as messages arrive. Bar for ours: it does not.

    ./dev bench realtime_latency [SECONDS]
"""

import numpy as np
from live.engine import Engine, engine

from keyspread.paper.live.measure import by_scheme, measure, model
from keyspread.paper.live.setup import Load, Measured

from common import console, numbers, show, verdict

WORKERS, RATE = 4, 100
OURS = ("d-choices", "per-key")


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"


def busiest(found: Measured) -> float:
    """Return the load of the busiest worker as a multiple of the even share."""
    return float(found.loads.max() * found.loads.size / found.loads.sum())


def thirds_of(found: Measured) -> list[float]:
    """Return the median latency of each third of the messages: it grows if a worker is saturated."""
    return [float(np.median(part)) for part in np.array_split(found.latency, 3)]


def measured(live: Engine, scheme: str, load: Load) -> Measured:
    (found,) = measure(live, by_scheme(scheme, WORKERS), WORKERS, load)
    return found


def one_ms(live: Engine, seconds: int) -> None:
    table = []
    # The first run of a JVM is slow; it does not count.
    measured(live, "key", Load(1.4, (RATE,), 2, milliseconds=1, text=True))
    for scheme in ("key", "partial-key", "shuffle", *OURS):
        found = measured(live, scheme, Load(1.4, (RATE,), seconds, milliseconds=1, text=True))
        times = [getattr(found.waiting, name) for name in ("p50", "p95", "p99", "highest_average")]
        table.append(
            [
                scheme,
                *map(milliseconds, times),
                f"{busiest(found):.2f} x",
                found.doubled,
                verdict(times[0] <= 0.015 and busiest(found) <= 1.1) if scheme in OURS else "",
            ]
        )
    title = f"{RATE} messages per second for {seconds} s, Zipf 1.4, 1 ms of work, n = {WORKERS}; ms"
    show(title, ["", "p50", "p95", "p99", "max avg", "busiest", "doubled", "verdict"], table)


def saturation(live: Engine, seconds: int) -> None:
    table = []
    load = Load(2.0, (RATE,), seconds, milliseconds=20, text=True)
    for scheme in ("key", "partial-key", *OURS):
        found = measured(live, scheme, load)
        (expected,) = model(scheme, WORKERS, load)
        thirds, use = thirds_of(found), found.in_use
        table.append(
            [
                scheme,
                f"{100 * use:.0f} %",
                *map(milliseconds, thirds),
                *map(milliseconds, (found.waiting.p99, found.waiting.highest_average, thirds_of(expected)[2])),
                found.doubled,
                verdict(use < 1 and thirds[2] < 2 * thirds[0] + 0.1) if scheme in OURS else "",
            ]
        )
    title = f"{RATE} messages per second for {seconds} s, Zipf 2.0, 20 ms of work: p50 of each third of the run; ms"
    columns = ["", "busiest", "1st", "2nd", "3rd", "p99", "max avg", "model 3rd", "doubled", "verdict"]
    show(title, columns, table)


def main() -> None:
    (seconds,) = numbers(seconds=20)
    with engine(slots=16) as live:
        console.print(f"Spark {live.spark.version} with {live.connector}")
        one_ms(live, seconds)
        saturation(live, seconds)


if __name__ == "__main__":
    main()
