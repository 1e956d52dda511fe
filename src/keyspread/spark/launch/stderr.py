"""The JVM's standard error: held back while Spark starts, shown if the start fails, passed on afterwards."""

import contextlib
import os
import threading

# The library behind Spark's sketches prints this once; the sketches work.
_HARMLESS = b"Java versions > Java 11 can only operate in restricted mode"
_STARTED, _FAILED = b"\0keyspread: started\n", b"\0keyspread: failed\n"


class StartupErrors:
    """A successful start shows nothing of the JVM's standard error, a failed one all of it; later lines are shown.

    On a successful start, the JVM's own warnings and the list of downloaded packages are dropped. If Spark logs an
    error but starts, the error and all lines after it are shown.

    Only the JVM's process gets `descriptor`, so that the output of Python is not held back.
    """

    def __enter__(self) -> "StartupErrors":
        """Open the pipe and start reading it."""
        self._read, self.descriptor = os.pipe()
        self._settled = threading.Event()
        # A daemon thread: it ends with the JVM or with this process, whichever ends first.
        threading.Thread(target=self._pass_on, name="keyspread-jvm-stderr", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the outcome into the pipe itself, so that exactly the lines before it count as start-up."""
        os.write(self.descriptor, _STARTED if kind is None else _FAILED)
        os.close(self.descriptor)
        self._settled.wait(timeout=5)  # so that the reason of a failure is printed above the exception

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
    # Not sys.stderr: Python aborts if a daemon thread holds its lock at exit. If standard error is closed, errors are
    # ignored, because the pipe must be emptied, or the JVM would wait for room in it.
    with contextlib.suppress(OSError):
        os.write(2, text)
