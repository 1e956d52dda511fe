"""From the time of a stage to findings: a hot key, and what else cost time, one line each."""

from dataclasses import replace

import numpy as np

from keyspread.diagnosis.log.application import Application, Floats, Ints
from keyspread.diagnosis.stages.finding import KEY_SKEW, Bars, Finding, Remedy
from keyspread.diagnosis.stages.keys import origins, sources
from keyspread.diagnosis.stages.remedies import judge, remedies
from keyspread.diagnosis.stages.shuffles import AGGREGATE, STATE, Shuffle
from keyspread.diagnosis.stages.times import (
    ALL_ROWS,
    INPUT_BYTES,
    INPUT_ROWS,
    OUTPUT,
    StageTime,
    best_fit,
    first_wave,
    side_load,
)

LEAST_LOST = 0.5
"""Seconds below which nothing is reported: a tiny stage may be 83 x uneven and 0.5 s long."""
LEAST_SHARE = 0.15
"""Share of a stage's wall time, without the start of Python workers, that skew must cost."""
LEAST_RATIO = 1.5
"""Load of the busiest task as a multiple of the mean."""
OTHER_LOST = 2.0
_OTHER_SHARE = 0.2
_BARS = 200


def key_skew(application: Application, time: StageTime) -> Finding | None:
    """Return the finding of a stage that lost time to a hot key, None if it did not."""
    split = time.split
    # Python workers that start once are no part of the work: beside 30 s of that, 3 s of skew must not go unseen.
    work = max(split.wall - split.start_up, 0.0)
    if split.fit is None or split.skew < LEAST_SHARE * work or split.fit.load in (INPUT_ROWS, INPUT_BYTES):
        return None
    load = time.loads[split.fit.load]
    keyed = [shuffle for shuffle in time.shuffles if shuffle.is_keyed]
    own = load[time.column("shuffle_rows") > 0] if split.fit.load == ALL_ROWS else load
    if not keyed or not len(own) or float(own.max()) < max(LEAST_RATIO * float(own.mean()), float(load.max())):
        return None
    shuffle = _guilty(time, keyed)
    name = f"{shuffle.consumer.name} by {', '.join(shuffle.keys)}"
    finding = replace(
        _of_stage(time, KEY_SKEW, f"{name}: at most {split.skew:.1f} of {split.wall:.1f} s lost", split.skew),
        load=_load_name(split.fit.load),
        busiest=float(load.max()),
        mean=float(load.mean()),
        rows=_busiest_and_mean(time.column("shuffle_rows")),
        bytes=_busiest_and_mean(time.column("shuffle_bytes")),
        bars=task_bars(time.seconds, load, time.column("launch")),
    )
    return with_key(finding, application, shuffle, time.shuffles)


def with_key(finding: Finding, application: Application, shuffle: Shuffle, others: list[Shuffle]) -> Finding:
    """Return a finding as one of a hot key, with what the plan says about the exchange and what to do about it."""
    verdict, description = judge(application, shuffle), shuffle.query.description
    return replace(
        finding,
        kind=KEY_SKEW,
        operator=shuffle.consumer.name,
        keys=shuffle.keys,
        columns=tuple(part.name for part in shuffle.key),
        definitions=origins(shuffle.exchange, shuffle.key),
        sources=sources(shuffle.exchange, shuffle.consumer.node),
        partitions=shuffle.partitions,
        adaptive=str(verdict),
        query=description if description != finding.call_site else "",
        remedies=remedies(shuffle, verdict, others, finding.slots),
    )


def _of_stage(time: StageTime, kind: str, text: str, lost: float) -> Finding:
    """Return a finding with what all findings about a stage say."""
    split = time.split
    return Finding(
        kind=kind,
        text=text,
        lost=lost,
        worst=lost,
        wall=split.wall,
        stage=time.stage.id,
        stages=(time.stage.id,),
        tasks=time.tasks,
        slots=split.slots,
        time={
            "even": split.even,
            "skew": split.skew,
            "stragglers": split.stragglers,
            "waiting": split.waiting,
            "start-up": split.start_up,
        },
        call_site=time.stage.name,
    )


def _guilty(time: StageTime, keyed: list[Shuffle]) -> Shuffle:
    """Return the exchange whose rows explain the time best, of several that are partitioned by the same keys."""
    fitted = time.split.fit.load if time.split.fit else ""
    named = next((shuffle for shuffle in keyed if side_load(shuffle) == fitted), None)
    if named is not None or len(keyed) == 1:
        return named or keyed[0]
    order = np.lexsort((time.column("finish"), time.column("launch")))
    launch, finish, executor = (time.column(name)[order] for name in ("launch", "finish", "executor"))
    first = first_wave(launch, finish, executor, time.split.slots)

    def explained(shuffle: Shuffle) -> tuple[float, float]:
        if shuffle.rows is None:
            return 0.0, 0.0
        fit, _ = best_fit(time.seconds[order], first, {"rows": shuffle.rows[order]})
        return (fit.explained if fit else 0.0), float(shuffle.rows.sum())

    return max(keyed, key=explained)


def _load_name(load: str) -> str:
    return load.split(" (exchange")[0]


def _busiest_and_mean(values: Ints) -> tuple[float, float] | None:
    return (float(values.max()), float(values.mean())) if len(values) and values.max() > 0 else None


def task_bars(seconds: Floats, loads: Floats, launch: Ints) -> Bars:
    """Return a bar per task in order of launch; of a long stage the slowest tasks and an even selection."""
    order = np.argsort(launch, kind="stable")
    seconds, loads = seconds[order], loads[order]
    kept = np.arange(len(order))
    if len(order) > _BARS:
        slowest = np.argsort(-seconds, kind="stable")[: _BARS // 4]
        spaced = np.linspace(0, len(order) - 1, _BARS - len(slowest)).astype(np.int64)
        kept = np.union1d(slowest, spaced)
    rounded = tuple(round(float(value), 3) for value in seconds[kept])
    return Bars(rounded, tuple(float(value) for value in loads[kept]), len(order) - len(kept))


def other_findings(time: StageTime, skew: Finding | None) -> list[Finding]:
    """Return what else cost time in a stage; `skew` is its hot key."""
    findings: list[Finding] = []
    split = time.split
    available = time.available or split.slots

    def add(kind: str, lost: float, text: str, *fixes: Remedy, share: float = _OTHER_SHARE, load: str = "") -> None:
        if lost >= OTHER_LOST and lost >= share * split.wall:
            shown = time.loads[split.fit.load if split.fit else next(iter(time.loads))]
            bars = task_bars(time.seconds, shown, time.column("launch")) if kind in _DRAWN else None
            findings.append(replace(_of_stage(time, kind, text, lost), remedies=fixes, load=load, bars=bars))

    if split.fit is not None and split.skew and skew is None:
        keyless = split.fit.load not in (INPUT_ROWS, INPUT_BYTES) and not any(shuffle.keys for shuffle in time.shuffles)
        add("uneven-input", split.skew, *_uneven(time), load=_load_name(split.fit.load) if keyless else "")
    if time.tasks == 1 and available > 1:
        add("serial", split.makespan * (1 - 1 / available), *_serial(time))
    elif time.tasks < available:
        text = f"{time.tasks} tasks on {available} slots: the others had nothing to do"
        fix = Remedy("Use more partitions, or read smaller splits.")
        add("few-tasks", split.even * (1 - time.tasks / available), text, fix)
    else:
        waves, rest = -(-time.tasks // split.slots), time.tasks % split.slots
        last = f", the last with {rest} task{'s' if rest > 1 else ''}" if rest else ""
        text = f"{time.tasks} tasks on {split.slots} slots: {waves} waves{last}"
        fix = Remedy("Use a multiple of the slots, or many more and smaller tasks.")
        add("waves", split.even * (1 - time.tasks / (waves * split.slots)), text, fix, share=0.1)
    add("stragglers", split.stragglers, _straggler(time))
    text = "slots were idle or busy with other stages, or executors were still starting"
    add("waiting", split.waiting, f"waited {split.waiting:.1f} s: {text}")
    if split.start_up and split.slots < time.tasks:
        text = f"the first task of every slot took {split.start_up:.1f} s longer: Python workers and executors start"
        add("start-up", min(split.start_up, split.even), text)
    return findings


_DRAWN = ("uneven-input", "stragglers")


def _uneven(time: StageTime) -> tuple[str, Remedy]:
    assert time.split.fit is not None
    name = time.split.fit.load
    load = time.loads[name]
    empty = int((load == 0).sum())
    ratio = float(load[int(np.argmax(time.seconds))] / load.mean())
    if name in (INPUT_ROWS, INPUT_BYTES) and empty:
        return (
            f"{empty} of {time.tasks} tasks read no rows; the row groups of the files are larger than the splits. No "
            "key is to blame",
            Remedy("Write the files with smaller row groups, or read with larger splits or a repartition after."),
        )
    if name in (INPUT_ROWS, INPUT_BYTES):
        return (
            f"the slowest task read {ratio:.1f} × the mean ({_load_name(name)}). No key is to blame",
            Remedy("Split the large files, or repartition after reading: df.repartition(n)."),
        )
    what = "rows" if name.startswith(OUTPUT) else _load_name(name)
    uneven = f"uneven partitions ({what}: the slowest task had {ratio:.1f} × the mean)"
    keyed = next((shuffle for shuffle in time.shuffles if shuffle.keys), None)
    if keyed is not None:
        named = f"{keyed.consumer.name} by {', '.join(keyed.keys)}"
        text = f"{uneven}; {named}. Below {LEAST_RATIO:g} × the mean no key is called hot"
        return text, Remedy("Use more and smaller partitions.")
    fix = Remedy("keyspread diagnose DATA --key COLUMN counts the keys in the data.")
    return f"{uneven}, and the log names no key for them", fix


def _serial(time: StageTime) -> tuple[str, Remedy]:
    readers = [node.text for shuffle in time.shuffles for node in shuffle.consumer.chain if "ShuffleRead" in node.name]
    text = f"one task did everything: serial, {time.split.makespan:.1f} s"
    if any("coalesced" in reader for reader in readers):
        setting = 'spark.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "true")'
        text += "; adaptive execution coalesced all partitions into one"
        return text, Remedy("Let it keep more partitions.", setting)
    if any(shuffle.kind == "single" for shuffle in time.shuffles):
        return f"{text}; this operator needs all rows in one partition", Remedy("Aggregate or filter before it.")
    return text, Remedy("Use more partitions: df.repartition(n), or smaller splits.")


def _straggler(time: StageTime) -> str:
    seconds = time.seconds
    slowest = int(np.argmax(seconds))
    text = f"the slowest task took {seconds[slowest]:.1f} s, the mean {seconds.mean():.1f} s"
    if all(float(load.max(initial=0)) == 0 for load in time.loads.values()):
        text += "; the log counts no rows for it"
    elif any(shuffle.consumer.kind in (AGGREGATE, STATE) for shuffle in time.shuffles):
        text += "; unexplained: rows are folded before the shuffle, so the log does not show how many each task had"
    else:
        ratio, name = max((float(load[slowest] / load.mean()), name) for name, load in time.loads.items() if load.any())
        if ratio >= LEAST_RATIO:
            text += f"; it had {ratio:.1f} × the mean ({_load_name(name)}), which does not explain the other tasks"
        else:
            text += "; no difference in rows or bytes explains it"
    if time.killed and (time.stage.tasks.column("speculative") == 1).any():
        text += "; a speculative copy was killed"
    return text
