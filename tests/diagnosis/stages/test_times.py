"""The parts of a stage's time add up to its wall time, and skew is what even loads would have saved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.diagnosis.stages.times import makespan, split_time


def schedule(durations, slots):
    """Return launch and finish of tasks that run one after the other on the slot that is free first."""
    free = [0] * slots
    launch, finish = [], []
    for duration in durations:
        slot = free.index(min(free))
        launch.append(free[slot])
        free[slot] += duration
        finish.append(free[slot])
    return np.array(launch), np.array(finish)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.integers(1, 9))
def test_the_makespan_is_that_of_a_schedule(durations, slots):
    _, finish = schedule(durations, slots)
    assert makespan(np.array(durations) / 1e3, slots) == pytest.approx(finish.max() / 1e3)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 10_000)), min_size=1, max_size=40), st.integers(1, 9))
def test_the_parts_add_up_to_the_wall_time(tasks, slots):
    durations, loads = np.array(tasks).T
    launch, finish = schedule(durations.tolist(), slots)
    split = split_time(launch, finish, np.zeros(len(tasks), dtype=np.int64), {"rows": loads.astype(float)}, slots)
    parts = (split.even, split.skew, split.stragglers, split.waiting)
    assert min(parts) >= -1e-9
    assert sum(parts) == pytest.approx(split.wall, abs=1e-6)
    assert split.wall == pytest.approx((finish.max() - launch.min()) / 1e3)


def test_a_load_that_the_slowest_task_does_not_have_explains_nothing():
    launch, finish = schedule([1000] * 7 + [9000], 8)
    rows = np.array([9000.0] + [100] * 7)
    assert split_time(launch, finish, np.zeros(8, dtype=np.int64), {"rows": rows}, 8).fit is None


# Tasks whose time has nothing to do with what they read: no load may be blamed by chance, however few they are.

TRIES = 300


def share_blamed(tasks, made):
    """Return how often a load is found to cost at least 15 % of the time."""
    rng, slots, blamed = np.random.default_rng(tasks), min(tasks, 8), 0
    for _ in range(TRIES):
        seconds, loads = made(rng, tasks)
        launch, finish = schedule((1000 * seconds).astype(int).tolist(), slots)
        split = split_time(launch, finish, np.zeros(tasks, dtype=np.int64), loads, slots)
        blamed += split.fit is not None and split.skew >= 0.15 * split.wall
    return blamed / TRIES


def unrelated(rng, tasks):
    loads = {name: rng.lognormal(6, 0.6, tasks) for name in ("rows", "bytes", "left", "right", "output")}
    return rng.lognormal(1.5, 0.6, tasks), loads


def one_hot(rng, tasks):
    rows = rng.lognormal(6, 0.1, tasks)
    rows[rng.integers(tasks)] *= 8
    return (1 + rows / 200) * rng.lognormal(0, 0.15, tasks), {"rows": rows}


@pytest.mark.parametrize("tasks", [2, 3, 4, 5, 6, 8, 12, 16, 24])
def test_a_load_is_rarely_blamed_by_chance(tasks):
    # Of five loads, each drawn by chance. Two tasks allow no more.
    assert share_blamed(tasks, unrelated) <= (0.05 if tasks > 2 else 0.12)


@pytest.mark.parametrize("tasks", [2, 3, 4, 5, 6, 8, 12, 16])
def test_a_hot_task_is_nearly_always_found(tasks):
    assert share_blamed(tasks, one_hot) >= 0.95
