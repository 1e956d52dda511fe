"""Replicas of planned routing, the number of buckets it needs, and the effect of moving fewer keys.

Bar (|K| = 10^4, m = 10^6, one batch): head replicas <= 1.15 x the sum of max(1, ceil(p n)) over the head + |head|,
at an imbalance <= 5e-5. Where the tail is large (skew 1), the bar is missed: perfect balance with tail keys on every
worker needs n + |head| - 1 pieces of hot keys. Fewer pieces are possible only if some workers have no hot key, and
twice the tail keys of the others instead. The number of buckets per worker is the smallest power of two with which the
busiest worker has at most 1 % more than its even share on all streams here.

    ./dev bench planned [SEEDS]
"""

import math
import statistics

import numpy as np

import keyspread as ks
from keyspread.checks import least_hot_count
from keyspread.planned.planner import BUCKETS_PER_WORKER
from keyspread.streams.encoded import Encoded
from keyspread.streams.files import read_stream
from keyspread.streams.generated import DriftingZipfStream, zipf

from common import numbers, real_streams, show, verdict


def head_replicas(seeds: int) -> None:
    rows = []
    for workers in (50, 100):
        for skew in (1.0, 1.2, 1.4, 1.7, 2.0):
            parts, uneven = [], []
            for seed in range(seeds):
                stream = Encoded.of(zipf(skew, 10_000, 1_000_000, seed=seed))
                result = ks.simulate(stream, "planned", workers, windows=1, seed=seed)
                hot = stream.counts[stream.counts >= least_hot_count(result.threshold, stream.messages)]
                least = sum(max(1, math.ceil(count / stream.messages * workers)) for count in hot.tolist())
                parts.append(result.head_replicas / (1.15 * least + hot.size))
                uneven.append(result.imbalance)
            reached = statistics.median(parts) <= 1 and statistics.median(uneven) <= 5e-5
            cells = (f"{statistics.median(parts):.2f}", f"{max(parts):.2f}", f"{statistics.median(uneven):.1e}")
            rows.append((workers, skew, *cells, f"{max(uneven):.1e}", verdict(reached)))
    columns = ("n", "skew", "head replicas / bar", "worst", "imbalance", "worst", "verdict")
    show(f"Head replicas of a plan, medians over {seeds} seeds", columns, rows)


def buckets(seeds: int) -> None:
    tried = (8, 16, 32, 64, 128)
    rows, worst = [], dict.fromkeys(tried, 0.0)
    for workers in (5, 20, 100, 1000):
        for skew in (0.0, 0.5, 0.8, 1.0, 1.4):
            over = dict.fromkeys(tried, 0.0)
            for seed in range(min(3, seeds)):
                stream = zipf(skew, 100_000, 1_000_000, seed=seed)
                for many in tried:
                    found = ks.plan(stream, workers, buckets=many * workers).imbalance * workers
                    over[many] = max(over[many], found)
                    worst[many] = max(worst[many], found)
            rows.append((workers, skew, *(f"{100 * one:.2f} %" for one in over.values())))
    rows.append(("worst", "", *(f"{100 * one:.2f} %" for one in worst.values())))
    show(
        "Busiest worker above its even share, by buckets per worker (worst seed)", ("n", "skew", *map(str, tried)), rows
    )
    enough = min(many for many in tried if worst[many] <= 0.01)
    show(
        "Fewest that stay within 1 %",
        ("buckets per worker", "verdict"),
        [(enough, verdict(enough == BUCKETS_PER_WORKER))],
    )


def moves(workers: int = 100) -> None:
    drift = DriftingZipfStream(1.2, 100_000, 1_000_000, redrawn=1.0, seed=1).hashes()
    streams = {"Zipf 0.3": zipf(0.3, 10_000, 1_000_000, seed=1), "Zipf 1.4": zipf(1.4, 10_000, 1_000_000, seed=1)}
    streams["drifting Zipf"] = drift
    for name, path in real_streams().items():
        streams[name] = read_stream(path).hashes
    ways = {"as even as possible": {}} | {
        f"tolerance {part:g}/n": {"tolerance": part / workers} for part in (0.03, 0.1)
    }
    ways |= {f"most moved {100 * most:g} %": {"most_moved": most} for most in (0.05, 0.01)}
    rows = []
    for name, hashes in streams.items():
        stream = Encoded.of(hashes)
        for way, options in ways.items():
            result = ks.simulate(stream, "planned", workers, **options)
            over = f"{100 * result.windowed_imbalance * workers:.1f} %"
            rows.append((name, way, over, f"{result.replicas / stream.keys:.2f}"))
    columns = ("stream", "plan", "busiest worker of a window above even", "replicas per key")
    show(f"Moving fewer keys, n = {workers}, 50 windows planned one after the other", columns, rows)


if __name__ == "__main__":
    np.seterr(all="raise")
    (seeds,) = numbers(seeds=10)
    head_replicas(seeds)
    buckets(seeds)
    moves()
