"""Where the time of a stage went: wall = even + skew + stragglers + waiting, each at least 0, in seconds.

*Even* is the same work in equal tasks on the same slots. *Skew* is what the stage would have been faster if every task
had had the mean load: the simulated makespan, minus the makespan after slope x (load - mean) is taken from each task.
*Stragglers* is what is uneven beside that: slow hosts, and whatever no load explains. *Waiting* is when slots were
free or taken by other stages: the wall time minus the simulated one.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from keyspread.diagnosis.log.tasks import Bools, Floats, Ints

_FIT = 0.5
"""Share of the differences in time that a load must explain, to be called their cause."""
# With few tasks, one of several loads fits by chance. The share that chance exceeds once in a thousand times, by the
# degrees of freedom: t² / (t² + freedom), with t of Student's distribution at 0.001. With 14 or more, it is below _FIT.
_BY_CHANCE = (1.0, 1.0, 0.996, 0.972, 0.928, 0.874, 0.819, 0.766, 0.717, 0.673, 0.632, 0.595, 0.563, 0.533)
_FEW = 4
"""Tasks up to which no line is fitted: the slowest must stand out in load and time."""


@dataclass(frozen=True)
class Fit:
    """A load that explains the durations: `slope` seconds per unit, `explained` of their variance."""

    load: str
    slope: float
    explained: float


@dataclass(frozen=True)
class TimeSplit:
    """The parts of a stage's wall time, in seconds."""

    wall: float
    makespan: float
    even: float
    skew: float
    stragglers: float
    waiting: float
    slots: int
    start_up: float
    """Seconds by which a task of the first wave took longer than one with the same load later."""
    fit: Fit | None


def split_time(
    launch: Ints,
    finish: Ints,
    executor: Ints,
    loads: Mapping[str, Floats],
    slots: int | None = None,
    started: Floats | None = None,
) -> TimeSplit:
    """Return the parts of the time that these tasks took, with the load of `loads` that explains it best.

    `started` are the seconds of each task in which a Python worker started: no load explains them.
    """
    order = np.lexsort((finish, launch))
    durations = (finish - launch)[order] / 1e3
    slots = min(concurrency(launch, finish), slots or len(launch))
    first = first_wave(launch[order], finish[order], executor[order], slots)
    wall = float(finish.max() - launch.min()) / 1e3
    # Simulated slots are never idle, so the simulation cannot take longer than the stage did, but for rounding.
    whole = makespan(durations, slots)
    worked = durations if started is None else np.maximum(durations - started[order], 0.0)
    fit, start_up = best_fit(worked, first, {name: load[order] for name, load in loads.items()})
    if started is not None and first.any():
        start_up += float(started[order][first].mean())
    even_durations = durations
    if fit is not None:
        load = loads[fit.load][order]
        even_durations = np.maximum(durations - fit.slope * (load - load.mean()), 0.0)
    without_skew = min(makespan(even_durations, slots), whole) if fit is not None else whole
    # Equal tasks: 17 on 4 slots take 5 waves.
    even = min(float(durations.mean()) * -(-len(durations) // slots), without_skew)
    return TimeSplit(
        wall=wall,
        makespan=whole,
        even=even,
        skew=whole - without_skew,
        stragglers=without_skew - even,
        waiting=max(wall - whole, 0.0),
        slots=slots,
        start_up=start_up,
        fit=fit,
    )


def best_fit(durations: Floats, first: Bools, loads: Mapping[str, Floats]) -> tuple[Fit | None, float]:
    """Return the load that explains the durations best, and the seconds that a task of the first wave takes longer.

    The first wave has an intercept of its own: Python workers that start, classes that are loaded. A load counts if
    it explains at least half of the differences, and more than chance would with so few tasks; if it takes longer the
    larger it is; and if the slowest task has it too.
    """
    mixed = 0 < int(first.sum()) < len(first)
    waves = first.astype(np.float64)[:, None] if mixed else np.zeros((len(first), 0))
    base = np.column_stack([np.ones(len(durations)), waves])
    coefficients, total = _least_squares(base, durations)
    start_up = float(coefficients[1]) if mixed else 0.0
    best: Fit | None = None
    if len(durations) <= _FEW:
        return _fit_of_few(durations, loads), 0.0
    if len(durations) < base.shape[1] + 2:
        return None, 0.0
    for name, load in loads.items():
        mean = float(load.mean())
        if mean <= 0 or float(load.max()) == float(load.min()):
            continue
        scaled = load / mean
        coefficients, left = _least_squares(np.column_stack([base, scaled]), durations)
        slope = float(coefficients[-1])
        # With few tasks a line always fits: both sides are per degree of freedom (the adjusted R squared).
        spare = len(durations) - base.shape[1]
        explained = 1 - (left / (spare - 1)) / (total / spare) if total > 0 else 0.0
        if total <= 0 or 1 - left / total < _least_share(spare - 1):
            continue
        if slope <= 0 or explained < _FIT or (best is not None and explained <= best.explained + 1e-3):
            continue
        slowest = int(np.argmax(durations - start_up_of(coefficients, mixed) * first))
        if scaled[slowest] <= 1.2:
            continue
        best = Fit(name, slope / mean, float(explained))
        start_up = start_up_of(coefficients, mixed)
    return best, max(start_up, 0.0)


def _least_share(freedom: int) -> float:
    """Return the share of the differences that a load must explain, to be more than chance."""
    return _BY_CHANCE[freedom] if freedom < len(_BY_CHANCE) else _FIT


def _fit_of_few(durations: Floats, loads: Mapping[str, Floats]) -> Fit | None:
    """Return the load of two to four tasks that goes with their time: the slowest has 4 × as much as any other."""
    if len(durations) < 2:
        return None
    slow, rest = int(np.argmax(durations)), np.arange(len(durations)) != int(np.argmax(durations))
    if durations[slow] < 2 * durations[rest].max():
        return None
    for name, load in loads.items():
        if load[slow] >= 4 * load[rest].max() and load[slow] > 0:
            slope = (durations[slow] - durations[rest].mean()) / (load[slow] - load[rest].mean())
            return Fit(name, float(slope), 1.0)
    return None


def start_up_of(coefficients: Floats, mixed: bool) -> float:
    """Return the coefficient of the first wave."""
    return float(coefficients[1]) if mixed else 0.0


def _least_squares(matrix: Floats, durations: Floats) -> tuple[Floats, float]:
    coefficients: Floats = np.linalg.lstsq(matrix, durations, rcond=None)[0].astype(np.float64)
    rest = durations - matrix @ coefficients
    return coefficients, float(rest @ rest)


def makespan(durations: Floats, slots: int) -> float:
    """Return when the last task ends if each starts, in this order, on the slot that is free first."""
    if len(durations) <= slots:
        return float(durations.max(initial=0.0))
    ends = [0.0] * slots
    for duration in durations.tolist():
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def concurrency(launch: Ints, finish: Ints) -> int:
    """Return how many tasks ran at once at most. A task that ends when another starts has left its slot."""
    times = np.concatenate([finish, launch])
    steps = np.concatenate([-np.ones(len(finish), dtype=np.int64), np.ones(len(launch), dtype=np.int64)])
    order = np.lexsort((steps, times))
    return max(int(np.cumsum(steps[order]).max(initial=0)), 1)


def first_wave(launch: Ints, finish: Ints, executor: Ints, slots: int) -> Bools:
    """Return which tasks, given in order of launch, found a fresh slot: no task of their executor had ended before."""
    first = np.zeros(len(launch), dtype=bool)
    for one in np.unique(executor):
        own = np.flatnonzero(executor == one)
        first[own] = launch[own] < finish[own].min()
        # Drivers note the end of a task late: more tasks than slots cannot have run at once.
        first[own[slots:]] = False
    return first
