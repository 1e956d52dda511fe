"""Real-time mode under kill -9 of executors and drivers: is the answer still exact, and is every message delivered?

A schedule sends 900 messages with Zipf keys within 30 s and kills two or three times: one of two executors, or the
driver, which is started again from the checkpoints. Each kill comes at a random moment within 6 s after both queries
deliver (again), with batches of 5 s. One query spreads the messages and writes them to a topic, the other writes counts
per worker and key (RealtimeParts).

Spark promises that every message is processed exactly once, and delivered by what the sink promises: Kafka's sink
delivers at least once. So messages of a batch that failed may be delivered twice, which is counted; none may be lost,
and the merged counts must equal plain Python's (`wrong` is the sum of their differences).

    ./dev bench realtime_faults [SCHEDULES] [FIRST]
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from live.driver import WORKERS, counts
from live.engine import Engine, engine
from pyspark.sql import functions as F

from keyspread.spark._launch.cluster import Cluster, ClusterError
from keyspread.streams import ZipfStream

from common import console, numbers, show, verdict

MESSAGES, RATE = 900, 30.0
WITHIN = 6.0  # seconds from the first deliveries to the kill
SOURCES = 2
EXECUTORS, CORES = 2, 8  # after a kill, one executor has slots for all tasks of both queries
_PATIENCE = 240.0
_QUIET = 7.0  # seconds, longer than a batch, without a change
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What came out of one schedule."""

    faults: list[str]
    failures: int
    lost: int
    twice: int
    wrong: int

    @property
    def holds(self) -> bool:
        return self.lost == 0 and self.wrong == 0


class Driver:
    """The driver process of a schedule."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._command, self._folder = [sys.executable, "-m", "live.driver", *arguments], folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        started = self._folder / "started"
        started.unlink(missing_ok=True)
        hidden = ("SPARK_", "PYSPARK_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        environment["PYTHONPATH"] = os.pathsep.join([str(_HERE), str(_HERE.parent)])
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + 240
        while not started.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise SystemExit((self._folder / "driver.log").read_text(errors="replace")[-3000:])
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill the driver and its JVM, which is in the same group."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def run(live: Engine, cluster: Cluster, settings: dict[str, str], seed: int) -> Outcome:
    chance = random.Random(seed)
    faults = [chance.choice(["executor", "executor", "driver"]) for _ in range(chance.choice([2, 3]))]
    source, sink, parts = live.topic(SOURCES), live.topic(1), live.topic(1)
    keys = ZipfStream(1.4, 1_000, MESSAGES, seed).law().draw(0, MESSAGES).tolist()
    with folder_of_schedule() as folder:
        driver = Driver([cluster.url, json.dumps(settings), live.brokers, source, sink, parts, str(folder)], folder)
        driver.start()
        try:
            producer = threading.Thread(target=live.produce, args=(source, keys, SOURCES, RATE))
            producer.start()
            for fault in faults:
                wait_for_deliveries(live, sink, parts)
                time.sleep(chance.uniform(0, WITHIN))
                if fault == "driver":
                    driver.kill()
                    driver.start()
                else:
                    kill_executor(cluster, chance)
            producer.join()
            return settled(live, faults, folder, Counter(map(str, keys)), source, sink, parts)
        finally:
            driver.kill()


def wait_for_deliveries(live: Engine, *topics: str) -> None:
    """Wait until every topic gets messages; they may have got all of them already."""
    before = [live.size(topic) for topic in topics]
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if all(live.size(topic) > old or old >= MESSAGES for topic, old in zip(topics, before, strict=True)):
            return
        time.sleep(0.2)
    raise SystemExit(f"no deliveries within {_PATIENCE:.0f} s")


def kill_executor(cluster: Cluster, chance: random.Random) -> None:
    """Kill one executor; wait for one to appear if there is none at this moment."""
    for _ in range(100):
        found = cluster.executors()
        if found:
            cluster.kill_executor(chance.choice(found))
            return
        time.sleep(0.2)
    raise ClusterError("no executor appeared within 20 s")


def settled(
    live: Engine, faults: list[str], folder: Path, plain: Counter[str], source: str, sink: str, parts: str
) -> Outcome:
    """Wait until everything has arrived and nothing changes any more, then compare."""
    end, seen, since = time.monotonic() + _PATIENCE, (-1, -1), time.monotonic()
    while time.monotonic() < end:
        now = (live.size(sink), live.size(parts))
        if now != seen:
            seen, since = now, time.monotonic()
        elif min(now) >= MESSAGES and time.monotonic() - since > _QUIET:
            break
        time.sleep(0.5)
    numbers_ = F.split(F.col("value").cast("string"), ",")[0].cast("int")
    delivered = Counter(row[0] for row in live.messages(sink).select(numbers_).collect())
    stream = live.read(source).withColumn("key", F.col("key").cast("string"))
    counted = counts(stream)
    written = live.messages(parts).select(
        F.from_json(F.col("value").cast("string"), counted.schema).alias("part"), "offset"
    )
    answer = Counter({row.key: row.n for row in counted.result(written.select("part.*", "offset"), "offset").collect()})
    wrong = sum(abs(answer[key] - plain[key]) for key in {*answer, *plain})
    return Outcome(
        faults=faults,
        failures=len([*folder.glob("failed-*")]),
        lost=MESSAGES - len(delivered),
        twice=sum(delivered.values()) - len(delivered),
        wrong=wrong,
    )


@contextmanager
def folder_of_schedule() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        yield Path(name)


def main() -> int:
    schedules, first = numbers(schedules=10, first=1)
    table = []
    with (
        engine(slots=2, **{"spark.sql.shuffle.partitions": WORKERS}) as live,
        Cluster(EXECUTORS, cores=CORES) as cluster,
    ):
        names = ("spark.jars", "spark.python.", "spark.sql.", "spark.shuffle.streaming.")
        of_session = dict(live.spark.sparkContext.getConf().getAll())
        settings = {name: value for name, value in of_session.items() if name.startswith(names)} | cluster.settings
        outcomes = []
        for seed in range(first, first + schedules):
            found = run(live, cluster, settings, seed)
            outcomes.append(found)
            row = (", ".join(found.faults), found.failures, found.lost, found.twice, found.wrong)
            console.print(f"schedule {seed}:", *row)  # a long run may be interrupted before its table
            table.append([seed, *row, verdict(found.holds)])
    columns = ["schedule", "kill -9 of", "restarts", "lost", "twice", "wrong", "verdict"]
    show(f"{MESSAGES:,} messages per schedule, n = {WORKERS}, batches of 5 s", columns, table)
    return int(not all(found.holds for found in outcomes))


if __name__ == "__main__":
    sys.exit(main())
