"""A Spark cluster on this machine, to test what only a cluster does: lost executors, rows that leave a process."""

import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

import keyspread
from keyspread import checks
from keyspread.errors import KeyspreadError
from keyspread.spark._launch.java import use_java

_HOST = "127.0.0.1"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_LINES = 15  # of a log, in an error
_Found = TypeVar("_Found")


class ClusterError(KeyspreadError):
    """The cluster did not start or has no executor; the message includes the end of the log."""


class Cluster:
    """A master and workers that only this machine can reach; every application gets one executor per worker.

    All processes end with the block, even if it fails or is interrupted. The logs of the master, the workers and their
    executors are in `folder`, which is deleted unless the block raises.

    >>> from keyspread.spark import session
    >>> from keyspread.spark._launch.cluster import Cluster
    >>> with Cluster(workers=2) as cluster:  # doctest: +SKIP
    ...     spark = session(master=cluster.url, **cluster.settings)
    ...     spark.range(10).count()
    10
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, memory: str = "1g", patience: float = 60) -> None:
        self._workers = checks.whole_number("workers", workers)
        self._cores = checks.whole_number("cores", cores)
        self._memory = memory
        self._patience = checks.not_negative("patience", patience)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder = Path()
        self.url = ""

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a session, in addition to `master=cluster.url`."""
        return {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": self._memory,
            # As if every executor had its own machine: the files of a lost executor are lost too.
            "spark.shuffle.readHostLocalDisk": "false",
        }

    def __enter__(self) -> "Cluster":
        """Start the cluster, and wait until every worker is registered."""
        self.folder = Path(tempfile.mkdtemp(prefix="keyspread-cluster-"))
        atexit.register(self.stop)
        _exit_when_terminated()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Stop the cluster; keep the logs after an error."""
        self.stop()
        if error is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            error.add_note(f"the logs of the cluster are in {self.folder}")

    def stop(self) -> None:
        """End every process; may be called again."""
        atexit.unregister(self.stop)
        before = running_processes()
        children = self._descendants(before)
        # On SIGTERM a worker ends its executors, and these end their Python workers. Workers end before the master,
        # because a worker that loses its master would try to reconnect.
        for name in sorted(self._processes, reverse=True):
            process = self._processes[name]
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                _signal_group(process.pid, signal.SIGKILL)
                process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # executors that are still running
        after = running_processes()
        for pid in children:  # processes that left the group, as Python workers do
            if pid in after and after[pid][1] == before[pid][1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._processes.clear()

    def executors(self) -> list[int]:
        """Return the process ids of all running executors, of any application."""
        running = running_processes()
        return sorted(pid for pid in self._descendants(running) if _EXECUTOR in running[pid][1])

    def kill_executor(self, pid: int | None = None) -> int:
        """Kill an executor, as a crash would, and return its process id; without `pid`, kill the first one.

        Its worker starts another one.
        """
        found = self.executors()
        if pid is None and found:
            pid = found[0]
        if pid not in found:
            raise ClusterError(
                f"there is no executor to kill (pid {pid}, running: {found or 'none'}): start a job first"
            )
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def _start(self) -> None:
        use_java()
        master = ["master.Master", "--host", _HOST, "--port", "0", "--webui-port", "0"]
        self._launch("master", master)
        self.url = self._wait("master", lambda: self._in_log(r"Starting Spark master at (spark://\S+)"))
        page = self._wait("master", lambda: self._in_log(r"Successfully started service 'MasterUI' on port (\d+)"))
        for number in range(self._workers):
            name = f"worker-{number}"
            (self.folder / name).mkdir()
            place = ["--host", _HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(self.folder / name)]
            self._launch(
                name, ["worker.Worker", *place, "--cores", str(self._cores), "--memory", self._memory, self.url]
            )
        self._wait(f"worker-{self._workers - 1}", lambda: self._all_registered(f"http://{_HOST}:{page}/json/"))

    def _launch(self, name: str, command: list[str]) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        # The user's SPARK_HOME, spark-env.sh and so on may belong to another Spark.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        package = str(Path(keyspread.__file__).parent.parent)
        environment |= {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_DIRS": str(self.folder / "blocks"),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
        }
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,  # a process group, which Ctrl-C does not reach before us
            )

    def _wait(self, name: str, ask: Callable[[], _Found | None]) -> _Found:
        """Call `ask` until it returns a value; if time runs out, show the log of `name`."""
        end = time.monotonic() + self._patience
        while True:
            answer = ask()
            if answer is not None:
                return answer
            for each, process in self._processes.items():
                if process.poll() is not None:
                    code = process.returncode
                    raise ClusterError(f"{each} of the cluster ended with exit code {code}{self._tail(each)}")
            if time.monotonic() > end:
                raise ClusterError(f"the cluster was not ready within {self._patience:g} s{self._tail(name)}")
            time.sleep(0.05)

    def _in_log(self, pattern: str) -> str | None:
        found = re.search(pattern, self._log("master").read_text(errors="replace"))
        return found[1] if found else None

    def _all_registered(self, page: str) -> bool | None:
        try:
            with urlopen(page, timeout=5) as answer:
                workers = json.load(answer)["workers"]
        except (OSError, ValueError, KeyError):  # not ready yet
            return None
        return True if sum(worker["state"] == "ALIVE" for worker in workers) == self._workers else None

    def _descendants(self, running: dict[int, tuple[int, str]]) -> list[int]:
        started = [process.pid for process in self._processes.values()]
        found = list(started)
        for each in found:
            found += [child for child, (parent, _) in running.items() if parent == each]
        return found[len(started) :]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _tail(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").splitlines()[-_LINES:]
        return "\n".join([f"; the end of {self._log(name)}:", *lines])


def _exit_when_terminated() -> None:
    """Make SIGTERM end this process as `sys.exit` does, so that the cluster ends too, unless it has a handler."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def running_processes() -> dict[int, tuple[int, str]]:
    """Return all processes of this machine: process id -> (parent's process id, command line)."""
    if not Path("/proc/self/stat").exists():  # macOS
        table = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True).stdout
        rows = (line.split(None, 2) for line in table.splitlines())
        return {int(row[0]): (int(row[1]), row[2] if len(row) > 2 else "") for row in rows}
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended in the meantime
            continue
        if state != "Z":
            found[int(folder.name)] = (int(parent), command)
    return found


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended; macOS denies permission for zombies
        os.killpg(pid, number)
