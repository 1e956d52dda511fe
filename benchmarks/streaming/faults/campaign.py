"""The campaign: groups of schedules, one after the other, on one cluster."""

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keyspread.spark._launch.cluster import Cluster

from faults import disk
from faults.fork_server import ForkServer
from faults.gates import waiting_process
from faults.kinds import KINDS, Situation
from faults.plain import Answer, ordered
from faults.processes import CORES, EXECUTORS, PATIENCE, Driver, python_path
from faults.results import Result
from faults.schedules import Schedule, speculates
from faults.streams import Batches


class Campaign:
    """Runs groups of schedules: one driver, started again when it is killed or needs another setting."""

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self.folder, self.log = folder, log
        os.environ["PYTHONPATH"] = python_path()  # executors import the operators
        self.cluster = Cluster(EXECUTORS, cores=2 * CORES, memory="2g", patience=300)
        self.driver: Driver | None = None
        self.no_disk = disk.why_not()

    def __enter__(self) -> "Campaign":
        """Start the cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            server = stack.enter_context(ForkServer(self.folder / "helpers.log"))
            os.environ["PYSPARK_PYTHON"] = str(server.python)  # for drivers
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """End every process."""
        if self.driver is not None:
            self.driver.kill()
        self.stack.__exit__(*error)

    def run(self, schedules: list[Schedule]) -> list[Result]:
        """Run the schedules of one group at the same time, and compare what they wrote with the plain answers."""
        group = Group(schedules, self.folder / f"group-{schedules[0].group:03d}", self.no_disk)
        try:
            return self._run(group)
        finally:  # interrupted, too
            disk.unmount(group.work / "state")

    def _run(self, group: "Group") -> list[Result]:
        schedules = group.schedules
        group.write()
        unfinished = self.folder / ".next"
        unfinished.write_text(str(group.work))
        unfinished.rename(self.folder / "next")
        driver = self._driver(schedules[0].group)
        begun = time.monotonic()

        def tell(what: str) -> None:
            self.log(f"  {time.monotonic() - begun:6.1f} s  {what}")

        for number, fault in enumerate(group.faults):
            if not group.wait(lambda s, n=number: group.arrived(s, n) or group.done(s), driver):  # type: ignore[misc]
                tell(f"not everybody arrived at {fault}: {', '.join(group.absent(number))}")
            tell(f"all stand at {fault}")
            group.cause(number, driver)
            tell(f"{fault} hit {sum(fault in hits for hits in group.hits.values())} of {len(schedules)}")
        if not group.wait(group.done, driver):
            tell("not every query has ended")
            driver.kill()
            self.driver = None
        tell("all have ended")
        results = [group.judge(schedule) for schedule in schedules]
        group.clean(keep=not all(result.equal for result in results))
        return results

    def _driver(self, group: int) -> Driver:
        if self.driver is None or not self.driver.runs() or self.driver.speculation != speculates(group):
            if self.driver is not None:
                self.driver.kill()
            self.driver = Driver(self.cluster, self.folder, speculates(group))
            self.driver.start()
        return self.driver


class Group:
    """Schedules that run at the same time and have the same faults."""

    def __init__(self, schedules: list[Schedule], work: Path, no_disk: str | None) -> None:
        self.schedules, self.work, self.faults = schedules, work, schedules[0].faults
        self.skipped = no_disk if no_disk and "disk" in self.faults else ""
        self.hits: dict[str, list[str]] = {}  # schedule -> the faults that hit it
        self.problems: dict[str, str] = {}

    def write(self) -> None:
        """Write the input of every schedule; mount a disk if one of the faults needs it."""
        self.clean(keep=False)
        self.work.mkdir()
        state = self.work / "state"
        state.mkdir()
        if "disk" in self.faults and not self.skipped:
            disk.mount(state)
        for schedule in self.schedules:
            schedule.write(self.work)
        (self.work / "group.json").write_text(json.dumps([asdict(schedule) for schedule in self.schedules]))

    def clean(self, keep: bool) -> None:
        """Remove the files, unless they are needed to find out why a schedule failed."""
        state = self.work / "state"
        if keep and os.path.ismount(state):
            shutil.copytree(state, self.work / "state-at-the-end", ignore_dangling_symlinks=True)
        disk.unmount(state)
        if not keep:
            shutil.rmtree(self.work, ignore_errors=True)

    def arrived(self, schedule: Schedule, number: int) -> bool:
        """Tell whether a query has reached the gate of a fault."""
        return waiting_process(schedule.place(self.work).folder, number) is not None

    def done(self, schedule: Schedule) -> bool:
        """Tell whether a query has ended."""
        return (schedule.place(self.work).folder / "done").exists()

    def absent(self, number: int) -> list[str]:
        """Return the queries that have not reached a gate."""
        return [s.name for s in self.schedules if not self.arrived(s, number)]

    def wait(self, ask: Callable[[Schedule], bool], driver: Driver) -> bool:
        """Wait until all answers are yes, as long as there is progress; start a driver that ended by itself again."""
        seen, until = -1, time.monotonic() + PATIENCE
        while not all(map(ask, self.schedules)):
            if not driver.runs():
                driver.restart_after_crash()
            now = sum(1 for _ in self.work.glob("*/*"))
            if now != seen:
                seen, until = now, time.monotonic() + PATIENCE
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    def cause(self, number: int, driver: Driver) -> None:
        """Cause a fault."""
        standing = [s for s in self.schedules if self.arrived(s, number) and not self.done(s)]
        first = self.schedules[0]
        dice = random.Random(f"{first.seed}/{first.group}/fault {number}")
        situation = Situation(driver, self.work, number, dice, standing)
        fault = self.faults[number]
        if fault == "disk" and self.skipped:
            situation.open_gates()
            return
        for name, what in KINDS[fault](situation).items():
            self.hits.setdefault(name, []).append(what)
        self.problems |= situation.problems

    def judge(self, schedule: Schedule) -> Result:
        """Compare what was written with the plain answer."""
        folder = schedule.place(self.work).folder
        problem = self.problems.get(schedule.name) or self._problem(schedule)
        return Result(
            schedule.seed,
            schedule.group,
            schedule.way_name,
            sum(map(len, schedule.batches)),
            len(schedule.batches),
            list(schedule.faults),
            self.hits.get(schedule.name, []),
            not problem,
            problem,
            [short(path.read_text()) for path in sorted(folder.glob("failed-*"))],
            [short(path.read_text()) for path in sorted(folder.glob("second-failed-*"))],
            self.skipped,
        )

    def _problem(self, schedule: Schedule) -> str:
        place = schedule.place(self.work)
        if (place.folder / "given-up").exists():
            return "failed again and again"
        if not self.done(schedule):
            return "did not end"
        attempts = read_attempts(place.folder / "out")
        for number, answers in attempts.items():
            if any(answer != answers[0] for answer in answers):
                return f"batch {number}: {len(answers)} attempts wrote different rows"
        written = {number: answers[0] for number, answers in attempts.items()}
        read = batches_read(schedule.batches, place.state / "checkpoint")
        found, expected = schedule.way.found(written), schedule.way.expected(read, place)
        for number in sorted(expected.keys() | {number for number, rows in found.items() if rows}):
            if found.get(number) != expected.get(number):
                return f"batch {number}: {difference(found.get(number), expected.get(number))}"
        return ""


def batches_read(batches: Batches, checkpoint: Path) -> Batches:
    """Return the rows of each batch as Spark has read them.

    Spark's file source writes down the files of a batch before the query writes down the batch. If the driver is killed
    between the two, the next batch has these files and those after them.
    """
    until, found = -1, []
    for offset in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        last = json.loads(offset.read_text().splitlines()[-1])["logOffset"]
        if last > until:  # else a batch without data, which only moves the watermark
            found.append([row for batch in batches[until + 1 : last + 1] for row in batch])
            until = last
    return found + batches[until + 1 :]  # what was never read must be missed


def read_attempts(folder: Path) -> dict[int, list[Answer]]:
    """Return what each attempt of each batch wrote."""
    attempts: dict[int, list[Answer]] = {}
    for path in sorted(folder.glob("*.json")):
        number = int(path.name.rsplit("-", 1)[0])
        attempts.setdefault(number, []).append(ordered(json.loads(path.read_text())))
    return attempts


def difference(found: Answer | None, expected: Answer | None) -> str:
    """Return in few words how two answers differ."""
    if found is None or expected is None:
        return "nothing was written" if found is None else "must not exist"
    have, want = Counter(map(repr, found)), Counter(map(repr, expected))
    missing, extra = list((want - have).elements()), list((have - want).elements())
    return (
        f"{len(found)} rows instead of {len(expected)}: {len(missing)} missing ({', '.join(missing[:2])}), "
        f"{len(extra)} too many or wrong ({', '.join(extra[:2])})"
    )


def short(text: str) -> str:
    """Return the essence of an error: its class or condition and the first line."""
    causes = [line.strip() for line in text.splitlines() if line.strip()]
    last = next((line for line in reversed(causes) if line.startswith("Caused by") or "Error" in line), "")
    return f"{causes[0][:200] if causes else ''} … {last[:200]}"
