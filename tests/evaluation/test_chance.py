"""The formula against seeded simulations of what it describes."""

import numpy as np
import pytest

from keyspread.evaluation.compare import busiest_by_chance


@pytest.mark.parametrize(
    ("messages", "workers"),
    [(100, 2), (2000, 16), (20_000, 16), (5000, 50), (100_000, 1000), (1000, 100), (500, 50)],
)
def test_random_messages(messages, workers):
    drawn = np.random.default_rng(0).multinomial(messages, np.full(workers, 1 / workers), size=2000)
    simulated = drawn.max(axis=1).mean() * workers / messages
    assert busiest_by_chance(messages, workers) == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize(
    ("messages", "workers", "keys"),
    [(2000, 16, 5000), (20_000, 16, 5000), (20_000, 50, 10_000), (10_000, 4, 1000), (100_000, 100, 20_000)],
)
def test_equally_frequent_keys_on_random_workers(messages, workers, keys):
    rng, simulated = np.random.default_rng(0), []
    for _ in range(300):
        counts = rng.multinomial(messages, np.full(keys, 1 / keys))
        loads = np.bincount(rng.integers(workers, size=keys), counts, workers)
        simulated.append(loads.max() * workers / messages)
    assert busiest_by_chance(messages, workers, keys) == pytest.approx(np.mean(simulated), rel=0.01)
