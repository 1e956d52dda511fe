"""Where the time of one stage went: its successful tasks, the loads that may explain them, and the split."""

from dataclasses import dataclass

import numpy as np

from keyspread.diagnosis.log.application import Application, Stage
from keyspread.diagnosis.log.plan_tree import OUTPUT_ROWS
from keyspread.diagnosis.log.tasks import FAILED, KILLED, SUCCEEDED, Floats, Ints
from keyspread.diagnosis.stages.operators import CACHE
from keyspread.diagnosis.stages.shuffles import Shuffle, ShuffleIndex
from keyspread.diagnosis.stages.time_model import TimeSplit, split_time

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
    failed: int
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
    chosen = _first_success(stage)
    if not len(chosen):
        return None
    shuffles = index.of(stage, chosen)
    loads = _loads(stage, chosen, shuffles)
    launch, finish, executor = (stage.tasks.column(name)[chosen] for name in ("launch", "finish", "executor"))
    started = index.python_start(stage, chosen)
    available = slots_of(application, stage)
    split = split_time(launch, finish, executor, loads, available, started)
    failed, killed = int((outcome == FAILED).sum()), int((outcome == KILLED).sum())
    return StageTime(stage, chosen, split, loads, shuffles, failed, killed, available)


def slots_of(application: Application, stage: Stage) -> int | None:
    """Return how many tasks the executors of the time of a stage can run at once, None if the log does not say."""
    launch, finish = stage.tasks.column("launch"), stage.tasks.column("finish")
    cores = application.executors.cores(int(launch.min()), int(finish.max()))
    try:
        per_task = max(int(application.settings.get("spark.task.cpus", "1")), 1)
    except ValueError:
        per_task = 1
    return max(cores // per_task, 1) if cores > 0 else None


def _first_success(stage: Stage) -> Ints:
    """Return the attempts that count, in order of task: the order of the log must not matter."""
    tasks = stage.tasks
    succeeded = np.flatnonzero(tasks.column("outcome") == SUCCEEDED)
    by_finish = succeeded[np.argsort(tasks.column("finish")[succeeded], kind="stable")]
    _, first = np.unique(tasks.column("index")[by_finish], return_index=True)
    return by_finish[first]


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
