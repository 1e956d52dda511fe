"""Tasks that never succeeded: they still ran when the log ended, were killed with the job, or failed to the last.

That is what a hot key looks like to a user who kills a job that hangs. The log holds no end of such a task, but it says
what was written into an exchange and what the other tasks read of it: the rest is what these tasks had to read. How
long they would have run is not known, so a finding about them is a lower bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from keyspread.diagnosis.log.application import Application, Stage
from keyspread.diagnosis.log.tasks import FAILED, KILLED, RUNNING, SUCCEEDED, Floats, Ints
from keyspread.diagnosis.stages.shuffles import Shuffle, ShuffleIndex
from keyspread.diagnosis.stages.time_model import concurrency, makespan

_STATES = {RUNNING: "still running", KILLED: "killed", FAILED: "failed"}


@dataclass(frozen=True)
class Unfinished:
    """The tasks of a stage that did not finish: first those that succeeded, then the longest attempt of each other."""

    stage: Stage
    attempts: Ints
    finished: int
    """How many of the attempts succeeded."""
    missing: int
    """Tasks of the stage that did not succeed, those that never started included."""
    shuffles: list[Shuffle]
    """With an estimate for the tasks that did not succeed: an even part of the rows that nobody read."""
    slots: int
    started: Floats
    """Seconds of each attempt in which a Python worker started, as far as the log knows."""

    @property
    def seconds(self) -> Floats:
        """Return how long every attempt ran, as far as the log knows."""
        finish, launch = (self.stage.tasks.column(name)[self.attempts] for name in ("finish", "launch"))
        return (finish - launch) / 1e3

    @property
    def wall(self) -> float:
        """Return the seconds from the first launch to the last moment that the log knows."""
        finish, launch = (self.stage.tasks.column(name)[self.attempts] for name in ("finish", "launch"))
        return float(finish.max() - launch.min()) / 1e3

    @property
    def open(self) -> int:
        """Return how many tasks started and did not succeed."""
        return len(self.attempts) - self.finished

    @property
    def state(self) -> str:
        """Return what became of them: still running, killed, failed."""
        outcomes = self.stage.tasks.column("outcome")[self.attempts[self.finished :]]
        return ", ".join(name for state, name in _STATES.items() if (outcomes == state).any())

    def whole(self) -> float:
        """Return the simulated time of all attempts on the slots that there were."""
        return makespan(self.seconds[self._order()], self.slots)

    def lost(self, rows: Floats) -> float:
        """Return the seconds that even loads would have saved, at least.

        An even task takes what the others took per row, and no less per row than the open ones have taken until now.
        """
        seconds, mean = self.seconds, float(rows.mean())
        even = seconds.copy()
        for task in range(self.finished, len(even)):
            needed = max(mean * self._pace(rows), float(seconds[task]) * mean / float(rows[task]) if rows[task] else 0)
            even[task] = min(seconds[task], needed)
        order = self._order()
        return max(makespan(seconds[order], self.slots) - makespan(even[order], self.slots), 0.0)

    def expected(self, rows: Floats) -> float:
        """Return the seconds that the largest open task needs at the pace of the finished ones; 0 if none did."""
        return float(rows[self.finished :].max()) * self._pace(rows)

    @property
    def worked(self) -> Floats:
        """Return how long every finished task ran, without the start of its Python worker."""
        worked: Floats = np.maximum(self.seconds - self.started, 0.0)[: self.finished]
        return worked

    def _pace(self, rows: Floats) -> float:
        total = float(rows[: self.finished].sum())
        return float(self.worked.sum()) / total if total else 0.0

    def _order(self) -> Ints:
        order: Ints = np.argsort(self.stage.tasks.column("launch")[self.attempts], kind="stable")
        return order


def unfinished(
    application: Application, stage: Stage, index: ShuffleIndex, slots: int | None, last_attempt: bool
) -> Unfinished | None:
    """Return the tasks of a stage that is the last attempt and did not finish, None if every task succeeded."""
    # The log of a busy driver may lack the ends of some tasks: a stage that ended well has no open ones.
    if not last_attempt or stage.attempt or (stage.completed is not None and stage.failure is None):
        return None
    tasks = stage.tasks
    outcome, number = tasks.column("outcome"), tasks.column("index")
    finished = _one_each(tasks.column("finish"), number, np.flatnonzero(outcome == SUCCEEDED))
    rest = np.flatnonzero((outcome != SUCCEEDED) & ~np.isin(number, number[finished]))
    # Of several attempts the longest: what it did is the most that is known.
    longest = _one_each(tasks.column("launch") - tasks.column("finish"), number, rest)
    if not len(longest):
        return None
    attempts = np.concatenate([finished, longest])
    missing = max(stage.number_of_tasks - len(finished), len(longest))
    shuffles = [
        _estimated(application, shuffle, len(finished), missing)
        for shuffle in index.of(stage, attempts)
        if shuffle.rows is not None
    ]
    at_once = concurrency(tasks.column("launch")[attempts], tasks.column("finish")[attempts])
    started = index.python_start(stage, attempts)
    return Unfinished(stage, attempts, len(finished), missing, shuffles, min(at_once, slots or at_once), started)


def _one_each(order: Ints, number: Ints, attempts: Ints) -> Ints:
    """Return the first attempt of each task in this order."""
    ordered = attempts[np.argsort(order[attempts], kind="stable")]
    _, first = np.unique(number[ordered], return_index=True)
    return ordered[first]


def _estimated(application: Application, shuffle: Shuffle, finished: int, missing: int) -> Shuffle:
    metrics, written = shuffle.exchange.metrics, application.written

    def filled(read: Floats | None, total: int) -> Floats | None:
        if read is None or not total:
            return read
        part = max(total - float(read[:finished].sum()), 0.0) / missing
        return np.concatenate([read[:finished], np.maximum(read[finished:], part)])

    return replace(
        shuffle,
        rows=filled(shuffle.rows, written.get(metrics.get("shuffle records written", -1), 0)),
        bytes=filled(shuffle.bytes, written.get(metrics.get("shuffle bytes written", -1), 0)),
    )
