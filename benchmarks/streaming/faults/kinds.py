"""The faults. Each happens while the queries stand at their gates, or a moment after the gates were opened."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from faults import disk
from faults.gates import READING, open_gate, waiting_process
from faults.processes import Driver, pick, send, wait_until
from faults.schedules import Schedule

Hits = dict[str, str]  # schedule -> the fault that hit it
RANDOM_DELAY = 0.7  # seconds at most from the opening of the gates to a fault at a random moment


@dataclass
class Situation:
    """What a fault can act on: the driver and the queries that stand at the gate of this fault."""

    driver: Driver
    work: Path
    number: int  # of the fault within the group
    dice: Random
    standing: list[Schedule]
    problems: dict[str, str] = field(default_factory=dict)  # schedule -> what must not happen

    def folder(self, schedule: Schedule) -> Path:
        return schedule.place(self.work).folder

    def readers(self) -> dict[str, int]:
        """Return the Python workers that wait while they read behind the exchange, by schedule."""
        found = {}
        for schedule in self.standing:
            process = waiting_process(self.folder(schedule), self.number)
            if schedule.gates[self.number][1] == READING and process:
                found[schedule.name] = process
        return found

    def open_gates(self) -> None:
        for schedule in self.standing:
            open_gate(self.folder(schedule), self.number)

    def names(self) -> list[str]:
        return [schedule.name for schedule in self.standing]


def executor_reading(now: Situation) -> Hits:
    """Kill the executor on which most queries have just begun to read behind the exchange."""
    on = {name: now.driver.executor_of(process) for name, process in now.readers().items()}
    crowded = Counter(pid for pid in on.values() if pid is not None).most_common(1)
    killed = crowded[0][0] if crowded and send(crowded[0][0], signal.SIGKILL) else None
    now.open_gates()
    if killed is None:
        return {}
    return {name: "reading" if on.get(name) == killed else "executor" for name in now.names()}


def python_worker(now: Situation) -> Hits:
    """Kill every Python worker that has just begun to read behind the exchange."""
    hit = [name for name, process in now.readers().items() if send(process, signal.SIGKILL)]
    now.open_gates()
    return dict.fromkeys(hit, "python")


def executor(now: Situation) -> Hits:
    """Kill an executor at a random moment of the batches."""
    pid = pick(now.dice, now.driver.executors)
    now.open_gates()
    time.sleep(now.dice.random() * RANDOM_DELAY)
    return dict.fromkeys(now.names(), "executor") if pid is not None and send(pid, signal.SIGKILL) else {}


def driver(now: Situation) -> Hits:
    """Kill the driver, at the gates or a moment after, and start it again from the checkpoints."""
    if now.dice.random() < 0.5:
        now.open_gates()
        time.sleep(now.dice.random() * RANDOM_DELAY)
    now.driver.kill()
    now.open_gates()
    now.driver.start()
    return dict.fromkeys(now.names(), "driver")


def slow_node(now: Situation) -> Hits:
    """Stop an executor for a few seconds."""
    pid = pick(now.dice, now.driver.executors)
    stopped = pid is not None and send(pid, signal.SIGSTOP)
    try:
        now.open_gates()
        time.sleep(now.dice.uniform(1.5, 4))
    finally:
        if pid is not None:
            send(pid, signal.SIGCONT)
    return dict.fromkeys(now.names(), "slow") if stopped else {}


def full_disk(now: Situation) -> Hits:
    """Fill the disk of the checkpoints until every query has failed with an error, then make space again."""
    state, hold = now.work / "state", now.work / "hold"
    before = {schedule.name: failures(now.folder(schedule)) for schedule in now.standing}

    def ended(schedule: Schedule) -> bool:
        folder = now.folder(schedule)
        # A query may find just enough space, because another one deleted a file: then it was not hit.
        passed = (folder / "done").exists() or waiting_process(folder, now.number + 1) is not None
        return passed or failures(folder) > before[schedule.name]

    def all_ended() -> bool:
        disk.fill(state)  # again and again: a query that fails may delete a file
        return all(map(ended, now.standing))

    hold.touch()
    disk.fill(state)
    now.open_gates()
    if not wait_until(all_ended):
        now.problems |= {s.name: "the disk was full, and the query did not fail" for s in now.standing if not ended(s)}
    disk.free(state)
    hold.unlink()
    return {s.name: "disk" for s in now.standing if failures(now.folder(s)) > before[s.name]}


def two_drivers(now: Situation) -> Hits:
    """Start a second driver on the same checkpoints, and let both run until the second has ended."""
    hold = now.work / "hold"
    second = Driver(now.driver.cluster, now.driver.work, now.driver.speculation, second=True)

    def met(schedule: Schedule) -> bool:
        return any(now.folder(schedule).glob("second-*"))

    hold.touch()
    second.start()
    try:
        wait_until(lambda: all(map(met, now.standing)) or not second.runs())
        now.open_gates()
        if not wait_until(lambda: not second.runs()):
            now.problems |= {s.name: "the second driver did not end" for s in now.standing}
    finally:
        second.kill()
        hold.unlink()
    return {schedule.name: "second" for schedule in now.standing if met(schedule)}


def failures(folder: Path) -> int:
    """Return how often a query has failed."""
    return len(list(folder.glob("failed-*")))


KINDS: dict[str, Callable[[Situation], Hits]] = {
    "reading": executor_reading,
    "python": python_worker,
    "executor": executor,
    "driver": driver,
    "slow": slow_node,
    "disk": full_disk,
    "second": two_drivers,
}
