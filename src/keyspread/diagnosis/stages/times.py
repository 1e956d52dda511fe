"""Where the time of a stage went: wall = even + skew + stragglers + waiting, each at least 0, in seconds.

*Even* is the same work in equal tasks on the same slots. *Skew* is what the stage would have been faster if every task
had had the mean load: the simulated makespan, minus the makespan after slope x (load - mean) is taken from each task.
*Stragglers* is what is uneven beside that: slow hosts, and whatever no load explains. *Waiting* is when slots were
free or taken by other stages: the wall time minus the simulated one.

Where the time of one stage went: its successful tasks, the loads that may explain them, and the split.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from keyspread.diagnosis.log.application import (
    KILLED,
    OUTPUT_ROWS,
    SUCCEEDED,
    Application,
    Bools,
    Floats,
    Ints,
    Stage,
)
from keyspread.diagnosis.stages.shuffles import CACHE, Shuffle, ShuffleIndex

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
    if len(durations) <= _FEW:
        return _fit_of_few(durations, loads), 0.0
    mixed = 0 < int(first.sum()) < len(first)
    waves = first.astype(np.float64)[:, None] if mixed else np.zeros((len(first), 0))
    base = np.column_stack([np.ones(len(durations)), waves])
    coefficients, total = _least_squares(base, durations)
    start_up = float(coefficients[1]) if mixed else 0.0
    best: Fit | None = None
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
        by_chance = _BY_CHANCE[spare - 1] if spare <= len(_BY_CHANCE) else _FIT
        if total <= 0 or 1 - left / total < by_chance:
            continue
        if slope <= 0 or explained < _FIT or (best is not None and explained <= best.explained + 1e-3):
            continue
        started = float(coefficients[1]) if mixed else 0.0
        if scaled[int(np.argmax(durations - started * first))] <= 1.2:
            continue
        best, start_up = Fit(name, slope / mean, float(explained)), started
    return best, max(start_up, 0.0)


def _fit_of_few(durations: Floats, loads: Mapping[str, Floats]) -> Fit | None:
    """Return the load of two to four tasks that goes with their time: the slowest has 4 × as much as any other."""
    if len(durations) < 2:
        return None
    slow = int(np.argmax(durations))
    rest = np.arange(len(durations)) != slow
    if durations[slow] < 2 * durations[rest].max():
        return None
    for name, load in loads.items():
        if load[slow] >= 4 * load[rest].max() and load[slow] > 0:
            slope = (durations[slow] - durations[rest].mean()) / (load[slow] - load[rest].mean())
            return Fit(name, float(slope), 1.0)
    return None


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
    for name in np.unique(executor):
        own = np.flatnonzero(executor == name)
        first[own] = launch[own] < finish[own].min()
        # Drivers note the end of a task late: more tasks than slots cannot have run at once.
        first[own[slots:]] = False
    return first


SHUFFLE_ROWS, SHUFFLE_BYTES, INPUT_ROWS, INPUT_BYTES = "shuffle rows", "shuffle bytes", "input rows", "input bytes"
OUTPUT = "output rows of the "
ALL_ROWS = "rows read"
"""The load of a stage in which some tasks read a shuffle and others files: a union."""


@dataclass(frozen=True)
class StageTime:
    """A stage with its successful tasks, one attempt of each."""

    stage: Stage
    chosen: Ints
    """The attempts that count: of each task the one that succeeded first."""
    split: TimeSplit
    loads: dict[str, Floats]
    shuffles: list[Shuffle]
    killed: int
    available: int | None = None
    """Slots of all executors that were there, None if the log does not say."""

    @property
    def tasks(self) -> int:
        """Return the number of tasks that succeeded."""
        return len(self.chosen)

    def column(self, name: str) -> Ints:
        """Return one column of the tasks that count."""
        return self.stage.tasks.column(name)[self.chosen]

    @property
    def seconds(self) -> Floats:
        """Return the duration of every task that counts."""
        return (self.column("finish") - self.column("launch")) / 1e3


def measure(application: Application, stage: Stage, index: ShuffleIndex) -> StageTime | None:
    """Return where the time of a stage went, None if no task of it succeeded."""
    outcome = stage.tasks.column("outcome")
    chosen = one_each(stage, stage.tasks.column("finish"), np.flatnonzero(outcome == SUCCEEDED))
    if not len(chosen):
        return None
    shuffles = index.of(stage, chosen)
    loads = _loads(stage, chosen, shuffles)
    launch, finish, executor = (stage.tasks.column(name)[chosen] for name in ("launch", "finish", "executor"))
    started = index.python_start(stage, chosen)
    available = slots_of(application, stage)
    split = split_time(launch, finish, executor, loads, available, started)
    return StageTime(stage, chosen, split, loads, shuffles, int((outcome == KILLED).sum()), available)


def slots_of(application: Application, stage: Stage) -> int | None:
    """Return how many tasks the executors of the time of a stage can run at once, None if the log does not say."""
    launch, finish = stage.tasks.column("launch"), stage.tasks.column("finish")
    cores = application.executors.cores(int(launch.min()), int(finish.max()))
    try:
        per_task = max(int(application.settings.get("spark.task.cpus", "1")), 1)
    except ValueError:
        per_task = 1
    return max(cores // per_task, 1) if cores > 0 else None


def one_each(stage: Stage, order: Ints, attempts: Ints) -> Ints:
    """Return the first attempt of each task by `order`, task by task: the order of the log must not matter."""
    ordered = attempts[np.argsort(order[attempts], kind="stable")]
    _, first = np.unique(stage.tasks.column("index")[ordered], return_index=True)
    return ordered[first]


def _loads(stage: Stage, chosen: Ints, shuffles: list[Shuffle]) -> dict[str, Floats]:
    """Return what may explain the time of a task. The first of two that explain it equally well is taken."""
    tasks = stage.tasks
    columns = {
        SHUFFLE_ROWS: "shuffle_rows",
        SHUFFLE_BYTES: "shuffle_bytes",
        INPUT_ROWS: "input_rows",
        INPUT_BYTES: "input_bytes",
    }
    loads = {name: tasks.column(column)[chosen].astype(np.float64) for name, column in columns.items()}
    shuffled, read = loads[SHUFFLE_ROWS] > 0, loads[INPUT_ROWS] > 0
    if (shuffled & ~read).any() and (read & ~shuffled).any():
        # Tasks without any row of the shuffle are no sign of skew here: they do something else.
        return {ALL_ROWS: loads[SHUFFLE_ROWS] + loads[INPUT_ROWS]}
    if len(shuffles) > 1:
        for shuffle in shuffles:
            if shuffle.rows is not None:
                loads[side_load(shuffle)] = shuffle.rows
    if any(shuffle.consumer.kind == CACHE for shuffle in shuffles):
        # What is read from a cache is counted in blocks; its rows are those of the scan.
        del loads[INPUT_ROWS], loads[INPUT_BYTES]
    for shuffle in shuffles:
        for node in shuffle.consumer.chain:
            rows = tasks.measured(node.metrics.get(OUTPUT_ROWS, -1))
            if rows is not None:
                loads[f"{OUTPUT}{node.name.split('(')[0].strip()}"] = rows[chosen].astype(np.float64)
    return loads


def side_load(shuffle: Shuffle) -> str:
    """Return the name of the load that one exchange of several brings."""
    return f"rows by {', '.join(shuffle.keys) or 'exchange'} (exchange {shuffle.exchange.metrics.get('records read')})"
