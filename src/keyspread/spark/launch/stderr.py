"""The JVM's standard error: held back while Spark starts, shown if the start fails, passed on afterwards."""

import contextlib
import os
import re
import threading

# The library behind Spark's sketches prints this once; the sketches work.
_HARMLESS = b"Java versions > Java 11 can only operate in restricted mode"
_UNRESOLVED = re.compile(rb"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+)")
_STARTED, _FAILED = b"\0keyspread: started\n", b"\0keyspread: failed\n"


class StartupErrors:
    """A successful start shows nothing of the JVM's standard error, a failed one all of it; later lines are shown.

    On a successful start, the JVM's own warnings and the list of downloaded packages are dropped. If Spark logs an
    error but starts, the error and all lines after it are shown.

    Only the JVM's process gets `descriptor`, so that the output of Python is not held back. If a package cannot be
    downloaded, `unresolved` names it, and the resolver's report of eighty lines is not shown.
    """

    unresolved: tuple[str, ...] = ()
    """Packages of spark.jars.packages that were not found, after a failed start."""

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
                    self.unresolved = _unresolved(held) if line == _FAILED else ()
                    if not self.unresolved:
                        _show(b"".join(held if line == _FAILED else _from_first_error(held)))
                    self._settled.set()
                else:
                    held.append(line)


def _unresolved(lines: list[bytes]) -> tuple[str, ...]:
    """Return ('group:module:version',) for lines such as '… unresolved dependency: group#module;version: not found'."""
    found = (match for match in map(_UNRESOLVED.search, lines) if match)
    return tuple(dict.fromkeys(b":".join(match.groups()).decode() for match in found))


def _from_first_error(lines: list[bytes]) -> list[bytes]:
    first = next((i for i, line in enumerate(lines) if b" ERROR " in line), len(lines))
    return lines[first:]


def _show(text: bytes) -> None:
    # Not sys.stderr: Python aborts if a daemon thread holds its lock at exit. If standard error is closed, errors are
    # ignored, because the pipe must be emptied, or the JVM would wait for room in it.
    with contextlib.suppress(OSError):
        os.write(2, text)
