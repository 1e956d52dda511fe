"""Diagnose stage by stage while the log is read: when a query ends, its tasks and its plan are no longer needed.

So memory depends on the queries that run at once and on the findings, not on the length of the log: a stream may have
run a hundred thousand micro-batches.
"""

from array import array
from dataclasses import dataclass, field, replace

import numpy as np

from keyspread.diagnosis.log.application import FAILED, RUNNING, Application, Query, Stage
from keyspread.diagnosis.stages.finding import KEY_SKEW, Finding, StageSummary, sort_findings
from keyspread.diagnosis.stages.findings import LEAST_LOST, key_skew, other_findings
from keyspread.diagnosis.stages.remedies import show_bytes
from keyspread.diagnosis.stages.shuffles import ShuffleIndex
from keyspread.diagnosis.stages.times import StageTime, measure, slots_of
from keyspread.diagnosis.stages.unfinished import Unfinished, unfinished, unfinished_finding


class Spans:
    """Spans of time in milliseconds, 16 bytes each. They may overlap: no second is counted twice."""

    def __init__(self) -> None:
        self.bounds = array("d")  # start, end, start, end, …

    def add(self, start: float, end: float) -> None:
        """Take one more span."""
        self.bounds.extend((start, max(start, end)))

    @property
    def seconds(self) -> float:
        """Return the time that at least one of the spans covers."""
        if not self.bounds:
            return 0.0
        spans = np.array(self.bounds).reshape(-1, 2)
        starts, ends = spans[np.argsort(spans[:, 0], kind="stable")].T
        # What is covered before each span began: the latest end so far.
        before = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
        return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum()) / 1e3

    @property
    def overlap(self) -> bool:
        """Tell whether some of them cover the same time."""
        return float(np.diff(np.array(self.bounds).reshape(-1, 2)).sum()) / 1e3 > self.seconds + 1e-3


_LONGEST = 5
_SPILLED = 2**30
_STAGES_NAMED = 1000
"""Stages that a finding lists; of a long stream it names the first ones, and counts all."""


@dataclass
class Totals:
    """What is counted over all stages."""

    stages: int = 0
    tasks: int = 0
    ended: int = 0
    """Tasks whose end the log holds, and shows when."""
    failed: int = 0
    failed_ms: int = 0
    spilled: int = 0
    unfinished: int = 0
    first_launch: int | None = None
    last_finish: int | None = None
    retried: set[int] = field(default_factory=set)


class Analysis:
    """The findings of the stages that were taken so far. A stage is taken once, and then forgotten."""

    def __init__(self, application: Application, since: int = 0) -> None:
        self.application = application
        self.totals = Totals()
        self._since = since
        self.lost = 0.0
        """Seconds lost to key skew, once all stages are taken: those of stages that ran side by side count once."""
        self._groups: dict[tuple[object, ...], _Group] = {}
        self.longest: tuple[StageSummary, ...] = ()
        """The stages that took longest."""

    def query_ended(self, id: int) -> None:
        """Take the stages of a query that has ended, and forget them and its plan."""
        application = self.application
        query = application.queries.get(id)
        numbers = [number for number, stage in application.stages.items() if stage.execution == id]
        self._take([application.stages[number] for number in numbers], query)
        for number in numbers:
            del application.stages[number]
        if query is not None:
            query.plan = None
            query.details = ""

    def finish(self) -> tuple[Finding, ...]:
        """Take all stages that are left, and return every finding: key skew first, worst first."""
        self._take(list(self.application.stages.values()), None)
        self.application.stages.clear()
        kept, lost = [], Spans()
        for group in self._groups.values():
            finding = group.whole()
            if not finding.operator or finding.unfinished or finding.lost >= LEAST_LOST:
                kept.append(finding)
                if finding.kind == KEY_SKEW:
                    lost.bounds.extend(group.lost.bounds)
        self.lost = lost.seconds
        return sort_findings([*kept, *self._failures()])

    def _take(self, stages: list[Stage], query: Query | None) -> None:
        index: ShuffleIndex | None = None
        for stage in stages:
            if not len(stage.tasks) or int(stage.tasks.column("launch").min()) < self._since:
                continue
            self._add_up(stage)
            # Most stages read exchanges of their own query; a cut log may not say which one that is.
            if index is None:
                index = ShuffleIndex(self.application, stages, [query] if query is not None else None)
            time = measure(self.application, stage, index)
            last = (stage.id, stage.attempt + 1) not in self.application.stages
            self._judge(time, unfinished(self.application, stage, index, slots_of(self.application, stage), last))

    def _add_up(self, stage: Stage) -> None:
        totals, tasks = self.totals, stage.tasks
        launch, finish, failed = tasks.column("launch"), tasks.column("finish"), tasks.column("outcome") == FAILED
        totals.stages += 1
        totals.tasks += len(tasks)
        totals.ended += int((tasks.column("outcome") != RUNNING).sum())
        totals.failed += int(failed.sum())
        totals.failed_ms += int((finish - launch)[failed].sum())
        totals.spilled += int(tasks.column("spilled").sum())
        first, last = int(launch.min()), int(finish.max())
        totals.first_launch = min(first, totals.first_launch or first)
        totals.last_finish = max(last, totals.last_finish or last)
        if stage.attempt > 0:
            totals.retried.add(stage.id)

    def _judge(self, time: StageTime | None, open_: Unfinished | None) -> None:
        self.totals.unfinished += open_.open if open_ is not None else 0
        skew = key_skew(self.application, time) if time is not None else None
        ended = unfinished_finding(self.application, open_, skew) if open_ is not None else None
        if ended is not None and ended.kind == KEY_SKEW:
            skew = ended  # the tasks that finished are only a part of it
        others = other_findings(time, skew) if time is not None else []
        end = (
            max(int(part.column("finish").max()) for part in (time, open_) if part is not None) if time or open_ else 0
        )
        for finding in (skew, *others, ended if ended is not skew else None):
            if finding is not None:
                by_key = (finding.operator, finding.keys, finding.definitions, finding.sources)
                what = by_key if finding.keys else (finding.text.split(":")[0].split(";")[0],)
                group = self._groups.setdefault((finding.kind, finding.call_site, *what), _Group())
                group.add(finding, end)
        if time is not None:
            line = summary(time)
            if open_ is not None:  # it took at least as long as its open tasks ran
                line = replace(line, wall_s=round(open_.wall, 3), slowest_s=round(float(open_.seconds.max()), 3))
            by_length = sorted((*self.longest, line), key=lambda stage: (-stage.wall_s, stage.stage))
            self.longest = tuple(by_length[:_LONGEST])

    def _failures(self) -> list[Finding]:
        """Return one finding for all failed tasks and lost executors, one for stages that ran again, one for spills."""
        findings, totals, lost = [], self.totals, self.application.lost_executors
        parts = []
        if totals.failed:
            seconds = totals.failed_ms / 1e3
            parts.append(
                f"{totals.failed:,} failed task{'s' if totals.failed > 1 else ''} ({seconds:.1f} s of task time)"
            )
        if lost:
            parts.append(f"{lost} executor{'s' if lost > 1 else ''} lost")
        if parts:
            findings.append(Finding("retries", ", ".join(parts)))
        if totals.retried:
            retried = sorted(totals.retried)
            shown = ", ".join(map(str, retried[:5])) + (" …" if len(retried) > 5 else "")
            findings.append(Finding("retries", f"stage {shown} was run more than once", stages=tuple(retried)))
        if totals.spilled > _SPILLED:
            findings.append(Finding("spill", f"{show_bytes(totals.spilled)} did not fit into memory and went to disk"))
        return findings


class _Group:
    """All findings of one operator, key and place in the code: micro-batches, loops."""

    def __init__(self) -> None:
        self.finding: Finding | None = None
        self.wall = Spans()
        self.lost = Spans()
        """What each stage lost, counted back from its end: there the others wait for the hot task."""

    def add(self, finding: Finding, end: int) -> None:
        """Take the finding of a stage that ended then (ms since 1970)."""
        self.finding = finding if self.finding is None else _merged(self.finding, finding)
        self.wall.add(end - 1e3 * finding.wall, end)
        self.lost.add(end - 1e3 * finding.lost, end)

    def whole(self) -> Finding:
        """Return the finding of all stages. Time in which several of them ran counts once."""
        finding = self.finding
        assert finding is not None
        if finding.count == 1:
            return finding
        lost, wall = self.lost.seconds, self.wall.seconds
        text = finding.text
        if finding.kind == KEY_SKEW and not finding.unfinished:
            text = f"{finding.operator} by {', '.join(finding.keys)}: at most {lost:.1f} of {wall:.1f} s lost"
        # The parts of stages that ran side by side are no parts of the time that they took together.
        time = {} if self.wall.overlap else finding.time
        return replace(finding, text=text, lost=lost, wall=wall, time=time)


def _merged(before: Finding, finding: Finding) -> Finding:
    """Return two findings of a group as one: the worst, with the sums of both."""
    worst = max(before, finding, key=lambda part: part.lost if part.count == 1 else part.worst)
    new = tuple(stage for stage in finding.stages if stage not in before.stages)  # not a second attempt
    stages = before.stages if len(before.stages) >= _STAGES_NAMED else (*before.stages, *new)
    parts = dict.fromkeys((*before.time, *finding.time))
    return replace(
        worst,
        lost=before.lost + finding.lost,
        wall=before.wall + finding.wall,
        worst=max(before.worst, finding.worst),
        stages=stages,
        count=before.count + len(new),
        time={part: before.time.get(part, 0.0) + finding.time.get(part, 0.0) for part in parts},
        unfinished=before.unfinished + finding.unfinished,
    )


def summary(time: StageTime) -> StageSummary:
    """Return a stage in one line."""
    consumers = dict.fromkeys(
        f"{shuffle.consumer.name} by {', '.join(shuffle.keys)}" if shuffle.keys else shuffle.consumer.name
        for shuffle in time.shuffles
        if shuffle.kind != "single"
    )
    return StageSummary(
        stage=time.stage.id,
        wall_s=round(time.split.wall, 3),
        tasks=time.tasks,
        slots=time.split.slots,
        slowest_s=round(float(time.seconds.max()), 3),
        mean_s=round(float(time.seconds.mean()), 3),
        what=next(iter(consumers), "read" if time.column("input_rows").any() else ""),
        call_site=time.stage.name,
    )
