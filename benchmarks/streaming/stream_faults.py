"""Streaming aggregates under random faults, on a standalone cluster of three executors: is the result still exact?

A schedule is a random stream, cut into batches at random, one of three ways to aggregate it (running totals, windows,
a folder of totals), and two or three faults at random moments: kill -9 of an executor, of a Python worker, or of the
driver, which is then restarted from the checkpoint. The result is compared with plain Python over the same rows: no row
is lost, and none is counted twice.

    ./dev bench stream_faults [--schedules 30] [--seed 0] [--first 0]
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from common import console, show

WORKERS = 3
WAYS = ("totals", "windows", "folder")
FAULTS = ("executor", "python", "driver")
WINDOW = 10_000_000  # microseconds
PATIENCE = 400  # seconds for one schedule at most
Rows = list[tuple[int, str | None, int]]  # microseconds, key, value


@dataclass
class Schedule:
    """A stream, a way to aggregate it, and faults, drawn from its number and the seed."""

    folder: Path
    way: str
    batches: list[Rows]
    faults: list[tuple[int, str]]  # after how many batches, and which fault
    happened: list[str] = field(default_factory=list)

    @classmethod
    def draw(cls, number: int, seed: int, folder: Path) -> "Schedule":
        dice = random.Random(f"{seed}/{number}")
        rows, at = [], 1_700_000_000_000_000  # no window lies before the first watermark, which is 1970
        for _ in range(dice.randrange(2_000, 12_000)):
            at += dice.randrange(4_000)
            hot = dice.random()
            key = "hot" if hot < 0.4 else "warm" if hot < 0.6 else None if hot < 0.62 else f"k{dice.randrange(500)}"
            rows.append((at - dice.randrange(2_000_000), key, dice.randrange(100)))
        many = dice.randrange(4, 8)
        cuts = sorted(dice.randrange(len(rows)) for _ in range(many - 1))
        batches = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        way = WAYS[number % len(WAYS)]
        faults = sorted((dice.randrange(many), dice.choice(FAULTS)) for _ in range(dice.randrange(2, 4)))
        schedule = cls(folder / f"{number:02d}", way, batches, faults)
        schedule.write()
        return schedule

    def write(self) -> None:
        (self.folder / "out").mkdir(parents=True)
        (self.folder / "in").mkdir()
        for number, batch in enumerate(self.batches):
            times, keys, values = zip(*batch, strict=True) if batch else ((), (), ())
            table = pa.table(
                {
                    "time": pa.array(times, pa.timestamp("us", tz="UTC")),
                    "key": pa.array(keys, pa.string()),
                    "value": pa.array(values, pa.int64()),
                }
            )
            path = self.folder / "in" / f"{number:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1e9 + number, 1e9 + number))
        (self.folder / "way").write_text(self.way)

    def expected(self) -> dict[str, list[int]]:
        """Return count and sum by key, or by window and key for windows that the watermark has passed."""
        end = max(time for batch in self.batches for time, _, _ in batch) - 5_000_000
        found: dict[str, list[int]] = {}
        for batch in self.batches:
            for moment, key, value in batch:
                closing = moment // WINDOW * WINDOW + WINDOW
                if self.way == "windows" and closing > end // 1000 * 1000:
                    continue
                name = f"{closing}/{key}" if self.way == "windows" else str(key)
                total = found.setdefault(name, [0, 0])
                total[0] += 1
                total[1] += value
        return found

    def found(self) -> dict[str, list[int]]:
        """Read the output of the sink, batches in order; of running totals the last one counts."""
        found: dict[str, list[int]] = {}
        times: Counter[str] = Counter()
        for path in sorted((self.folder / "out").glob("*.json")):
            for name, *total in json.loads(path.read_text()):
                found[name] = total
                times[name] += 1
        if self.way != "totals" and times:
            assert max(times.values()) == 1, "a row was written twice"
        return found


def drive(url: str, settings: str, folders: list[str]) -> None:
    """Run the query of one schedule after the other; skip those that are done."""
    from pyspark.sql import functions as F

    from keyspread.spark import Totals, aggregate, session, stream_settings

    preloaded = {"spark.python.daemon.module": "keyspread.spark.launch.daemon"}
    spark = session(master=url, **json.loads(settings), **stream_settings(WORKERS), **preloaded)
    wanted = {"n": "count(*)", "total": "sum(value)"}
    for folder in map(Path, folders):
        if (folder / "done").exists():
            continue
        way, checkpoint = (folder / "way").read_text(), str(folder / "checkpoint")
        stream = (
            spark.readStream.schema("time timestamp, key string, value bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
        )

        def put(rows: list[tuple[object, ...]], name: str) -> None:
            hidden = folder / "out" / f".{name}"
            hidden.write_text(json.dumps(rows))
            hidden.rename(folder / "out" / f"{name}.json")

        totals = Totals(str(folder / "table"), "key", wanted, WORKERS, merge_every=3)
        if way == "totals":
            out = aggregate(stream, "key", wanted, WORKERS)
        elif way == "windows":
            marked = stream.withWatermark("time", "5 seconds")
            out = aggregate(marked, "key", wanted, WORKERS, window="10 seconds")
            out = out.withColumn(
                "key", F.concat(F.expr("unix_micros(window.end)"), F.lit("/"), F.coalesce("key", F.lit("None")))
            )
        else:
            out = stream

        def keep(rows, batch):  # type: ignore[no-untyped-def]
            if way == "folder":
                totals(rows, batch)
            else:
                put([(str(row.key), row.n, row.total) for row in rows.collect()], f"{batch:06d}")
            (folder / "progress").write_text(str(batch + 1))

        query = out.writeStream.foreachBatch(keep).outputMode("update" if way == "totals" else "append")
        query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        if way == "folder":
            put([(str(row.key), row.n, row.total) for row in totals.read(spark).collect()], "result")
        (folder / "done").touch()
    spark.stop()


class Disturber:
    """Starts the driver, watches its progress, and causes the faults of a schedule."""

    def __init__(self, cluster, folders):  # type: ignore[no-untyped-def]
        self.cluster, self.folders = cluster, folders
        self.driver: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, __file__, "--drive", self.cluster.url, json.dumps(self.cluster.settings)]
        log = (self.folders[0].parent / "driver.log").open("ab")
        self.driver = subprocess.Popen(
            [*command, *map(str, self.folders)], stdout=log, stderr=log, start_new_session=True
        )

    def stop(self) -> None:
        if self.driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def run(self, schedule: Schedule, dice: random.Random) -> bool:
        """Return whether the query ended."""
        until = time.monotonic() + PATIENCE
        waiting = list(schedule.faults)
        while not (schedule.folder / "done").exists():
            if time.monotonic() > until:
                return False
            assert self.driver is not None
            if self.driver.poll() is not None:
                if self.driver.returncode == 0 or not schedule.happened:
                    return (schedule.folder / "done").exists()
                self.start_again(schedule)
            progress = schedule.folder / "progress"
            at = int(progress.read_text() or 0) if progress.exists() else 0
            if waiting and waiting[0][0] <= at and (at or (schedule.folder / "checkpoint").exists()):
                time.sleep(dice.random() * 1.5)  # anywhere within the batch
                if self.disturb(waiting[0][1], dice):
                    schedule.happened.append(waiting.pop(0)[1])
            time.sleep(0.05)
        schedule.happened += [f"{fault} (too late)" for _, fault in waiting]
        return True

    def start_again(self, schedule: Schedule) -> None:
        """Restart the query, as a user would after a fault that Spark gave up on."""
        checkpoint = schedule.folder / "checkpoint"
        if not list((checkpoint / "offsets").glob("[0-9]*")):
            # Killed while it wrote its first offset: Spark refuses such a checkpoint. Nothing has been read yet.
            shutil.rmtree(checkpoint, ignore_errors=True)
        self.start()
        schedule.happened.append("started again")

    def disturb(self, fault: str, dice: random.Random) -> bool:
        """Cause a fault; return whether there was a process to kill."""
        if fault == "executor":
            running = self.cluster.executors()
            if running:
                self.cluster.kill_executor(dice.choice(running))
            return bool(running)
        if fault == "python":
            return kill_python(self.cluster, dice)
        self.stop()
        self.start()
        return True


def kill_python(cluster, dice: random.Random) -> bool:  # type: ignore[no-untyped-def]
    """Kill a Python worker of an executor: a child of its daemon."""
    from keyspread.spark.launch.cluster import running_processes

    running = running_processes()
    executors = set(cluster.executors())
    daemons = {pid for pid, (parent, _) in running.items() if parent in executors}
    workers = [pid for pid, (parent, command) in running.items() if parent in daemons and "python" in command]
    if not workers:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(dice.choice(workers), signal.SIGKILL)
    return True


def main() -> int:
    if sys.argv[1:2] == ["--drive"]:
        drive(sys.argv[2], sys.argv[3], sys.argv[4:])
        return 0
    from keyspread.spark.launch.cluster import Cluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="keyspread-faults-"))
    schedules = [Schedule.draw(number, asked.seed, folder) for number in range(asked.first, asked.schedules)]
    table, wrong = [], 0
    begun = time.monotonic()
    with Cluster(workers=3, memory="1g") as cluster:
        disturber = Disturber(cluster, [one.folder for one in schedules])
        disturber.start()
        try:
            for number, schedule in enumerate(schedules, asked.first):
                ended = disturber.run(schedule, random.Random(f"{asked.seed}/{number}/moments"))
                same = ended and schedule.found() == schedule.expected()
                wrong += not same
                happened = ", ".join(schedule.happened)
                console.print(
                    f"{number:3} {schedule.way:8} {len(schedule.batches)} batches; {happened}: "
                    + ("equal" if same else "[red]DIFFERENT[/red]" if ended else "[red]DID NOT END[/red]")
                )
                if not ended:
                    break
                table.append((schedule, same))
        finally:
            disturber.stop()
    happened = Counter(what for schedule, _ in table for what in schedule.happened)
    show(
        f"{len(table)} of {len(schedules)} schedules ended, {len(table) - wrong} equal to plain Python, "
        f"in {(time.monotonic() - begun) / 60:.1f} minutes",
        ["fault", "times"],
        sorted(happened.items()),
    )
    if wrong or len(table) < len(schedules):
        console.print(f"[red]see {folder}[/red]")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
