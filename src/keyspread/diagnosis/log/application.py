"""What a log says about one application: its stages with their tasks, its queries with their plans."""

from collections import Counter
from dataclasses import dataclass, field

from keyspread.diagnosis.log.executors import Executors
from keyspread.diagnosis.log.plan_tree import PlanTree
from keyspread.diagnosis.log.tasks import TaskTable


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
    scopes: tuple[str, ...] = ()
    """Names of the operators that its RDDs belong to."""
    tasks: TaskTable = field(default_factory=TaskTable)
    accumulators: set[int] = field(default_factory=set)
    """Accumulators of plans that the stage as a whole added to."""
    execution: int | None = None
    job: int | None = None


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
