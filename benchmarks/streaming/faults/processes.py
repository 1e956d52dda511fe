"""The processes of the campaign: drivers, their executors, and the Python workers of these."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from keyspread.errors import KeyspreadError
from keyspread.spark._launch.cluster import Cluster, running_processes
from keyspread.spark._launch.java import SHORT_LIVED

EXECUTORS, CORES = 3, 4
HERE = Path(__file__).parent.parent
SHORT = f"{SHORT_LIVED} -XX:+UseSerialGC"
SETTINGS = {
    "spark.executor.cores": CORES,
    "spark.cores.max": EXECUTORS * CORES,  # half of the cluster: a second driver needs executors too
    "spark.executor.memory": "900m",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT,
    "spark.executor.extraJavaOptions": SHORT,
    "spark.python.daemon.module": "keyspread.paper.deployment.kernel_daemon",  # Python workers start with the kernels
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.shuffle.io.retryWait": "100ms",  # do not wait long for a killed executor
    "spark.sql.files.minPartitionNum": EXECUTORS * CORES,  # the same input partitions, however many executors live
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.codegen.wholeStage": "false",  # rows are few: compiling an expression takes longer than evaluating it
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}
CRASHES = 5  # of a driver that nobody killed
PATIENCE = 300  # seconds to wait for something that will happen; then the schedule has failed


def wait_until(ask: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Ask until the answer is yes; return False when time is over."""
    until = time.monotonic() + seconds
    while not ask():
        if time.monotonic() > until:
            return False
        time.sleep(0.03)
    return True


def python_path() -> str:
    """Return a path on which every process finds this package."""
    return os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])


class Driver:
    """A driver in a process of its own."""

    def __init__(self, cluster: Cluster, work: Path, speculation: bool, second: bool = False) -> None:
        self.cluster, self.work, self.speculation, self.second = cluster, work, speculation, second
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0

    @property
    def _name(self) -> Path:
        return self.work / ("second-application" if self.second else "application")

    def start(self) -> None:
        """Start the process; it serves the present group as soon as it has executors."""
        self._name.unlink(missing_ok=True)
        settings = {**self.cluster.settings, **SETTINGS, **(SPECULATION if self.speculation else {})}
        command = [sys.executable, "-m", "faults.driver", self.cluster.url, json.dumps(settings), str(self.work)]
        with (self.work / ("second.log" if self.second else "driver.log")).open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *(["second"] if self.second else [])],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": python_path()},
                start_new_session=True,
            )

    def runs(self) -> bool:
        """Tell whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def restart_after_crash(self) -> None:
        """Start a driver that ended by itself again, unless it always does."""
        self.crashes += 1
        if self.crashes > CRASHES:
            raise KeyspreadError(f"the driver ended by itself {self.crashes} times: see {self.work / 'driver.log'}")
        self.kill()
        self.start()

    def kill(self) -> None:
        """End the process and its JVM at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def executors(self) -> list[int]:
        """Return the executors of this driver."""
        try:
            application = self._name.read_text().split()[1]
        except (FileNotFoundError, IndexError):
            return []
        running = running_processes()
        return [pid for pid in self.cluster.executors() if application in running.get(pid, (0, ""))[1]]

    def executor_of(self, python_worker: int) -> int | None:
        """Return the executor that a Python worker belongs to."""
        running = running_processes()
        daemon = running.get(python_worker, (0, ""))[0]
        executor = running.get(daemon, (0, ""))[0]
        return executor if executor in self.executors() else None

    def python_workers(self) -> list[int]:
        """Return the Python workers of all executors: the children of their daemons."""
        running = running_processes()
        executors = set(self.executors())
        daemons = {pid for pid, (parent, _) in running.items() if parent in executors}
        return [pid for pid, (parent, command) in running.items() if parent in daemons and "python" in command]


def send(pid: int, number: int) -> bool:
    """Send a signal; return whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def pick(dice: random.Random, found: Callable[[], list[int]]) -> int | None:
    """Return one of the processes, waiting until there is one."""
    wait_until(lambda: bool(found()), 60)
    running = found()
    return dice.choice(running) if running else None
