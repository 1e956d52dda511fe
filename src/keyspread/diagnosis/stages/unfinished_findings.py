"""From tasks that did not finish to a finding: a hot key as a lower bound, or that the log does not say why."""

from dataclasses import replace

from keyspread.diagnosis.diagnosis import KEY_SKEW, Finding, Remedy
from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.log.tasks import Floats
from keyspread.diagnosis.stages.adaptive import judge
from keyspread.diagnosis.stages.findings import LEAST_LOST, LEAST_RATIO, LEAST_SHARE, OTHER_LOST, task_bars
from keyspread.diagnosis.stages.origins import origins, sources
from keyspread.diagnosis.stages.remedies import remedies
from keyspread.diagnosis.stages.shuffles import Shuffle
from keyspread.diagnosis.stages.unfinished import Unfinished

UNFINISHED = "unfinished"
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
    keyed = [one for one in tasks.shuffles if one.kind in ("hash", "range") and one.keys]
    # Behind a partial aggregation the rows are even, and the bytes are not.
    loads = [
        (shuffle, name, load)
        for shuffle in keyed
        for name, load in (("rows", shuffle.rows), ("bytes", shuffle.bytes))
        if load is not None
    ]
    shuffle, name, load = max(loads, key=lambda one: _ratio(one[2], tasks.finished), default=(None, "", None))
    finding = Finding(
        kind=UNFINISHED,
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
    verdict, whole = judge(application, shuffle), tasks.whole()
    waiting = max(finding.wall - whole, 0.0)
    return replace(
        finding,
        kind=KEY_SKEW,
        operator=shuffle.consumer.name,
        keys=shuffle.keys,
        columns=tuple(part.name for part in shuffle.key),
        definitions=origins(shuffle.exchange, shuffle.key),
        sources=sources(shuffle.exchange, shuffle.consumer.node),
        partitions=shuffle.partitions,
        load=f"{name} that no other task read" if tasks.missing == 1 else f"an equal part of the {name} left",
        busiest=float(load.max()),
        mean=float(load.mean()),
        bytes=None if shuffle.bytes is None or name == "bytes" else _largest(shuffle.bytes),
        time={"even": whole - finding.lost, "skew": finding.lost, "stragglers": 0.0, "waiting": waiting},
        adaptive=str(verdict),
        query=shuffle.query.description if shuffle.query.description != tasks.stage.name else "",
        remedies=remedies(shuffle, verdict, tasks.shuffles, tasks.slots),
        bars=task_bars(tasks.seconds, load, tasks.stage.tasks.column("launch")[tasks.attempts]),
    )


def _largest(load: Floats) -> tuple[float, float]:
    return float(load.max()), float(load.mean())


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
