"""What a log says about one application: its stages with their tasks, its executors, its queries with their plans."""

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SUCCEEDED, FAILED, KILLED, RUNNING = 0, 1, 2, 3

COLUMNS = (
    "index",
    "launch",
    "finish",
    "outcome",
    "speculative",
    "executor",
    "shuffle_rows",
    "shuffle_bytes",
    "input_rows",
    "input_bytes",
    "spilled",
)
"""What is kept of a task. Times are milliseconds since 1970, durations milliseconds."""


class TaskTable:
    """The attempts of all tasks of one stage. Column c has the value of attempt i at `column(c)[i]`."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in COLUMNS}
        self._measured: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """Return the number of attempts."""
        return len(self._columns["index"])

    def append(self, values: tuple[int, ...], measured: dict[int, int]) -> None:
        """Add one attempt: its values in the order of COLUMNS, and the accumulators that a plan names."""
        row = array("q", values)  # overflows before any column has grown
        array("q", measured.values())
        before = len(self)
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        for accumulator, value in measured.items():
            column = self._measured.setdefault(accumulator, array("q"))
            column.extend([0] * (before - len(column)))
            column.append(value)

    def column(self, name: str) -> Ints:
        """Return one column of COLUMNS."""
        return np.frombuffer(self._columns[name], dtype=np.int64) if len(self) else np.zeros(0, dtype=np.int64)

    def measured(self, accumulator: int) -> Ints | None:
        """Return what every attempt added to an accumulator, None if no attempt did."""
        column = self._measured.get(accumulator)
        if column is None:
            return None
        values = np.zeros(len(self), dtype=np.int64)
        values[: len(column)] = np.frombuffer(column, dtype=np.int64)
        return values

    @property
    def accumulators(self) -> set[int]:
        """Return the accumulators that some attempt added to."""
        return set(self._measured)


OUTPUT_ROWS = "number of output rows"
WRITE_METRICS = ("shuffle records written", "shuffle bytes written", "data size")
"""Metrics of an exchange that the stage which writes it adds to."""
PYTHON_START = ("time to start Python workers", "time to initialize Python workers")
"""Metrics of an operator in Python, in milliseconds; Spark 3.5 does not have them."""
_PLAN_ID = re.compile(r"\[(?:plan_id=|id=#)(\d+)\]")


@dataclass(eq=False)
class Node:
    """One operator of a plan."""

    name: str
    text: str
    metrics: dict[str, int]
    """Accumulator of each metric, by the metric's name."""
    parent: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)

    def ancestors(self) -> "Iterator[Node]":
        """Yield the operators above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> "Iterator[Node]":
        """Yield this operator and all below it, parents before children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    @property
    def is_exchange(self) -> bool:
        """Tell whether this is a shuffle, of Spark or of an accelerator."""
        return "Exchange" in self.name and "Broadcast" not in self.name and "Reused" not in self.name

    @property
    def plan_id(self) -> str:
        """Return the number that Spark gives to an exchange; a ReusedExchange shows that of the exchange it reads."""
        match = _PLAN_ID.search(self.text)
        return match[1] if match else ""


class PlanTree:
    """All operators of a plan, parents before children.

    It is built and walked without recursion: a plan may be thousands of operators deep.
    """

    def __init__(self, info: Any) -> None:
        """Read a `sparkPlanInfo`. Raise a TypeError, KeyError, ValueError or AttributeError if it is none."""
        self.nodes: list[Node] = []
        waiting: list[tuple[Any, Node | None]] = [(info, None)]
        while waiting:
            source, parent = waiting.pop()
            node = Node(str(source["nodeName"]), str(source["simpleString"]), _metrics(source), parent)
            self.nodes.append(node)
            if parent is not None:
                parent.children.append(node)
            waiting += [(child, node) for child in reversed(source.get("children") or ())]
        self.reused = [node for node in self.nodes if "ReusedExchange" in node.name]


def _metrics(info: Any) -> dict[str, int]:
    metrics: dict[str, int] = {}
    for metric in info.get("metrics") or ():
        # Spark 2.x wrote 'data size total (min, med, max)', and repeated a name for each side of a join.
        metrics.setdefault(str(metric["name"]).split(" total (")[0], int(metric["accumulatorId"]))
    return metrics


class Executors:
    """The cores of the executors over time: with dynamic allocation they come and go (times in ms since 1970)."""

    def __init__(self) -> None:
        self._present: dict[str, tuple[int, int]] = {}  # executor -> cores, added
        self._changes: Counter[int] = Counter()  # time -> cores that came or went
        self._steps: tuple[list[int], list[int]] | None = None  # times of the changes, cores from then on

    def add(self, name: str, cores: int, time: int | None) -> None:
        """Take an executor that was added; one that is there already stays."""
        if name not in self._present:
            self._present[name] = (cores, time or 0)
            self._changes[time or 0] += cores
            self._steps = None

    def remove(self, name: str, time: int) -> None:
        """Take an executor that was removed."""
        if name in self._present:
            cores, added = self._present.pop(name)
            self._changes[max(added, time)] -= cores
            self._steps = None

    def cores(self, start: int, end: int) -> int:
        """Return the most cores that were there at once between two times."""
        if self._steps is None:
            times = sorted(self._changes)
            self._steps = times, list(accumulate(self._changes[time] for time in times))
        times, cores = self._steps
        return max(cores[max(bisect_right(times, start) - 1, 0) : bisect_right(times, end)], default=0)


@dataclass
class Stage:
    """One attempt of a stage."""

    id: int
    attempt: int
    name: str = ""
    submitted: int | None = None
    completed: int | None = None
    failure: str | None = None
    number_of_tasks: int = 0
    parents: tuple[int, ...] = ()
    tasks: TaskTable = field(default_factory=TaskTable)
    accumulators: set[int] = field(default_factory=set)
    """Accumulators of plans that the stage as a whole added to."""
    execution: int | None = None


@dataclass
class Query:
    """One execution of SQL or DataFrame code: its description and its newest plan."""

    id: int
    description: str = ""
    details: str = ""
    plan: PlanTree | None = None
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Application:
    """Everything that the diagnosis needs to know about an application."""

    name: str = ""
    id: str = ""
    attempt: str = ""
    version: str = ""
    log: str = ""
    start: int | None = None
    end: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    executors: Executors = field(default_factory=Executors)
    lost_executors: int = 0
    stages: dict[tuple[int, int], Stage] = field(default_factory=dict)
    queries: dict[int, Query] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    """What was written into the exchanges of queries that still run, by accumulator: rows and bytes."""
    notes: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    bytes: int = 0

    def setting(self, name: str, query: Query | None = None) -> str | None:
        """Return a setting of Spark as it was for a query."""
        if query is not None and name in query.settings:
            return query.settings[name]
        return self.settings.get(name)
