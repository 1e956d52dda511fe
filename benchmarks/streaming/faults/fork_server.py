"""A process that has imported pyspark and forks the helpers that Spark starts for stateful queries.

In every batch of a stateful query Spark starts a Python process on the driver, gives it ten seconds to connect, and
fails the query otherwise. Importing pyspark takes most of a second of CPU: too long on a machine with 20 processes per
core. So PYSPARK_PYTHON is a script that asks this server for such a process, and runs Python for everything else.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HELPER = "pyspark.sql.streaming.transform_with_state_driver_worker"


class ForkServer:
    """The server as a process; `python` is the script for PYSPARK_PYTHON."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __enter__(self) -> "ForkServer":
        """Start it. A helper that comes too early waits in the queue of the socket."""
        self.folder = tempfile.TemporaryDirectory(prefix="keyspread-fork-")
        address, self.python = Path(self.folder.name) / "socket", Path(self.folder.name) / "python"
        script = f"""#!/bin/sh
if [ "$2" = {HELPER} ]; then exec "{sys.executable}" -I -S "{__file__}" ask "{address}"; fi
exec "{sys.executable}" "$@"
"""
        self.python.write_text(script)
        self.python.chmod(0o755)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(address))
        listening.listen(100)
        command = [sys.executable, __file__, "serve", str(listening.fileno())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, pass_fds=[listening.fileno()], stdout=log, stderr=log)
        listening.close()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def serve(listening: socket.socket) -> None:
    """Fork a helper for everyone who asks."""
    import pyspark.sql.session
    import pyspark.sql.streaming.stateful_processor_api_client
    import pyspark.worker  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system removes those that have ended
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            environment = json.loads(asking.makefile().readline())
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = [HELPER]
            runpy.run_module(HELPER, run_name="__main__", alter_sys=True)
            os._exit(0)
        asking.close()


def ask(address: str) -> None:
    """Ask for a helper with the environment of this process, and wait until it has ended."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        server.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
        server.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2])
    else:
        serve(socket.socket(fileno=int(sys.argv[2])))
