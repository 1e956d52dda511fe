"""What is kept of a campaign: one line of JSON per schedule that has ended, and the table of faults and ways."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faults.schedules import FAULTS, Schedule
from faults.ways import WAYS


@dataclass
class Result:
    """How a schedule ended."""

    seed: int
    group: int
    way: str
    rows: int
    batches: int
    faults: list[str]
    hit: list[str]  # the faults that happened while the query stood within a batch
    equal: bool
    problem: str = ""
    errors: list[str] = field(default_factory=list)  # with which the query ended and was started again
    refused: list[str] = field(default_factory=list)  # with which the query of the second driver ended
    skipped: str = ""  # why a fault was left out

    @property
    def name(self) -> str:
        return f"{self.group}/{self.way}"


class Results:
    """The results in a folder. A schedule that has one is not run again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.jsonl"
        self.all: dict[str, Result] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                self._take(Result(**json.loads(line)))

    def _take(self, result: Result) -> None:
        self.all[result.name] = result

    def add(self, results: list[Result]) -> None:
        """Keep the results of a group; a campaign that is killed meanwhile runs the group again."""
        with self.path.open("a") as out:
            out.write("".join(json.dumps(asdict(result), ensure_ascii=False) + "\n" for result in results))
        for result in results:
            self._take(result)

    def has(self, schedule: Schedule) -> bool:
        """Tell whether a schedule has ended."""
        return schedule.name in self.all


def fault_table(results: list[Result]) -> list[list[str]]:
    """Return, for every way and fault, how many schedules were hit and how many of these equal the plain answer."""
    hits: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, str]] = Counter()
    for result in results:
        for fault in [*set(result.hit), "all"]:
            for way in (result.way, "all"):
                hits[way, fault] += 1
                equal[way, fault] += result.equal
    return [
        [way, *(f"{equal[way, fault]}/{hits[way, fault]}" if hits[way, fault] else "–" for fault in (*FAULTS, "all"))]
        for way in (*WAYS, "all")
        if hits[way, "all"]
    ]
