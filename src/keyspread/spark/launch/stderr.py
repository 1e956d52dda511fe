"""The JVM's standard error: held back while Spark starts, shown if that fails, passed on afterwards.

May be changed here: what counts as worth showing. Nothing else reads what the JVM writes.
"""

import contextlib
import os
import threading

# Printed once by the library behind Spark's sketches; they work all the same.
_HARMLESS = b"Java versions > Java 11 can only operate in restricted mode"
_STARTED, _FAILED = b"\0keyspread: started\n", b"\0keyspread: failed\n"


class StartupErrors:
    """Nothing on standard error while the JVM starts well; all of it if the block raises; every later line.

    A good start prints the JVM's warnings about itself and a list of downloaded packages, which are dropped.
    If Spark logs an error and starts all the same, it is shown with all that follows.

    `descriptor` goes to the JVM's process only, so that what Python prints meanwhile is not held back.
    """

    def __enter__(self) -> "StartupErrors":
        """Open the pipe and start to read it."""
        self._read, self.descriptor = os.pipe()
        self._settled = threading.Event()
        # A daemon: it ends with the JVM, or with this process if that comes first.
        threading.Thread(target=self._pass_on, name="keyspread-jvm-stderr", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say in the pipe itself how it went, so that exactly the lines before this one count as start-up."""
        os.write(self.descriptor, _STARTED if kind is None else _FAILED)
        os.close(self.descriptor)
        self._settled.wait(timeout=5)  # the reason of a failure is to be read above the exception

    def _pass_on(self) -> None:
        held: list[bytes] = []
        starting = True
        with os.fdopen(self._read, "rb") as pipe:
            for line in pipe:
                if not starting:
                    if _HARMLESS not in line:
                        _show(line)
                elif line in (_STARTED, _FAILED):
                    starting = False
                    _show(b"".join(held if line == _FAILED else _from_first_error(held)))
                    self._settled.set()
                else:
                    held.append(line)


def _from_first_error(lines: list[bytes]) -> list[bytes]:
    first = next((i for i, line in enumerate(lines) if b" ERROR " in line), len(lines))
    return lines[first:]


def _show(text: bytes) -> None:
    # Not sys.stderr: a daemon thread that holds its lock at exit makes Python abort. If nobody listens any
    # more, the pipe must be emptied all the same, or the JVM waits for room in it.
    with contextlib.suppress(OSError):
        os.write(2, text)
