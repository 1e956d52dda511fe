"""Standard error while Spark runs: held back, so that a good run prints nothing and a failure is one line.

The file descriptor is held, not `sys.stderr`, because the JVM and its Python workers write to it as well.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

from rich.console import Console


class HeldStderr:
    """What was written to standard error meanwhile; `console` still reaches the terminal, if there is one."""

    def __init__(self, console: Console | None, file: BinaryIO | None, real: TextIO | None = None) -> None:
        self.console = console
        self._file, self._real = file, real

    def note(self, message: str) -> None:
        """Print a note on the real standard error at once, watched or not."""
        if self._real is not None:
            print("keyspread: note:", message, file=self._real, flush=True)

    def text(self) -> str:
        """Return everything written so far."""
        if self._file is None:
            return ""
        sys.stderr.flush()
        self._file.seek(0)
        return self._file.read().decode("utf-8", "replace")


@contextmanager
def hold_stderr(active: bool = True) -> Iterator[HeldStderr]:
    """Hold back file descriptor 2 within the block, if `active`. `console` is None if nobody is watching."""
    watched = sys.stderr.isatty()
    try:
        real = os.dup(2)
    except OSError:  # the parent process closed it: there is nothing to hold
        yield HeldStderr(None, None)
        return
    terminal: TextIO = os.fdopen(real, "w", encoding=getattr(sys.stderr, "encoding", None) or "utf-8", errors="replace")
    console = Console(file=terminal, force_terminal=True) if watched else None
    try:
        if not active:
            yield HeldStderr(console, None, terminal)
            return
        with tempfile.TemporaryFile() as file:
            sys.stderr.flush()
            os.dup2(file.fileno(), 2)
            try:
                yield HeldStderr(console, file, terminal)
            finally:
                with suppress(OSError):
                    sys.stderr.flush()
                os.dup2(real, 2)
    finally:
        terminal.close()
