"""Standard error while Spark runs: held back, so that a failure is one line and a good run says nothing.

It is the descriptor that is held, not `sys.stderr`: the JVM and its Python workers write there as well.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

from rich.console import Console


class Held:
    """What was said on standard error meanwhile; `console` still reaches the terminal."""

    def __init__(self, console: Console | None, file: BinaryIO | None) -> None:
        self.console = console
        self._file = file

    def text(self) -> str:
        """Give all of it so far."""
        if self._file is None:
            return ""
        sys.stderr.flush()
        self._file.seek(0)
        return self._file.read().decode("utf-8", "replace")


@contextmanager
def held(active: bool = True) -> Iterator[Held]:
    """Hold back descriptor 2 within the block, if `active`; a console is there if somebody is watching."""
    watched = sys.stderr.isatty()
    try:
        real = os.dup(2)
    except OSError:  # closed by whoever started us: nothing to hold
        yield Held(None, None)
        return
    terminal: TextIO = os.fdopen(real, "w", encoding=getattr(sys.stderr, "encoding", None) or "utf-8", errors="replace")
    console = Console(file=terminal, force_terminal=True) if watched else None
    try:
        if not active:
            yield Held(console, None)
            return
        with tempfile.TemporaryFile() as file:
            sys.stderr.flush()
            os.dup2(file.fileno(), 2)
            try:
                yield Held(console, file)
            finally:
                with suppress(OSError):
                    sys.stderr.flush()
                os.dup2(real, 2)
    finally:
        terminal.close()
