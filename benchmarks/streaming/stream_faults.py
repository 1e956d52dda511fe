"""Streams under random faults, on a standalone cluster of three executors: is every result still exact?

A schedule is a random stream (hot keys, null keys, late rows) in three to six batches, one way to use the library on
it, and two or three faults. The schedules of a group, one per way, run at the same time on one cluster and have the
same faults; each has its own stream, its own checkpoint and its own moments. A query waits at the moment of a fault (a
batch has begun, a task reads behind the exchange, the sink has written) until the others stand at theirs. Then one
fault hits all of them:

    reading    kill -9 of an executor on which tasks read behind the exchange
    python     kill -9 of the Python workers that read behind the exchange
    executor   kill -9 of an executor at a random moment
    driver     kill -9 of the driver, restarted from the checkpoints
    slow       SIGSTOP of an executor for seconds, in half of the groups with speculation
    disk       no space for checkpoints and totals: the query must fail, and continue when there is space
    second     a second driver on the same checkpoints, both at once

Every attempt of every batch is compared with plain Python over the same rows. Spark's protection against rows in
another order is off for half of the schedules that have a shuffle upstream. Results are kept: a campaign that is
interrupted continues where it was. Schedules that fail are added to tests/spark/launch/fault_seeds.toml.

    ./dev bench stream_faults [--schedules 300] [--seed 0] [--folder FOLDER] [--again]
    ./dev bench stream_faults --only "3/totals, typed" [--faults "driver; executor"]
"""

import argparse
import os
import shutil
import sys
import time
from collections import Counter
from itertools import groupby
from pathlib import Path

from common import console, fail, show
from faults import seeds
from faults.campaign import Campaign
from faults.results import Results, fault_table
from faults.schedules import FAULTS, Schedule, draw_group
from faults.ways import WAYS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="GROUP or GROUP/WAY, may be given several times")
    parser.add_argument("--faults", help="other faults than the drawn ones, separated by semicolons; '' for none")
    parser.add_argument("--folder", type=Path, help="where results are kept (default: in the user's cache)")
    parser.add_argument("--again", action="store_true", help="forget the results that are kept")
    asked = parser.parse_args()
    schedules = chosen(asked)
    folder = asked.folder or default_folder(asked.seed)
    if asked.again:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder)
    todo = [schedule for schedule in schedules if not results.has(schedule)]
    if len(todo) < len(schedules):
        console.print(f"{len(schedules) - len(todo)} of {len(schedules)} schedules have results in {folder}")
    if todo:
        run(todo, folder, results, keep_seeds=asked.faults is None)
    return report([results.all[schedule.name] for schedule in schedules], folder)


def chosen(asked: argparse.Namespace) -> list[Schedule]:
    """Return the schedules that the command line names, or exit with one line."""
    faults = None
    if asked.faults is not None:
        faults = tuple(filter(None, map(str.strip, asked.faults.split(";"))))
        for fault in faults:
            if fault not in FAULTS:
                fail(f"no fault {fault!r}; known are {'; '.join(FAULTS)}")
    if asked.only is None:
        if asked.schedules < 1:
            fail(f"--schedules must be at least 1, got {asked.schedules}")
        groups = range(-(-asked.schedules // len(WAYS)))
        return [one for group in groups for one in draw_group(asked.seed, group, faults)][: asked.schedules]
    found = []
    for name in asked.only:
        group, _, way = name.partition("/")
        if not group.isdigit() or (way and way not in WAYS):
            fail(f"--only takes GROUP or GROUP/WAY, got {name!r}; the ways are {'; '.join(WAYS)}")
        found += [one for one in draw_group(asked.seed, int(group), faults) if way in ("", one.way_name)]
    return sorted(found, key=lambda one: one.group)


def default_folder(seed: int) -> Path:
    """Return a folder of the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "keyspread" / f"stream-faults-{seed}"


def run(todo: list[Schedule], folder: Path, results: Results, keep_seeds: bool) -> None:
    """Run what is missing, group by group."""
    begun, ended = time.monotonic(), 0
    with Campaign(folder, console.print) as campaign:
        if campaign.no_disk:
            console.print(f"the fault 'disk' is left out: {campaign.no_disk}")
        for group, members in groupby(todo, key=lambda one: one.group):
            schedules = list(members)
            console.print(f"group {group}: {len(schedules)} schedules; {', then '.join(schedules[0].faults)}")
            found = campaign.run(schedules)
            results.add(found)
            ended += len(found)
            for result in found:
                if not result.equal:
                    console.print(f"  [red]{result.name}: {result.problem}[/red]")
                    if keep_seeds:
                        seeds.keep(result)
            seconds = time.monotonic() - begun
            equal = sum(result.equal for result in found)
            console.print(f"  {equal} of {len(found)} equal; {seconds / ended:.1f} s per schedule so far")


def report(results: list, folder: Path) -> int:  # type: ignore[type-arg]
    """Print the table; return 1 if a schedule failed."""
    equal = sum(result.equal for result in results)
    show(
        f"{equal} of {len(results)} schedules equal to plain Python; equal / hit, for each way and fault",
        ["way", *FAULTS, "all"],
        fault_table(results),
    )
    restarts, refused = (sum(len(getattr(result, name)) for result in results) for name in ("errors", "refused"))
    console.print(f"{restarts} times a query ended with an error and was started again from its checkpoint;")
    console.print(f"{refused} times that of a second driver ended with an error")
    skipped = Counter(result.skipped for result in results if result.skipped)
    for reason, many in skipped.items():
        console.print(f"{many} schedules without one of their faults: {reason}")
    for result in results:
        if not result.equal:
            console.print(f"[red]{result.name} (seed {result.seed}): {result.problem}[/red]; see {folder}")
    return int(equal < len(results))


if __name__ == "__main__":
    sys.exit(main())
