"""`Finding`: something that cost time, with what to do about it. Every form of a diagnosis shows these values."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

KEY_SKEW = "key-skew"
"""The kind of a finding that names a hot key; every other kind is something else that cost time."""


@dataclass(frozen=True)
class Remedy:
    """What to do: a sentence, and the line to paste ('' if there is none)."""

    text: str
    code: str = ""


@dataclass(frozen=True)
class Bars:
    """One bar per task: its height and its load, in order of launch. Long stages are thinned out."""

    heights: tuple[float, ...]
    """Seconds of a task; rows of a partition if data was counted."""
    loads: tuple[float, ...]
    left_out: int = 0
    unit: str = "seconds"


@dataclass(frozen=True)
class Finding:
    """Something that cost time: where, how much at most, why, and what to do about it."""

    kind: str
    text: str
    """The finding in one line."""
    lost: float = 0.0
    """Seconds that could have been saved, at most; at least, if tasks did not finish."""
    wall: float = 0.0
    """Seconds that the stage took; for several stages, all of them."""
    stage: int | None = None
    stages: tuple[int, ...] = ()
    """All stages with this operator and key at one place in the code; of a long stream, the first thousand."""
    count: int = 1
    """How many stages these are."""
    unfinished: int = 0
    """Tasks that did not finish: the log holds only a part of their time, so `lost` is then the least, not the most."""
    expected: float = 0.0
    """Seconds that the largest of them needs at the pace of the others, if that is known."""
    worst: float = 0.0
    """Seconds lost in the worst of them, which is `stage`."""
    operator: str = ""
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """The names of the key columns alone."""
    definitions: tuple[str, ...] = ()
    """What to count in the data for each: the column that was read, SQL, or '' if the log does not show it."""
    sources: tuple[str, ...] = ()
    """What tells one operator from another by the same key: the keys of both sides of a join, and what is read."""
    partitions: int | None = None
    """Shuffle partitions before adaptive execution changed them."""
    load: str = ""
    """The load that explains the time: shuffle rows, shuffle bytes, rows of one side, output rows, …"""
    busiest: float = 0.0
    mean: float = 0.0
    rows: tuple[float, float] | None = None
    """Rows of the busiest task, and of the mean task."""
    bytes: tuple[float, float] | None = None
    tasks: int = 0
    slots: int = 0
    time: dict[str, float] = field(default_factory=dict)
    """The parts of the wall time: even, skew, stragglers, waiting."""
    adaptive: str = ""
    call_site: str = ""
    query: str = ""
    remedies: tuple[Remedy, ...] = ()
    """What to do, best first."""
    bars: Bars | None = field(default=None, repr=False)
    values: tuple[dict[str, Any], ...] = ()
    """The hot keys as values with their rows and shares, if the data was counted."""
    planned: float | None = None
    """The busiest worker as a multiple of its even share if the rows are spread, if the data was counted."""

    @property
    def ratio(self) -> float:
        """Return the load of the busiest task as a multiple of the mean."""
        return self.busiest / self.mean if self.mean else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        content = asdict(self)
        content["ratio"] = self.ratio
        content["remedies"] = [asdict(remedy) for remedy in self.remedies]
        for name in ("lost", "wall"):
            content[f"{name}_s"] = round(content.pop(name), 3)
        content["time"] = {name: round(seconds, 3) for name, seconds in self.time.items()}
        for name in ("rows", "bytes"):
            pair = content[name]
            content[name] = None if pair is None else {"busiest": pair[0], "mean": pair[1]}
        return content


@dataclass(frozen=True)
class StageSummary:
    """One stage in one line."""

    stage: int
    wall_s: float
    tasks: int
    slots: int
    slowest_s: float
    mean_s: float
    what: str
    call_site: str


def sort_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings in the order of a report: key skew first, then by seconds lost."""

    def order(finding: Finding) -> tuple[bool, float, float, int]:
        unevenness = finding.ratio if not finding.wall else 0.0  # findings of data know no seconds
        return finding.kind != KEY_SKEW, -finding.lost, -unevenness, finding.stage or 0

    return tuple(sorted(findings, key=order))
