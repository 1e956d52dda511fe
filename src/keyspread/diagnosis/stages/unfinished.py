"""Tasks that never succeeded: they still ran when the log ended, were killed with the job, or failed to the last.

That is what a hot key looks like to a user who kills a job that hangs. The log holds no end of such a task, but it says
what was written into an exchange and what the other tasks read of it: the rest is what these tasks had to read. How
long they would have run is not known, so a finding about them is a lower bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from keyspread.diagnosis.log.application import FAILED, KILLED, RUNNING, SUCCEEDED, Application, Floats, Ints, Stage
from keyspread.diagnosis.stages.finding import Finding, Remedy
from keyspread.diagnosis.stages.findings import LEAST_LOST, LEAST_RATIO, LEAST_SHARE, OTHER_LOST, task_bars, with_key
from keyspread.diagnosis.stages.shuffles import Shuffle, ShuffleIndex
from keyspread.diagnosis.stages.times import concurrency, makespan, one_each

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

    def column(self, name: str) -> Ints:
        """Return one column of these attempts."""
        return self.stage.tasks.column(name)[self.attempts]

    @property
    def seconds(self) -> Floats:
        """Return how long every attempt ran, as far as the log knows."""
        return (self.column("finish") - self.column("launch")) / 1e3

    @property
    def wall(self) -> float:
        """Return the seconds from the first launch to the last moment that the log knows."""
        return float(self.column("finish").max() - self.column("launch").min()) / 1e3

    @property
    def open(self) -> int:
        """Return how many tasks started and did not succeed."""
        return len(self.attempts) - self.finished

    @property
    def state(self) -> str:
        """Return what became of them: still running, killed, failed."""
        outcomes = self.column("outcome")[self.finished :]
        return ", ".join(name for state, name in _STATES.items() if (outcomes == state).any())

    def simulated(self, seconds: Floats) -> float:
        """Return the time of attempts of these lengths on the slots that there were."""
        return makespan(seconds[np.argsort(self.column("launch"), kind="stable")], self.slots)

    def lost(self, rows: Floats) -> float:
        """Return the seconds that even loads would have saved, at least.

        An even task takes what the others took per row, and no less per row than the open ones have taken until now.
        """
        seconds, mean = self.seconds, float(rows.mean())
        even = seconds.copy()
        for task in range(self.finished, len(even)):
            needed = max(mean * self._pace(rows), float(seconds[task]) * mean / float(rows[task]) if rows[task] else 0)
            even[task] = min(seconds[task], needed)
        return max(self.simulated(seconds) - self.simulated(even), 0.0)

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


def unfinished(
    application: Application, stage: Stage, index: ShuffleIndex, slots: int | None, last_attempt: bool
) -> Unfinished | None:
    """Return the tasks of a stage that is the last attempt and did not finish, None if every task succeeded."""
    # The log of a busy driver may lack the ends of some tasks: a stage that ended well has no open ones.
    if not last_attempt or stage.attempt or (stage.completed is not None and stage.failure is None):
        return None
    tasks = stage.tasks
    outcome, number = tasks.column("outcome"), tasks.column("index")
    finished = one_each(stage, tasks.column("finish"), np.flatnonzero(outcome == SUCCEEDED))
    rest = np.flatnonzero((outcome != SUCCEEDED) & ~np.isin(number, number[finished]))
    # Of several attempts the longest: what it did is the most that is known.
    longest = one_each(stage, tasks.column("launch") - tasks.column("finish"), rest)
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


_CLEARLY = 2.5
"""Load of a task that has hardly run, as a multiple of the mean, from which it counts as hot."""
_MANY = {"rows": 500, "bytes": 10_000}
"""The least load of such a task: of a few rows in many tasks, one is already a multiple of the mean."""


def unfinished_finding(application: Application, tasks: Unfinished, skew: Finding | None) -> Finding | None:
    """Return the finding of a stage of which tasks did not finish; `skew` is that of the tasks which did.

    None if they ran no longer than the others and had no more to do: then the job was killed for another reason.
    """
    longest = float(tasks.seconds[tasks.finished :].max())
    others = float(tasks.worked.max(initial=0.0))
    keyed = [shuffle for shuffle in tasks.shuffles if shuffle.is_keyed]
    # Behind a partial aggregation the rows are even, and the bytes are not.
    loads = [
        (shuffle, name, load)
        for shuffle in keyed
        for name, load in (("rows", shuffle.rows), ("bytes", shuffle.bytes))
        if load is not None
    ]
    shuffle, name, load = max(loads, key=lambda triple: _ratio(triple[2], tasks.finished), default=(None, "", None))
    finding = Finding(
        kind="unfinished",
        text=_text(tasks, longest, others),
        wall=tasks.wall,
        stage=tasks.stage.id,
        stages=(tasks.stage.id,),
        unfinished=tasks.open,
        tasks=len(tasks.attempts),
        slots=tasks.slots,
        call_site=tasks.stage.name,
    )
    if shuffle is not None and load is not None and _is_hot(tasks, name, load, longest, others):
        lost, expected = tasks.lost(load), tasks.expected(load)
        pace = f". At the pace of the others it needs up to {expected:.0f} s" if expected > longest else ""
        finding = replace(finding, text=f"{finding.text}{pace}", lost=lost, worst=lost, expected=expected)
        return _skew(application, tasks, shuffle, name, load, finding)
    if skew is not None or longest < max(OTHER_LOST, 1.5 * others):
        return None
    return _unexplained(finding, shuffle, longest - others)


def _is_hot(tasks: Unfinished, name: str, load: Floats, longest: float, others: float) -> bool:
    """Tell whether an open task had more to do than its share, and has run or would run longer than the others."""
    ratio = _ratio(load, tasks.finished)
    if ratio < LEAST_RATIO:
        return False
    work = tasks.wall - float(tasks.started.max(initial=0.0))
    if longest > others and tasks.lost(load) >= max(LEAST_LOST, LEAST_SHARE * work):
        return True
    # The log may stop before the task has run long: then its load alone must say that it will.
    most = float(load[tasks.finished :].max())
    expected = tasks.expected(load)
    return ratio >= _CLEARLY and most >= _MANY[name] and expected >= max(others + LEAST_LOST, 1.5 * others)


def _skew(
    application: Application, tasks: Unfinished, shuffle: Shuffle, name: str, load: Floats, finding: Finding
) -> Finding:
    whole, size = tasks.simulated(tasks.seconds), shuffle.bytes if name != "bytes" else None
    waiting = max(finding.wall - whole, 0.0)
    finding = replace(
        finding,
        load=f"{name} that no other task read" if tasks.missing == 1 else f"an equal part of the {name} left",
        busiest=float(load.max()),
        mean=float(load.mean()),
        bytes=None if size is None else (float(size.max()), float(size.mean())),
        time={"even": whole - finding.lost, "skew": finding.lost, "stragglers": 0.0, "waiting": waiting},
        bars=task_bars(tasks.seconds, load, tasks.column("launch")),
    )
    return with_key(finding, application, shuffle, tasks.shuffles)


def _unexplained(finding: Finding, shuffle: Shuffle | None, lost: float) -> Finding:
    text = finding.text
    fixes: tuple[Remedy, ...] = ()
    if shuffle is not None:
        names = ",".join(part.name for part in shuffle.key)
        text += f"; {shuffle.consumer.name} by {', '.join(shuffle.keys)}"
        count = "Count the keys in the data; a join may also turn few rows into many"
        fixes = (Remedy(f"{count}: keyspread diagnose DATA --key {names}"),)
    text += ". The log does not hold the rows that explain why"
    return replace(finding, text=text, lost=max(lost, 0.0), worst=max(lost, 0.0), remedies=fixes)


def _text(tasks: Unfinished, longest: float, others: float) -> str:
    many = "one task" if tasks.open == 1 else f"{tasks.open:,} tasks"
    rest = (
        f"the longest of the {tasks.finished:,} others took {others:.1f} s" if tasks.finished else "no other finished"
    )
    return f"{many} did not finish ({tasks.state} after {longest:.1f} s; {rest})"


def _ratio(rows: Floats | None, finished: int) -> float:
    """Return the load of the largest open task as a multiple of the mean."""
    if rows is None or not float(rows.mean()):
        return 0.0
    return float(rows[finished:].max() / rows.mean())
