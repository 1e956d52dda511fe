"""Real-time mode, routing by a plan in SQL beside the schemes in Python: rate, latency, balance on a drifting topic.

A plan routes records without Python: hot keys by a hash of topic, partition and offset, tail keys by bucket. It is made
before the query starts, from earlier messages. Here a topic is filled first and emptied by one query per way, n = 4:

1. Balance, the busiest worker's load as a multiple of the even share, mean over parts of 2,000 messages: on a topic
   that does not drift, and on one whose hot keys change after every 10,000 messages. A plan is old (made from the
   first 10,000 messages) or fresh (made from the 10,000 messages before, with a new query, as between two batches).
2. Rate: messages per second from the first result to the last, as a ratio to plain `repartition(n, key)`.
3. Latency at 100 messages per second without work.

    ./dev bench realtime_sql [SECONDS]
"""

import numpy as np
from live.engine import Engine, engine
from live.topics import SOURCES, Emptied, busiest, empty, fill, settle
from pyspark.sql import DataFrame

import keyspread as ks
from keyspread.paper.live.measure import Route, by_scheme, measure
from keyspread.paper.live.setup import Load
from keyspread.spark import spread
from keyspread.streams import DriftingZipfStream, ZipfStream

from common import console, numbers, show

WORKERS, PART, PARTS, EVERY = 4, 10_000, 4, 2_000
MANY = 200_000
PYTHON = ("d-choices", "per-key")


def hashes(keys: np.ndarray) -> np.ndarray:
    return ks.hash_keys([str(key) for key in keys.tolist()])


def by_plan(plan: ks.Plan) -> Route:
    return lambda rows: spread(rows, "key", WORKERS, plan=plan, realtime=True)


def by_key(rows: DataFrame) -> DataFrame:
    return rows.repartition(WORKERS, "key")


def rates(live: Engine) -> None:
    keys = ZipfStream(1.4, 10_000, MANY).law().draw(0, MANY)
    plan = ks.plan(hashes(keys[:PART]), WORKERS)
    few = keys[: MANY // 10]
    topics = {MANY: fill(live, keys), few.size: fill(live, few)}
    ways: dict[str, tuple[Route, int]] = {
        "no exchange": (lambda rows: rows, MANY),
        "repartition(n, key)": (by_key, MANY),
        "a plan in SQL": (by_plan(plan), MANY),
        **{scheme: (by_scheme(scheme, WORKERS), few.size) for scheme in PYTHON},
    }
    for route, many in ways.values():  # the first run of each only warms up
        empty(live, topics[few.size], few.size, route) if many == MANY else None
    found = {}
    for name, (route, many) in ways.items():
        settle()
        found[name] = many / empty(live, topics[many], many, route).seconds
    base = found["repartition(n, key)"]
    rows = [[name, f"{rate:,.0f}", f"{rate / base:.2f} x"] for name, rate in found.items()]
    show(f"Zipf 1.4, {SOURCES} partitions -> n = {WORKERS}", ["", "messages / s", "/ repartition"], rows)


def balance(live: Engine) -> None:
    table = []
    for name, law in {
        "steady": ZipfStream(1.4, 10_000, PART * PARTS).law(),
        "drifting": DriftingZipfStream(1.4, 10_000, PART * PARTS, every=PART).law(),
    }.items():
        parts = np.split(np.asarray(law.draw(0, PART * PARTS)), PARTS)
        whole = fill(live, np.concatenate(parts[1:]))
        topics = [fill(live, part) for part in parts[1:]]
        first = ks.plan(hashes(parts[0]), WORKERS)
        plans = [first]
        for part in parts[1:-1]:
            plans.append(ks.plan(hashes(part), WORKERS, previous=plans[-1]))
        fresh = [empty(live, topic, PART, by_plan(plan)) for topic, plan in zip(topics, plans, strict=True)]
        at_once: dict[str, Emptied] = {
            "repartition(n, key)": empty(live, whole, PART * (PARTS - 1), by_key),
            "an old plan in SQL": empty(live, whole, PART * (PARTS - 1), by_plan(first)),
            **{scheme: empty(live, whole, PART * (PARTS - 1), by_scheme(scheme, WORKERS)) for scheme in PYTHON},
            "per-key, half_life='auto'": empty(
                live,
                whole,
                PART * (PARTS - 1),
                lambda rows: spread(
                    rows, "key", WORKERS, "per-key", sender=ks.Settings(half_life="auto"), realtime=True
                ),
            ),
        }
        found = {way: busiest(one.workers, WORKERS, EVERY) for way, one in at_once.items()}
        found["a fresh plan in SQL"] = float(np.mean([busiest(one.workers, WORKERS, EVERY) for one in fresh]))
        table += [[name, way, f"{value:.2f} x"] for way, value in sorted(found.items(), key=lambda item: -item[1])]
    show(f"busiest worker / even, parts of {EVERY:,} messages", ["topic", "way", "busiest"], table)


def latencies(live: Engine, seconds: int) -> None:
    keys = ZipfStream(1.4, 10_000, PART).law().draw(0, PART)
    ways: dict[str, Route] = {
        "repartition(n, key)": by_key,
        "a plan in SQL": by_plan(ks.plan(hashes(keys), WORKERS)),
        **{scheme: by_scheme(scheme, WORKERS) for scheme in PYTHON},
    }
    rows = []
    for name, route in ways.items():
        (found,) = measure(live, route, WORKERS, Load(1.4, (100,), seconds, milliseconds=0, text=True))
        rows.append([name, *(f"{1000 * getattr(found.waiting, p):.1f}" for p in ("p50", "p95", "p99"))])
    show(f"latency at 100 messages per second for {seconds} s; ms", ["", "p50", "p95", "p99"], rows)


def main() -> None:
    (seconds,) = numbers(seconds=12)
    with engine(slots=16) as live:
        console.print(f"Spark {live.spark.version} with {live.connector}")
        balance(live)
        rates(live)
        latencies(live, seconds)


if __name__ == "__main__":
    main()
